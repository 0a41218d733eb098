-- only mysql
CREATE TABLE p(id int PRIMARY KEY, j json, k json, n int);
-- only mysql
INSERT INTO p VALUES (1, '{"a": 1, "b": [1, 2, 3], "c": {"d": "some text that is long enough", "e": null}}', '[1, 2, 3, 4]', 0), (2, '{"a": "x"}', NULL, 0), (3, NULL, '{}', 0);
-- only mysql
SET binlog_row_value_options=PARTIAL_JSON;
-- only mysql
UPDATE p SET j = JSON_SET(j, '$.a', 2) WHERE id = 1;
-- only mysql
UPDATE p SET j = JSON_REPLACE(j, '$.b[1]', 'two', '$.c.d', 'short'), k = JSON_SET(k, '$[0]', 100) WHERE id = 1;
-- only mysql
UPDATE p SET j = JSON_REMOVE(j, '$.b[0]', '$.c.e'), n = n + 1 WHERE id = 1;
-- only mysql
UPDATE p SET j = JSON_SET(j, '$.b[5]', 'appended', '$.new', CAST('{"x": [true]}' AS JSON)) WHERE id = 1;
-- only mysql
UPDATE p SET j = JSON_SET(j, '$.a', 3), k = '[0]' WHERE id < 3;
-- only mysql
UPDATE p SET n = 7;
-- only mysql
UPDATE p SET j = JSON_SET(j, '$.a', 4), id = 11 WHERE id = 1;
-- only mysql
SET binlog_row_image=MINIMAL;
-- only mysql
UPDATE p SET j = JSON_SET(j, '$.a', 5) WHERE id = 11;
-- only mysql
UPDATE p SET j = '{"whole": 1}', n = 8 WHERE id = 2;
-- only mysql
SET binlog_row_image=NOBLOB;
-- only mysql
UPDATE p SET j = JSON_SET(j, '$.whole', 2) WHERE id = 2;
-- only mysql
SET binlog_row_image=FULL, SESSION binlog_transaction_compression=ON;
-- only mysql
UPDATE p SET j = JSON_SET(j, '$.a', 6) WHERE id = 11;
