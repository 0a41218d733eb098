// Package journal runs a coordinator's state as the fold of one partition of an internal topic.
//
// A Journal is one goroutine that owns a Fold. On leadership it reads the partition from its start to its high
// watermark and hands every batch to the fold; then it serves: functions given to Do run one after the
// other on that goroutine, may read and change the fold's state, and stage records with Write. What a
// turn staged leaves as one batch, without waiting for the batch before it, so many requests share a sync and no
// lock is ever held across an append. State is therefore ahead of the log for a moment; whatever
// tells a client about it goes in the function given to Write, which runs once the batch is committed
// (invariant 1), in log order.
//
// Shards are all journals of a coordinator, one for each partition of its topic; a key belongs to one of them. Those whose partition another node
// leads refuse work with ErrNotLeader, and are told when this node leads no more: what waits in their state is answered then.
//
// A journal appends in the leader epoch that it loaded in and in no other: leadership that was lost and won again between two looks does not let it write
// over what it has not read. It reads up to where it begins to be told of markers, the one thing that others append.
//
// Invariant 8: state is a fold of the log. When an append fails, the state that was staged is worth
// nothing: the journal answers what waits with the error, waits for its other appends, and folds the partition
// again. A record that cannot be read stops this journal with an error that names its place (invariant 7), and
// its neighbours go on.
//
// Invariant 9: the mailbox holds maxMailbox functions; above it Do refuses. The log of a journal is bounded by what
// its state is worth: once it has grown by far more than that, the journal appends its whole state once more and
// deletes what lies before. Crash argument of that rollover: deletion follows the commit of the copy, so
// at each moment the log holds every key's last record; a crash between the two leaves a longer log with
// the same fold. Records of an open transaction, and everything behind its first one, are never deleted.
package journal
