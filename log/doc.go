// Package log keeps partition logs in Badger: one Raft group's entries are one partition's record batches, stored once, as
// the bytes that a Fetch returns. It knows neither network nor Raft: the cluster package drives it.
//
// # Shape
//
// Store is the database with its single writer; Partition is one log, a state machine without goroutines. What a partition
// knows beside the batches is a fold of its applied entries (fold.go: offsets, leader epochs, producers, transactions,
// sparse index), a pure type without I/O. In front of the fold, staging.go holds what is proposed and not yet applied, which
// is what a producer's next batch is checked against.
//
// A partition is runs followed by a tail. The tail is the Raft log from the horizon on, gapless, as it was written. Below the horizon of a
// compacted partition lie runs (runs.go): immutable stretches of the batches that survived compaction, named by a manifest (manifest.go). A
// round (clean.go, swap.go) makes new runs of old ones and of the tail; what survives is decided by a type without I/O (survivors.go), and when a
// round is due by another (plan.go).
//
// There are two goroutines, both of the Store: the keeper (free space, housekeeping while the node is idle, value-log garbage collection) and the
// cleaner (compaction).
//
// # Invariants enforced here
//
//   - 1 (acknowledged means durable): Commit returns after the sync; a failed sync stops the store.
//   - 2 (order): an entry is stored only if it continues its log without a gap, in index and in offset.
//   - 3 (exactly once in): producer epochs and sequences are checked in Stage.
//   - 5 (whole transactions): the last stable offset and the aborted transactions of every read.
//   - 8 (state is a fold): a checkpoint is the fold's encoding and may be deleted; equal logs give equal bytes.
//   - 9 (bounded): the entries kept in memory, a Commit, the sparse index, a round's memory and every scan have named bounds.
//   - 10 (compaction): the last committed record of every key stays; tombstones and markers go late enough, and an aborted
//     transaction leaves the list in the same swap that removes its marker.
//
// # Crash argument, one durable step at a time
//
// Badger writes a transaction in this order: values of at least valueThreshold bytes to the newest value-log file and
// a sync of it; then all keys, small values and pointers to the memtable's log, closed by a record that ends the transaction,
// and a sync of that. On opening, a memtable log is replayed up to its last complete transaction and the newest
// value-log file is cut behind its last complete record. A full value-log file is synced before the next one is begun. So a
// transaction is there as a whole or not at all, and a pointer never leads to a value that was not synced before it.
// Neither holds with SyncWrites off plus DB.Sync, nor with WriteBatch, which splits; neither is used.
//
// Commit (entries, truncation, hard state): one transaction. Before it ends nothing is acknowledged; after it all is there.
// Truncated entries go in the transaction that brings their successors. When a Commit is larger than a transaction may be,
// it takes several, ordered so that each leaves a valid Raft log: the hard state before entries of its term, with no commit
// beyond what is durable by then, entries by rising index, deletes of a truncated tail by falling index, and the full commit
// last. A crash between two leaves a shorter log and nothing acknowledged. Badger reports a failed sync of a value-log file only in its own log: badgerLogger turns that into a
// failure of the store before the write returns.
//
// Hard state: written when term or vote change, in the transaction of the mutation that carries it, so a vote is durable
// before it is answered; and with an entry that changes the members, which is never durable before the commit of the change
// before it. Its commit index is a lower bound: Raft delivers entries above it again, and Apply passes over what a
// checkpoint has applied already.
//
// Truncated entries: a follower's tail may be cut and written anew, and value-log garbage collection may bring back what was cut (see
// there). So each truncation leaves a mark, in its transaction and before its deletes: the first index that was cut. Badger's version of the
// mark's key is its time. What lies at or above a mark with an older version is a ghost and never read. A mark replaces those above
// it; those at or below the horizon collapse into one. A crash between the transactions of a large truncation leaves the
// mark with a part of the deletes: what is left above it is a ghost already, and the log ends before the mark.
//
// raftSnapshot: receiving one changes nothing until it is installed. A record names the sender and the runs' ids here before the
// first batch is stored under them, and keeps them from being swept; batches follow in portions, and what is stored says after a restart
// where to go on. Its installation is one transaction: horizon, manifest, hard state, checkpoint, a mark that makes every entry above the
// horizon a ghost, and the end of the record. A crash before it leaves the old log. What the partition had is then deleted in portions, as
// after compaction. The sender's compaction leaves the runs alone meanwhile; its retention does not, and a cursor into what it took
// makes the sender begin anew.
//
// Trims: where the log starts is an entry like any other, so it is the same on all replicas and after any restart: its apply moves the
// log start in the fold. What lies below is deleted by each replica for itself, as retention.
//
// Checkpoint: the fold up to the applied index, in one key, in the same transaction as whatever Commit it rides on.
// Applied entries are durable before they are applied, so a checkpoint never runs ahead of the entries. A crash before it
// leaves the older one; opening then folds the keys behind it. One that is missing, damaged or of another version is rebuilt
// from the horizon.
//
// Retention: a trim that is applied lets it go. The horizon (where the log starts, and what of the fold lies below it) and a checkpoint with the same horizon
// go into one transaction, at the latest together with the first deletes below it. A crash before it brings back the
// old start with all its entries. A crash between two portions of deletes leaves entries below the horizon: nothing reads
// them, and opening the partition queues their deletion again.
//
// Compaction: (1) Run ids are taken: a manifest with a higher next id, in a transaction with horizon and checkpoint. Ids that a crash leaves unused
// are passed over. (2) Survivors go under these ids in portions. No manifest names them, so a crash leaves the old log, and
// keys that opening the partition queues for deletion; they never mix with a later run, whose id is higher. (3) The swap: the new manifest,
// the horizon at the cleanable end and a checkpoint with that horizon in one transaction. A crash before it leaves the old log, after it the
// new one; each is whole. In memory the swap comes just before the transaction, as retention's does: a reader that saw the new log and comes back after a
// crash to the old one finds records that it may be shown, aborted ones with their entry. (4) Replaced runs and the entries below the horizon are deleted in portions, in or after the swap's
// transaction. A manifest that is damaged or missing is an error that keeps to its partition: what it named cannot be guessed.
//
// Key index: a fold of committed records in a database of its own, which is not synced. After a crash it knows a prefix of what it knew,
// and folding goes on from there. It never knows a record that the log does not hold, since only durable entries are
// folded; one that says so belongs to another log and is built again, and so is one that does not know a record that was folded. A tombstone's key is forgotten after the swap that removed it; a crash
// in between leaves a key without a record.
//
// Value-log garbage collection: Badger writes the values of a file that its tables still name again, synced, before it
// removes the file; a crash in between leaves both copies. It does so even for a key whose delete is durable already, and
// when a compaction drops that delete before the two meet, the key is back. So nothing here rests on a delete: what is below
// a horizon or in a run without a name is never read, the id of a dropped group is never used again, its intent stays until a later look finds
// it empty, what was truncated is a ghost, and the keeper has deleted ranges looked through again (sweep), so that what
// came back goes.
//
// Drop: the intent (d|group) is durable in one transaction with the removal of hard state, horizon and checkpoint; deletes of
// entries follow in portions and the intent goes last. A restart finds the intent and goes on. Before the intent is durable
// a crash brings the whole group back, and its owner drops it again.
//
// Damage: what changes on disk after it was written is not a crash, and is never passed on. A batch is read from disk
// only if its checksum is right and its header says what its key says; a read that meets a gap ends before it. Tables and the
// manifest are verified as a whole on opening, since Badger deletes what a shortened manifest does not name. Badger reads a
// value-log file up to the first wrong checksum: the newest one it cuts there on opening, an older one its garbage collection
// removes. So intact values behind the cut are written again when their keys are there, which a power failure's
// leftovers have not, and a file with retained records behind a damaged one is not collected. A partition that
// cannot be opened keeps no other from it. A memtable's log is cut at the first wrong record, as after a crash; where that would take more than
// the one transaction that a crash leaves unfinished, the store is not opened. What looks like a crash and cannot be told from it is damage to
// the last transaction of that log, or a log that was cut or overwritten with zeros up to its end.
//
// New files: Badger creates a memtable's and a value log's file before it gives them a size, and does not open a database with
// an empty one. Nor one whose file it had emptied, to remove it, when the process was killed. Both are removed before opening; a value that
// was still named in such a file is an error of whoever reads it.
//
// Format and lock: the FORMAT file is written to the side, synced and renamed before the first database file exists, so a
// directory without it is empty. The lock is the kernel's (flock) and ends with the process.
//
// Value-log files are prepared: before a commit, zeros are written over the hole that its values will fill (prepare.go).
//
// Disk full: Badger writes through memory maps, where a full disk is a SIGBUS, but for pages that were prepared. New batches are refused at a watermark
// (Options.MinFreeBytes) but in the logs whose records give space back (Config.BelowWatermark), which leaves room for what is proposed already, transaction markers, retention,
// compaction of partitions (down to half of the watermark) and Badger's own compaction and garbage collection, which free space again; below an eighth of it Commit refuses too.
// Both look at the file system before each write, as others may fill it. What they cannot look ahead for is what Badger writes by itself while somebody
// else takes the last of it: then the process ends, with the goroutines' stacks, "unexpected fault address" and SIGBUS above them.
package log
