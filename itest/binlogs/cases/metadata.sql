SET GLOBAL binlog_row_metadata=MINIMAL;
CREATE TABLE m(id int unsigned PRIMARY KEY, b bigint unsigned, c char(10) CHARACTER SET latin1, v varchar(300) CHARACTER SET utf8mb4, bin varbinary(10), e enum('x', 'y'), s set('a', 'b'), g geometry, d decimal(10,2) unsigned, t text);
INSERT INTO m VALUES (4294967295, 18446744073709551615, 'é', '漢', 0x00, 'y', 'a,b', ST_GeomFromText('POINT(1 2)'), 1.5, 'text'), (1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
UPDATE m SET e = 'x' WHERE id = 4294967295;
-- only mariadb
SET GLOBAL binlog_row_metadata=NO_LOG;
-- only mariadb
UPDATE m SET e = 'y' WHERE id = 4294967295;
SET GLOBAL binlog_row_metadata=FULL;
UPDATE m SET s = 'a' WHERE id = 4294967295;
ALTER TABLE m ADD first_ int DEFAULT 5 FIRST;
INSERT INTO m(id) VALUES (2);
DELETE FROM m WHERE id = 2;
CREATE TABLE prefixed(v varchar(20), t text, n int, PRIMARY KEY (t(3), v, n));
INSERT INTO prefixed VALUES ('a', 'abcdef', 1);
UPDATE prefixed SET t = 'abcxyz' WHERE n = 1;
