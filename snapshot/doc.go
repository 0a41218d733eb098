// Package snapshot answers for the current and past state of every key of a topic. Its views are a fold of partition logs in
// a Badger database of their own.
//
// Each keyed, committed record is one small entry under
//
//	k | fold id | key | ^offset  ->  timestamp, commit time and commit position, tombstone, size
//
// so the first hit at a key is its latest record, a walk on from there finds its state as of an offset, a time or a source
// position, and all hits are its history. Values are not stored again: they are read back from the log.
//
// Invariant 5: only what a read_committed consumer would be given enters. All changes of a source transaction carry one
// commit position and one commit time, so that a cut at either takes a transaction whole or not at all. (Two transactions
// whose commit times are out of order cannot have changed the same row unless the source's clock was set back: the later one
// waited for the earlier one's locks. A cut by time is therefore consistent, too.)
// Invariant 8: a view is a fold of the log. It can be deleted, and Rebuild folds it again to the same bytes.
// Invariant 9: a fold step, a scan window and a deletion step are bounded by named constants.
//
// # Crash argument
//
// The database is not synced. A fold step writes its entries and the next offset to fold in one Badger transaction,
// and Badger replays a transaction whole or not at all and in commit order. So after a crash the database is the fold of
// some prefix of the log: no record is skipped, and none is folded twice, for which the fold would not care anyway, as an
// entry is a function of its record. The deletion or rebuild of a partition's fold first persists, in one transaction, that the old id is to
// be deleted and which id takes its place; the deletion itself is idempotent and starts over after a crash.
//
// The log may be another than the one that was folded: a topic deleted and created again while nobody looked. The log's id and
// the last folded batch are kept with the offset and compared before a view is used; on a mismatch the partition is folded anew. Of a
// batch that compaction may have touched, what compaction keeps is compared (base and last offset, leader epoch), and one that
// it has taken is not missed.
//
// # Rest
//
// A database that nothing was folded into, and nobody asked, for some seconds is closed until somebody needs it (database.go): what an open Badger
// does while it is idle costs more than the rest of an idle node. What Run looks at to see whether there is anything to do is in memory.
//
// # Partitions elsewhere
//
// Each partition of a topic has a fold of its own, found by an id of its own, so that partitions may come and go and be replaced by other replicas. A
// question about a partition that is not here is an ErrElsewhere. Questions about some partitions have answers that can be merged with those of other
// nodes into the answer of all (MergeLatest, MergeScans, MergeHistories); package spread does so.
//
// # Compacted topics
//
// Compaction takes records out of the log behind the view's back: superseded ones, and tombstones after a while (invariant 10:
// never the last record of a key otherwise). So
//
//   - Now is always right. A record that is gone when it is read back has a newer one by then, and the question is asked
//     again; a scan that has told rows already ends with ErrNotReady, as rows of two moments are no state (invariant 5).
//   - A tombstone may be gone before it was folded, while the fold has an earlier record of its key. When that record is gone, too, and compaction
//     has not gone on since before the fold had caught up, the key is deleted. And of a key that is deleted, with a tombstone that is gone, an earlier
//     tombstone may be told than the last one.
//   - As long as a view has an entry for every record, a cut's record is known, and if the log has not, the answer is
//     ErrCompacted.
//   - Where records were gone before they were folded (a gap in the offsets), and once entries of such records are trimmed, entries
//     are whole only from some offset on (state.whole, in the transaction that deletes the entries). Below it the last entry of
//     a key is the last record that the key had there. So a cut is answered unless it leaves out an entry below that offset,
//     or finds none and does not take in all that is missing.
//   - A history tells what there is, and from which offset on it is whole.
//
// Cuts by time and position trust that times and positions rise within a partition, as those of a source do.
//
// # What a view does not say
//
// When retention moves a partition's log start, what lies below is gone from the answers, too: the latest value of a key
// whose last record was retired is gone, as it is for every new Kafka consumer of a topic with the delete policy. A
// record without a key (a logical message) belongs to no key and is not part of a view; a truncate ends the life of every
// key before it in its partition.
package snapshot
