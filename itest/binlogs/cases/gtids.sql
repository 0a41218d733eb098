CREATE TABLE g(id int PRIMARY KEY);
INSERT INTO g VALUES (1);
-- only mysql
SET gtid_next='AUTOMATIC:blue';
-- only mysql
INSERT INTO g VALUES (2);
-- only mysql
INSERT INTO g VALUES (3);
-- only mysql
SET gtid_next='11111111-2222-3333-4444-555555555555:7';
-- only mysql
INSERT INTO g VALUES (4);
-- only mysql
SET gtid_next='11111111-2222-3333-4444-555555555555:a_tag:9';
-- only mysql
BEGIN;
-- only mysql
COMMIT;
-- only mysql
SET gtid_next='AUTOMATIC';
-- only mariadb
SET gtid_domain_id=5;
-- only mariadb
INSERT INTO g VALUES (2);
-- only mariadb
SET gtid_domain_id=6, server_id=4000000000;
-- only mariadb
INSERT INTO g VALUES (3);
-- only mariadb
SET gtid_seq_no=18446744073709551000;
-- only mariadb
INSERT INTO g VALUES (4);
FLUSH BINARY LOGS;
INSERT INTO g VALUES (100);
