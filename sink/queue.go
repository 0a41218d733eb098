package sink

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// entryKind is what a record means to the merge.
type entryKind uint8

const (
	entrySkip entryKind = iota // nothing to apply: tombstone, control record, BEGIN
	entryFree                  // belongs to no source transaction: initial-load row, or no position header
	entryRow                   // an event of a source transaction
	entryEnd                   // END of a source transaction
)

// entry is one record as the merge sees it.
type entry struct {
	kind     entryKind
	truncate bool
	offset   int64
	size     int
	pos      event.Position
	end      *event.TransactionEnd // entryEnd
	rec      *kgo.Record
	err      error // why the record cannot be read; raised when its turn comes
}

// queue is what has been fetched of one partition and not been consumed.
type queue struct {
	topic     string
	partition int32
	owner     *topicState // nil for a transaction topic

	entries []entry
	head    int
	bytes   int

	next    int64 // after the last entry consumed
	fetched int64 // after the last entry pushed
	barrier int64 // a truncate, or a new table version, waits until fetched reaches it; -1: not known

	dirty  bool // next changed since the offsets were taken
	free   bool // in merger.free
	paused bool
}

func (q *queue) empty() bool { return q.head == len(q.entries) }

func (q *queue) top() *entry { return &q.entries[q.head] }

func (q *queue) push(e entry) {
	if q.head > len(q.entries)/2 && len(q.entries) == cap(q.entries) {
		n := copy(q.entries, q.entries[q.head:])
		clear(q.entries[n:])
		q.entries = q.entries[:n]
		q.head = 0
	}
	q.entries = append(q.entries, e)
	q.bytes += e.size
	q.fetched = e.offset + 1
}

func (q *queue) pop() entry {
	e := q.entries[q.head]
	q.entries[q.head] = entry{}
	q.head++
	if q.head == len(q.entries) {
		q.entries = q.entries[:0]
		q.head = 0
	}
	q.bytes -= e.size
	q.next = e.offset + 1
	return e
}
