// Package audit compares what a source database committed with what stands in the log. The source's side is read by others: Postgres's
// through a second slot with the server's own test_decoding, MySQL's and MariaDB's out of the binary log with go-mysql's decoder, so that
// nothing of Rowtrail judges itself.
package audit
