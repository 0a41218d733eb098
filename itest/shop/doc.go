// Package shop is the schema and workload that the demo, the soak and the benchmarks run: a small shop whose tables
// exercise what capture must get right (keys that change, long values that stay as they are, many types), in a database of Postgres, MySQL
// or MariaDB. Every row carries rev, which each write of that row raises by one, so that a reader can tell order and completeness by itself.
package shop
