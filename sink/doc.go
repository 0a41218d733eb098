// Package sink applies topics of the log to targets: whole source transactions, exactly once.
//
// A sink is a consumer group, rowtrail-sink-<name>. Its topics are exact names or patterns; every member asks for the
// same topics, and one member at a time owns all of them, so that another node takes over when it goes.
//
// Where something else lets one node at a time run a sink, as the daemon does, they share one place in the group (Deps.Instance):
// who comes takes it at once.
//
// Files: topics (which topics a sink reads), discover (what the log has), assign and inbox (where reading begins), merge and
// queue (source order out of partitions, pure), leftout (topics that are read no more), gap (what is said of a transaction that is not whole), decode and schemas
// (records and table versions), task (the loop: merge, decode, apply, commit), idle (what it does in between), runner
// (attempts, poison, status), balancer (one owner in the group), lag, config (properties that all types of sink share),
// target (what a type of sink implements).
//
// Invariant 4: a target stores rows and the offsets behind them in one transaction. On start the target's offsets win over
// the group's, which are committed afterwards and serve only to show lag. Opening a session in the target fences the
// session before it.
//
// Invariant 5: the transaction topic's END tells how many events each table has in a source transaction; Order and
// CollectionOrder in the position header are dense, so the next event can always be located, without a buffer for the
// whole transaction. A target transaction ends only where source transactions end. Initial-load rows (Order 0) belong to
// no source transaction: they are applied in partition order as they come, before the stream of their table.
//
// Invariant 7: a record that cannot be applied, a transaction whose events are not all in the log, and offsets that the log
// no longer has stop the sink with topic, partition, offset and reason, before anything of that transaction is applied.
// Other sinks go on. Run again, the sink resumes at the same place.
//
// Invariant 9: what is fetched and not applied is bounded by bytes per partition; partitions that run ahead are paused.
// The merge only ever waits for partitions of which nothing is buffered, and those are never paused: no deadlock.
//
// Topics without position headers (producers other than Rowtrail) are applied in partition order, record by record.
//
// Visible later than delivered: a transaction reaches the log once the source has it on disk, which can be a moment
// before the source shows it to its other sessions.
//
// Crash argument. The target transaction is the only durable step. Before its commit, nothing happened: rows and
// offsets roll back together and the same records are read again. After it, the offsets in the target are beyond the
// records. Offsets of the group are written later; losing them loses nothing.
package sink
