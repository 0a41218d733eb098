CREATE TABLE j(id int PRIMARY KEY, j json, n int);
INSERT INTO j VALUES (1, '{}', 0), (2, '[]', 0), (3, 'null', 0), (4, NULL, 0), (5, 'true', 0), (6, '"text"', 0), (7, '-1', 0), (8, '1.0', 0), (9, '{"v":1e15,"a":9007199254740993}', 0), (10, '[18446744073709551615, -9223372036854775808, 32767, -32768, 65535, 65536, 2147483648]', 0);
INSERT INTO j VALUES (11, '{"bb": 1, "a": {"x": [1, 2.5, -0.0, 1e308, 1e-7, 1e21, 1e20, 123456789012345680000, 0.1]}, "ccc": "\\u00e9\\n\\t\\"\\\\\\u0001/\\ud83d\\ude00", "": false}', 0), (12, '[[], {}, [[]], {"a": {}}, null, true, false]', 0), (13, '{"k": 1, "k": 2}', 0);
INSERT INTO j VALUES (14, CONCAT('["', REPEAT('x', 127), '", "', REPEAT('y', 128), '", "', REPEAT('z', 300), '"]'), 0);
-- only mysql
INSERT INTO j VALUES (20, JSON_ARRAY(CAST('12.340' AS DECIMAL(10,3)), CAST('-99999999999999999999.5' AS DECIMAL(30,1)), CAST(18446744073709551615 AS UNSIGNED), 1.50, 0e0, 3e0, CAST(0.1 AS FLOAT)), 0);
-- only mysql
INSERT INTO j VALUES (21, JSON_ARRAY(DATE '2024-02-29', TIME '-12:34:56.5', TIMESTAMP '2024-02-29 12:34:56', TIMESTAMP '2024-02-29 12:34:56.789', TIME '838:59:59', CAST('2024-02-29 01:02:03.000001' AS DATETIME(6))), 0);
-- only mysql
INSERT INTO j VALUES (22, JSON_OBJECT('bin', CAST('abc' AS BINARY), 'bit', b'101', 'geo', ST_GeomFromText('POINT(1 2)'), 'enum', (SELECT 1), 'year', CAST(2024 AS YEAR)), 0);
-- only mysql
CREATE TABLE large(id int PRIMARY KEY, j json);
-- only mysql
INSERT INTO large SELECT 1, CAST(CONCAT('{"big": "', REPEAT('v', 65520), '", "n": [1, 70000, 3.5], "z": {"y": true}}') AS JSON);
-- only mysql
DROP TABLE large;
-- only mysql
INSERT INTO j VALUES (24, CAST('"scalar"' AS JSON), 0), (25, CAST(DATE '2024-02-29' AS JSON), 0), (26, CAST(12.50 AS JSON), 0), (27, CAST(X'00FF' AS JSON), 0), (28, CAST(1e16 AS JSON), 0), (29, CAST(-0e0 AS JSON), 0);
UPDATE j SET n = 1 WHERE id = 9;
UPDATE j SET j = JSON_SET(j, '$.a', 2) WHERE id = 9;
UPDATE j SET j = JSON_REMOVE(j, '$.bb') WHERE id = 11;
DELETE FROM j WHERE id IN (1, 2);
