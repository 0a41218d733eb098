// Package mysql applies change events to a MySQL or MariaDB database.
//
// Files: config and dsn (properties), check (what a human must mend, with the SQL), connect (connection and session settings),
// target and session (target transaction), state (offsets and fencing), catalog, evolve, types and widen (target tables, and what is
// created), trace (what columns were), literal (values), flush, statements and load (how they are written), stash (rows in the way of
// others), errors (what trying again mends).
//
// Rows are written by the record's key alone: UPDATE of the rows that are there, INSERT of those that are not, DELETE by key. ON
// DUPLICATE KEY UPDATE and REPLACE are not used for rows: they reach other unique keys (M27). Operations of one round trip are folded to one
// per key; when the folded form offends a unique key or a foreign key, the round trip is repeated one by one in source order. A row
// that is in the way of another one even then is set aside until the target transaction ends: what is left then is impossible.
// Tables with triggers are always written in source order.
//
// New rows travel in LOAD DATA LOCAL where the server takes it (local_infile), else in multi-row INSERTs. Rows that are there go the same way to
// a temporary table with the target's columns and from there in one UPDATE of a join, so that keys are compared by their own types and
// collations. LOCAL takes errors for warnings: load.go says what makes it safe. BenchmarkInsert and BenchmarkUpdate measure both ways beside
// bare LOAD DATA LOCAL; docs/sinks.md has the figures.
//
// A value travels as a literal that its column takes unchanged. The session is strict, so that what does not fit is refused; what the
// server would only warn of is refused too.
//
// Invariant 4: rows, offsets and the check of the session's epoch are one target transaction. Opening a session raises the epoch
// under a row lock that a commit in flight holds, so a session before it has either committed, and its offsets are read, or fails
// with ErrFenced. A COMMIT whose answer is lost is the same case: the next session reads what became of it.
//
// Invariant 6: a column that the source did not send is not written. A row with such columns is updated, never inserted: when
// the target does not have it, the sink stops. A key change whose create has such columns gives the row under the old key its
// new one.
//
// DDL ends a transaction of MySQL. It only adds (databases, tables, columns, wider types), so it is run on a connection beside the
// session's, before the rows that need it: repeated, it finds nothing to do. A table that the open transaction has written cannot be changed
// beside it; the transaction is then rolled back and applied again.
package mysql
