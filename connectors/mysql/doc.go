// Package mysql is the source of MySQL and MariaDB: their binlog, read as a replica reads it, written into the log by
// connectors.Writer.
//
// Two goroutines share the stream. The receiver (receive.go) only reads the connection and hands over bounded chunks of events. The
// decoder (stream.go, group.go, change.go, statement.go) turns them into records. Beside them, watch.go looks how far the source's
// binlog goes, for the lag.
//
// Position is the set of executed GTIDs, or where there are none (gtid_mode other than ON) the server's UUID with file and position.
// It is compared with the server before the dump: what is purged there and not in the log is a gap, and stops the connector.
// The order of transactions is a count that the resume point keeps, as neither GTIDs nor positions of two servers have one.
//
// A group of events ends where the server commits it: XID, COMMIT, XA PREPARE, or a statement that stands alone. Rows are written
// as they come. Where a group turns out to be rolled back, in whole or to a savepoint, the open log transaction is given up and the
// group is read again, this time without the rows that the server took back (M12).
//
// What a table is at the stream's place is package schema's to say (history.go). What it learns is written with the events that it
// learned it from. When it needs the catalog, the stream waits, and scout.go reads the binlog ahead for statements that the catalog has
// seen and the stream has not.
//
// Tables are loaded beside the stream (load.go, tell.go): workers read chunks, which the decoder tells between two transactions. Which
// tables are in the log and how far those are that are being loaded is part of the resume point; statements (join.go), signals
// (signal.go) and the lists change it. The first load may also begin with snapshots of one place, under a lock (lock.go).
//
// Crash argument. Events, the schema history and the position that they reach commit in one log transaction (invariant 3); a run
// begins at the position that it finds there, and the position names the history that it is of.
//
// Invariant 7: an incident, a change that was logged as a statement, an unknown event, a table whose columns are not known and a
// gap stop the connector with the place and the remedy.
package mysql
