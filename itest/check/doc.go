// Package check breaks real servers in one way after the other and asks `rowtrail check --connect` what is wrong: each misconfiguration that
// the cases of MySQL, MariaDB and Postgres name is found before anything is created, with the statement that mends it, which is then run.
package check
