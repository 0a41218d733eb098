SET GLOBAL binlog_checksum=NONE;
CREATE TABLE k(id int PRIMARY KEY, t text);
INSERT INTO k VALUES (1, 'one'), (2, 'two');
UPDATE k SET t = 'drei' WHERE id = 2;
FLUSH BINARY LOGS;
DELETE FROM k WHERE id = 1;
SET GLOBAL binlog_checksum=CRC32;
INSERT INTO k VALUES (3, 'three');
