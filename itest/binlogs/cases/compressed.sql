-- only mysql
SET SESSION binlog_transaction_compression=ON;
CREATE TABLE c(id int PRIMARY KEY, t text);
CREATE TABLE d(id int PRIMARY KEY, t text);
-- only mariadb
SET GLOBAL log_bin_compress=ON;
-- only mariadb
SET GLOBAL log_bin_compress_min_len=10;
INSERT INTO c VALUES (1, REPEAT('a', 300)), (2, 'short'), (3, NULL);
BEGIN;
UPDATE c SET t = REPEAT('b', 400) WHERE id < 3;
INSERT INTO d VALUES (1, REPEAT('d', 300)), (2, '');
DELETE FROM c WHERE id = 3;
COMMIT;
-- only mysql
BEGIN;
-- only mysql
INSERT INTO c SELECT 100 + n, REPEAT(CHAR(97 + n % 26), 1000) FROM (WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 60) SELECT n FROM r) q;
-- only mysql
COMMIT;
CREATE TABLE e(id int PRIMARY KEY) COMMENT 'a comment that is long enough to be compressed, since the smallest length is set to so little here';
-- only mysql
SET SESSION binlog_transaction_compression=OFF;
-- only mysql
INSERT INTO d VALUES (3, 'plain');
-- only mariadb
SET binlog_format=STATEMENT;
-- only mariadb
INSERT INTO c VALUES (4, 'a statement that is long enough to be compressed, a statement that is long enough to be compressed, a statement');
-- only mariadb
SET binlog_format=ROW;
-- only mariadb
SET GLOBAL log_bin_compress=OFF;
-- only mariadb
CREATE TABLE cc(id int PRIMARY KEY, v varchar(1000) COMPRESSED, t text COMPRESSED, b blob COMPRESSED, vb varbinary(1000) COMPRESSED, lt longtext COMPRESSED, l1 text COMPRESSED CHARACTER SET latin1);
-- only mariadb
INSERT INTO cc VALUES (1, REPEAT('v', 500), REPEAT('é', 500), REPEAT(0x00, 500), REPEAT(0xFF, 500), REPEAT('l', 3000), REPEAT('é', 400)), (2, 'short', '', 0x00, '', 'x', 'é'), (3, NULL, NULL, NULL, NULL, NULL, NULL);
-- only mariadb
UPDATE cc SET v = REPEAT('w', 900), t = 'now short' WHERE id = 1;
-- only mariadb
DELETE FROM cc WHERE id = 2;
