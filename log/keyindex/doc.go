// Package keyindex knows for every key of a partition log the offset of its last committed record: what compaction asks when
// it decides what may go. It is a Badger database of its own, a fold of the logs that can be deleted at any time. It knows
// nothing of logs and runs no goroutines of its own; a log is named by its group's number.
//
//	f | group              ->  next offset to fold
//	k | group | tag | key  ->  offset
//
// Keys of up to 64 bytes stand there as they are, longer ones as their SHA-256; the tag tells the two apart. An entry is smaller
// than what goes to the value log, so that is never used.
//
// # Invariants
//
// Invariant 8: the index is a fold of the log. For every group and at every moment, on disk too, it is the fold of
// the records below Folded, which rises with them in one transaction; folding again what was folded changes nothing.
// Invariant 9: memory is bounded by the memtables and caches, whatever the number of keys; a fold splits into
// transactions of a bounded size, and so does a Drop.
//
// # What may be concluded from an answer
//
// Invariant 10 must hold even if the index has lost entries: damage within a table that shows only when it is read looks to
// Badger like a key that is not there, or like the older version of it. What it never looks like is an offset that
// no record had. So
//
//   - a record is superseded only if Latest is above its offset. Without an answer, or with a lower one, it stays.
//   - a tombstone may go only if Latest is its own offset. Otherwise an older record of its key may still be there.
//
// Loss of entries then costs space and never a record. Who finds an answer missing that must be there drops the group and folds it again.
//
// A Sketch spares most questions. Its "nothing follows" is certain and its "something may" is no answer: that takes Latest.
//
// # Crash argument
//
// The database is not synced. Badger replays transactions whole or not at all and in the order of their commits, so a crash
// leaves the fold of a shorter prefix, and folding goes on from Folded. A loss of power may also take the end of a memtable and leave the next
// one: entries are then missing below Folded, with the consequences above. What it says is in the
// log, as only durable records are folded. A Forget that is lost leaves the offset of a record that is no more, which
// nothing asks for; a Forget must follow the durable removal of its record, for the reason above. A Drop
// first takes back what Folded says; one that is cut short leaves entries that folding again
// overwrites, and that Groups lists.
//
// A directory that is damaged or of another format is renamed, once, and an empty one takes its place.
package keyindex
