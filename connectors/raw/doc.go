// Package raw keeps changes that cannot be written as events yet: those of a transaction that is prepared and not committed, and those of
// a table that is parked. They are in the log as they came from the source, so that the source need not keep them and the position goes
// on.
//
// What a holder has is a list of changes in order: bytes that only the source's connector reads. They are written as pieces into the
// compacted topic <prefix>.raw, in the log transaction of everything else that the source transaction does (invariant 3), and dropped with
// tombstones in the log transaction that has their events. So after a crash a change is either held or written, never both, and never
// neither.
//
//	key    {"transaction":"X'61',X'',1","piece":0}     or "table", and the table's name
//	value  1, flags, uvarint generation, uvarint piece, then fragments: uvarint length<<1|more, bytes
//
// A change larger than a piece is in several fragments. A generation is one life of a holder, for a name may come again. Pieces count from
// 0 without a gap, and the last one of each source transaction says so, so that what was lost is found when it is read: that is
// ErrMissing and never less changes (invariant 7).
//
// A piece costs memory only while it is written or read (invariant 9). Transactions are remembered for a while besides, up to
// rememberedBytes: most of them are committed soon after they were prepared, and are then not read back. Of every holder its name and
// some numbers are in memory, of maxHolders at most; Open finds them in the topic when a run begins.
//
// A Store belongs to one run, and to the goroutine that has the Emitter.
package raw
