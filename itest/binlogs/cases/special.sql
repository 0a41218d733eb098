CREATE TABLE geo(id int PRIMARY KEY, g geometry, p point, l linestring, poly polygon, mp multipoint, ml multilinestring, mpoly multipolygon, gc geometrycollection);
INSERT INTO geo VALUES (1, ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('POINT(-1.5 2.25)'), ST_GeomFromText('LINESTRING(0 0, 1 1, 2 2)'), ST_GeomFromText('POLYGON((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1))'), ST_GeomFromText('MULTIPOINT(1 1, 2 2)'), ST_GeomFromText('MULTILINESTRING((0 0, 1 1), (2 2, 3 3))'), ST_GeomFromText('MULTIPOLYGON(((0 0, 1 0, 1 1, 0 0)))'), ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2), LINESTRING(0 0, 1 1))')), (2, ST_GeomFromText('POINT(1 2)', 4326), NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
UPDATE geo SET p = ST_GeomFromText('POINT(0 0)') WHERE id = 2;
-- only mysql
CREATE TABLE vec(id int PRIMARY KEY, v vector(3), w vector);
-- only mysql
INSERT INTO vec VALUES (1, STRING_TO_VECTOR('[1, -2.5, 3e10]'), STRING_TO_VECTOR('[0]')), (2, NULL, NULL), (3, STRING_TO_VECTOR('[0.1, 0, -0]'), STRING_TO_VECTOR('[1, 2, 3, 4, 5]'));
-- only mariadb:11.8
CREATE TABLE vec(id int PRIMARY KEY, v vector(3) NOT NULL, w vector(1), VECTOR INDEX (v));
-- only mariadb:11.8
INSERT INTO vec VALUES (1, VEC_FromText('[1, -2.5, 3e10]'), VEC_FromText('[0]')), (2, VEC_FromText('[0, 0, 0]'), NULL);
-- only mariadb
CREATE TABLE ma(id uuid PRIMARY KEY, i4 inet4, i6 inet6, u uuid);
-- only mariadb
INSERT INTO ma VALUES ('123e4567-e89b-12d3-a456-426655440000', '10.0.0.1', '2001:db8::1', '00000000-0000-0000-0000-000000000000'), ('ffffffff-ffff-ffff-ffff-ffffffffffff', '255.255.255.255', '::', NULL), ('0188d8a6-0b4f-7c3e-8a12-000000000000', '0.0.0.0', '::ffff:192.0.2.128', '01890a5d-ac96-774b-bcce-b302099a8057'), ('00000000-0000-0000-0000-000000000000', NULL, 'fe80::1:0:0:1', NULL), ('f47ac10b-58cc-4372-a567-0e02b2c3d400', '10.0.0.0', 'ff00::', '6ba7b810-9dad-11d1-80b4-00c04fd43000');
-- only mariadb
UPDATE ma SET i4 = '127.0.0.1', i6 = '::1' WHERE id = '00000000-0000-0000-0000-000000000000';
-- only mariadb
DELETE FROM ma WHERE id = '123e4567-e89b-12d3-a456-426655440000';
CREATE TABLE gen(id int PRIMARY KEY AUTO_INCREMENT, a int, hidden int INVISIBLE DEFAULT 7, v int GENERATED ALWAYS AS (a * 2) VIRTUAL, s int GENERATED ALWAYS AS (a * 3) STORED, d timestamp DEFAULT '2024-01-01 00:00:00', e varchar(10) DEFAULT (CONCAT('x', 'y')));
INSERT INTO gen(a) VALUES (1), (2), (NULL);
UPDATE gen SET a = 10, hidden = 8 WHERE id = 1;
-- only mysql
SET sql_generate_invisible_primary_key=ON;
-- only mysql
CREATE TABLE gipk(a int);
-- only mysql
INSERT INTO gipk VALUES (1), (1);
-- only mysql
DELETE FROM gipk LIMIT 1;
-- only mysql
SET sql_generate_invisible_primary_key=OFF;
-- only mariadb
CREATE TABLE versioned(id int PRIMARY KEY, a int) WITH SYSTEM VERSIONING;
-- only mariadb
SET timestamp=1700000000.5;
-- only mariadb
INSERT INTO versioned VALUES (1, 1), (2, 2);
-- only mariadb
SET timestamp=1700000001.25;
-- only mariadb
UPDATE versioned SET a = 10 WHERE id = 1;
-- only mariadb
DELETE FROM versioned WHERE id = 2;
-- only mariadb
SET timestamp=DEFAULT;
-- only mariadb
CREATE SEQUENCE seq CACHE 10;
-- only mariadb
SELECT NEXTVAL(seq);
CREATE TABLE nokey(a int, b varchar(5));
INSERT INTO nokey VALUES (1, 'x'), (1, 'x'), (NULL, NULL);
DELETE FROM nokey LIMIT 1;
CREATE TABLE wide(id int PRIMARY KEY, c1 int, c2 int, c3 int, c4 int, c5 int, c6 int, c7 int, c8 int, c9 int, c10 int, c11 int, c12 int, c13 int, c14 int, c15 int, c16 int, c17 int);
INSERT INTO wide(id, c1, c8, c9, c16, c17) VALUES (1, 1, 8, 9, 16, 17), (2, NULL, NULL, NULL, NULL, NULL);
UPDATE wide SET c7 = 7, c8 = NULL, c17 = NULL WHERE id = 1;
