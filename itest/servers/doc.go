// Package servers runs real database servers for tests, the demo and the benchmarks: Postgres, MySQL and MariaDB.
//
// A server comes from Docker when a daemon answers (an official image when it can be pulled, else one built from
// Debian packages by itest/images), else from local binaries, which are found in the usual places, unpacked from Debian
// packages into .cache, or, as root on Debian or Ubuntu, installed with apt. ROWTRAIL_ITEST_SERVERS=docker|local forces
// one of the two; ROWTRAIL_ITEST_IMAGES=pull|build forces where images come from; ROWTRAIL_ITEST_PG names the major
// version of Postgres; ROWTRAIL_ITEST_MYSQL names the flavour and version that MySQL tests get (mysql:9.7, mariadb:10.11
// or mariadb:11.8), or several with commas between, of which tests of one server get the first.
//
// Every server listens on 127.0.0.1 only and dies with the process that started it or, for a container, with the next
// run. Postgres trusts local connections; MySQL and MariaDB have a root with a password.
package servers
