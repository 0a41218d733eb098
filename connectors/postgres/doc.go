// Package postgres is the Postgres source: initial load by COPY under an exported snapshot, then logical replication through
// pgoutput, written into the log by connectors.Writer.
//
// Three goroutines share the stream. The receiver (receive.go) only reads the connection and hands over bounded chunks. The decoder
// (stream.go, transaction.go, change.go) turns chunks into records. Feedback answers the server on its own clock, whatever the log
// does, and reports as flushed only what is committed in the log (invariant 1), soon after each commit. Beside them, side.go
// watches how far the source's WAL goes, for the lag.
//
// Position is the commit LSN and the order inside the transaction; never the LSN of a change, as those of interleaved
// transactions overlap. A transaction is passed over only if its commit record lies before the resume point.
//
// Handoff. The snapshot that CREATE_REPLICATION_SLOT exports shows exactly the transactions whose commit record lies before the
// slot's consistent point. Each table's rows carry that point; changes committed before it are passed over for that
// table, all others follow. So a load can be resumed, and a table added later, under the snapshot of a temporary slot.
//
// Crash argument. Rows of the load and the record that says their tables are loaded commit together, as do changes and the
// resume point (invariant 3). A crash between creating the slot and the first commit leaves a slot without resume
// point: the next run loads under a later snapshot and passes over what the slot still delivers from before it.
//
// Invariant 7: an unknown message, an undecodable value, a slot that was lost, moved or recreated, another server or a
// diverged history stops the connector with the place and the remedy.
package postgres
