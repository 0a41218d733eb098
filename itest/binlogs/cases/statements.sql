CREATE TABLE s(id int PRIMARY KEY AUTO_INCREMENT, v varchar(50), t timestamp(3) NULL);
SET binlog_format=STATEMENT;
INSERT INTO s(v) VALUES ('by statement');
SET @u='a variable';
INSERT INTO s(v) VALUES (@u), (IF(RAND() < 2, 'random', ''));
UPDATE s SET v = 'é' WHERE id = 1;
SELECT id, v FROM s WHERE id < 3 INTO OUTFILE 'rows.txt';
TRUNCATE TABLE s;
LOAD DATA INFILE 'rows.txt' INTO TABLE s (id, v);
SET binlog_format=MIXED;
INSERT INTO s(v) VALUES ('mixed, safe');
INSERT INTO s(v) VALUES (CONCAT('mixed, unsafe', LEFT(UUID(), 0)));
DELETE FROM s WHERE id > 2;
SET binlog_format=ROW;
DELETE FROM s;
LOAD DATA INFILE 'rows.txt' INTO TABLE s (id, v);
-- only mysql
SET binlog_rows_query_log_events=ON;
INSERT INTO s(v) VALUES ('with its statement');
-- only mysql
SET binlog_rows_query_log_events=OFF;
