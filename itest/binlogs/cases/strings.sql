SET sql_mode='';
CREATE TABLE keyed(id binary(4) PRIMARY KEY, v varbinary(8));
INSERT INTO keyed VALUES (0xAB000000, 0xAB000000), (0x00000000, ''), (0xABCDEF01, 0x00), (0x20202020, 0x2020), ('a', 'a');
UPDATE keyed SET v = 0x0000 WHERE id = 0xAB000000;
DELETE FROM keyed WHERE id = 0xAB000000;
CREATE TABLE texts(id int PRIMARY KEY, c0 char(0), c1 char(1), c char(255), v0 varchar(0), v varchar(63), v255 varchar(255), v300 varchar(300), tt tinytext, t text, mt mediumtext, lt longtext, n nchar(5)) CHARACTER SET utf8mb4;
INSERT INTO texts VALUES (1, '', 'é', 'abc   ', '', 'x  ', 'ä', '漢字', 'tiny', 'text', 'medium', 'long', 'n'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, '', '', '', '', '', '', '', '', '', '', '', ''), (4, '', '😀', REPEAT('😀', 255), '', REPEAT('x', 63), REPEAT('é', 255), REPEAT('😀', 300), REPEAT('t', 255), 'a\0b', 'line\nline\ttab\\"''', '\Z', 'nnnnn');
CREATE TABLE blobs(id int PRIMARY KEY, b0 binary(0), b1 binary, b255 binary(255), v0 varbinary(0), v255 varbinary(255), v256 varbinary(256), tb tinyblob, b blob, mb mediumblob, lb longblob);
INSERT INTO blobs VALUES (1, '', 0x00, 0xFF, '', 0x00FF, REPEAT(0x01, 256), 0x00, 0x0001, 0xDEADBEEF, 0x00), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, '', '', '', '', '', '', '', '', '', ''), (4, '', 'x', REPEAT('x', 255), '', REPEAT('y', 255), REPEAT('z', 255), REPEAT('t', 255), REPEAT('b', 300), REPEAT('m', 300), REPEAT('l', 300));
UPDATE blobs SET b1 = 0x01, lb = NULL WHERE id < 3;
CREATE TABLE charsets(id int PRIMARY KEY, a varchar(20) CHARACTER SET ascii, l1 varchar(20) CHARACTER SET latin1, l2 char(20) CHARACTER SET latin2, l5 varchar(20) CHARACTER SET latin5, l7 varchar(20) CHARACTER SET latin7, u3 varchar(20) CHARACTER SET utf8mb3, u4 char(20) CHARACTER SET utf8mb4, u16 varchar(20) CHARACTER SET utf16, u16le char(20) CHARACTER SET utf16le, u32 char(20) CHARACTER SET utf32, u2 varchar(20) CHARACTER SET ucs2, bin varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin);
INSERT INTO charsets VALUES (1, 'abc', 'é€ÿ', 'łčů', 'ğış', 'ąžė', '漢é', '😀é', '😀漢', '😀漢', '😀漢', '漢é', 'Aa'), (2, '', '', '', '', '', '', '', '', '', '', '', ''), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE asian(id int PRIMARY KEY, gbk varchar(20) CHARACTER SET gbk, gb2312 char(20) CHARACTER SET gb2312, big5 varchar(20) CHARACTER SET big5, sjis varchar(20) CHARACTER SET sjis, cp932 text CHARACTER SET cp932, ujis varchar(20) CHARACTER SET ujis, eucjpms varchar(20) CHARACTER SET eucjpms, euckr varchar(20) CHARACTER SET euckr, tis620 varchar(20) CHARACTER SET tis620);
INSERT INTO asian VALUES (1, '漢字中', '汉字中', '漢字中', '漢字カナ', '①漢字', '漢字カ', '①漢字', '한국', 'ไทย');
CREATE TABLE european(id int PRIMARY KEY, koi8r varchar(20) CHARACTER SET koi8r, koi8u varchar(20) CHARACTER SET koi8u, cp1251 char(20) CHARACTER SET cp1251, cp1250 varchar(20) CHARACTER SET cp1250, cp1256 varchar(20) CHARACTER SET cp1256, cp1257 varchar(20) CHARACTER SET cp1257, cp850 varchar(20) CHARACTER SET cp850, cp852 varchar(20) CHARACTER SET cp852, cp866 varchar(20) CHARACTER SET cp866, greek varchar(20) CHARACTER SET greek, hebrew varchar(20) CHARACTER SET hebrew, armscii8 varchar(20) CHARACTER SET armscii8, geostd8 varchar(20) CHARACTER SET geostd8, dec8 varchar(20) CHARACTER SET dec8, hp8 varchar(20) CHARACTER SET hp8, macroman varchar(20) CHARACTER SET macroman, macce varchar(20) CHARACTER SET macce, swe7 varchar(20) CHARACTER SET swe7, keybcs2 varchar(20) CHARACTER SET keybcs2);
INSERT INTO european VALUES (1, 'Привет', 'Київ', 'Привет', 'łčů', 'عرب', 'ąžė', 'éü', 'łč', 'Привет', 'αβγ', 'שלום', 'Հայ', 'ქართ', 'é', 'é', 'é', 'č', 'å', 'č');
-- only mysql
CREATE TABLE newer(id int PRIMARY KEY, gb varchar(20) CHARACTER SET gb18030, ja varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_ja_0900_as_cs, zh char(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_zh_0900_as_cs);
-- only mariadb
CREATE TABLE newer(id int PRIMARY KEY, gb varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_ai_ci, ja varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_swedish_as_cs, zh char(20) CHARACTER SET utf16 COLLATE utf16_uca1400_ai_ci);
INSERT INTO newer VALUES (1, '漢字😀', '日本', '中文');
SET NAMES latin1;
-- only mysql
INSERT INTO newer VALUES (2, _utf8mb4 0xE6BCA2, _latin1 0xE9, 'x');
SET NAMES utf8mb4;
CREATE TABLE `ta``ble é`(`co``l é` int PRIMARY KEY, `sp ace` varchar(5));
INSERT INTO `ta``ble é` VALUES (1, 'x');
DROP TABLE `ta``ble é`;
