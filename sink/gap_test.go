package sink

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
)

func TestMergeStopsAtGap(t *testing.T) {
	m := newMerger(testPrefix, func(string) bool { return true })
	ends := m.addEnds("p.transaction", 0, 0, 0)
	ts := m.addTopic("p.t", 0, false)
	q := m.addPartition(ts, 0, 0)
	m.push(ends, entry{kind: entryEnd, pos: event.Position{Commit: 5}, end: &event.TransactionEnd{
		Collections: []event.CollectionCount{{Collection: "t", Count: 2}},
	}})
	m.push(q, entry{kind: entryRow, offset: 7, pos: event.Position{Commit: 5, Order: 2, CollectionOrder: 2}})
	if st, err := m.step(true); err == nil || !IsPermanent(err) {
		t.Fatalf("step = %v, %v; want a permanent error", st, err)
	}
}

// An event whose transaction has no END hides those behind it. The error names it, not the event that is hidden.
func TestMergeNamesAnEventWithoutEnd(t *testing.T) {
	m := newMerger(testPrefix, func(string) bool { return true })
	ends := m.addEnds("p.transaction", 0, 0, 0)
	ts := m.addTopic("p.t", 0, false)
	other, q := m.addPartition(ts, 0, 0), m.addPartition(ts, 1, 0)
	m.push(ends, entry{kind: entryEnd, pos: event.Position{Commit: 0x15}, end: &event.TransactionEnd{
		Collections: []event.CollectionCount{{Collection: "t", Count: 1}},
	}})
	m.push(other, entry{kind: entryRow, offset: 3, pos: event.Position{Commit: 0x20, Order: 1, CollectionOrder: 1}})
	m.push(q, entry{kind: entryRow, offset: 7, pos: event.Position{Commit: 0x10, Order: 1, CollectionOrder: 1}}) // no END
	m.push(q, entry{kind: entryRow, offset: 9, pos: event.Position{Commit: 0x15, Order: 1, CollectionOrder: 1}})
	_, err := m.step(true)
	var re *recordError
	if !errors.As(err, &re) || re.poison.Topic != "p.t" || re.poison.Partition != 1 || re.poison.Offset != 7 ||
		!strings.Contains(err.Error(), "source transaction number 16") {
		t.Fatalf("error %v; want one that names source transaction number 16 at p.t partition 1 offset 7", err)
	}
}
