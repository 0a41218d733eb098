package cluster

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/rowtrail/rowtrail/log"
)

func raftEntries(term uint64, from, to uint64, size int) []*raftpb.Entry {
	var out []*raftpb.Entry
	for i := from; i <= to; i++ {
		e := log.Entry{Index: i, Term: term, Type: log.EntryBatch, Data: make([]byte, size)}
		out = append(out, toRaft(&e))
	}
	return out
}

func describeEntries(es []*raftpb.Entry) string {
	s := ""
	for _, e := range es {
		s += fmt.Sprintf("%d/%d ", e.GetIndex(), e.GetTerm())
	}
	return s
}

// The tail answers as the disk would, before and after truncation, and never changes a slice that it has handed out.
func TestStorageTail(t *testing.T) {
	d := newDisk()
	m := newMemLog(d.log(2))
	s, err := newRaftStorage(m, 0, []Member{{Node: 0}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	write := func(es []*raftpb.Entry, truncate uint64) {
		mut := log.Mutation{Group: 2, TruncateFrom: truncate}
		for _, e := range es {
			mut.Entries = append(mut.Entries, toLog(e))
		}
		if err := d.Commit([]log.Mutation{mut}); err != nil {
			t.Fatal(err)
		}
		s.remember(es)
	}
	read := func(lo, hi, size uint64) string {
		es, err := s.Entries(lo, hi, size)
		if err != nil {
			t.Fatalf("entries [%d, %d): %v", lo, hi, err)
		}
		return describeEntries(es)
	}
	write(raftEntries(1, 1, 6, 100), 0)
	s.forget(2)
	if got := read(1, 3, math.MaxUint64); got != "1/1 2/1 " { // from the disk
		t.Errorf("forgotten entries: %s", got)
	}
	if got := read(3, 7, 2*(100+entryOverhead)); got != "3/1 4/1 " {
		t.Errorf("size limit: %s", got)
	}
	if got := read(3, 7, 0); got != "3/1 " {
		t.Errorf("at least one: %s", got)
	}
	held, err := s.Entries(3, 7, math.MaxUint64)
	if err != nil {
		t.Fatal(err)
	}
	write(raftEntries(2, 5, 7, 100), 5)
	if got := read(3, 8, math.MaxUint64); got != "3/1 4/1 5/2 6/2 7/2 " {
		t.Errorf("after truncation: %s", got)
	}
	if got := describeEntries(held); got != "3/1 4/1 5/1 6/1 " {
		t.Errorf("a slice in use changed: %s", got)
	}
	write(raftEntries(3, 2, 2, 100), 2) // below the whole tail
	if got := read(1, 3, math.MaxUint64); got != "1/1 2/3 " {
		t.Errorf("after a deep truncation: %s", got)
	}
	write(raftEntries(3, 3, 12, maxTailBytes/4), 0)
	if s.tailBytes > maxTailBytes || len(s.tail) == 0 {
		t.Errorf("the tail holds %d bytes in %d entries", s.tailBytes, len(s.tail))
	}
	if got := read(2, 13, math.MaxUint64); got != "2/3 3/3 4/3 5/3 6/3 7/3 8/3 9/3 10/3 11/3 12/3 " {
		t.Errorf("beyond the tail: %s", got)
	}
	if _, err := s.Entries(0, 2, 1); !errors.Is(err, raft.ErrCompacted) {
		t.Errorf("below the first index: %v", err)
	}
	if _, err := s.Term(13); !errors.Is(err, raft.ErrUnavailable) {
		t.Errorf("above the last index: %v", err)
	}
}

func TestEntryConversionKeepsKinds(t *testing.T) {
	for _, e := range []log.Entry{
		{Index: 1, Term: 2, Type: log.EntryBatch, Data: []byte("x")},
		{Index: 2, Term: 2, Type: log.EntryMeta},
		{Index: 3, Term: 2, Type: log.EntryMeta, Data: []byte("conf")},
		{Index: 4, Term: 2, Type: log.EntryMetaV2},
		{Index: 5, Term: 2, Type: log.EntryMetaV2, Data: []byte("conf")},
	} {
		if got := toLog(toRaft(&e)); got.Index != e.Index || got.Term != e.Term || got.Type != e.Type || string(got.Data) != string(e.Data) {
			t.Errorf("%+v became %+v", e, got)
		}
	}
}

// Raft asks for a raftSnapshot whenever it could not read an entry; an empty one would stop the node.
func TestNoSnapshotOfAnEmptyHorizon(t *testing.T) {
	st, err := newRaftStorage(newMemLog(&diskLog{}), 0, []Member{{Node: 1}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Snapshot(); !errors.Is(err, raft.ErrSnapshotTemporarilyUnavailable) {
		t.Errorf("%v", err)
	}
}
