package cluster

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/rowtrail/rowtrail/log"
)

// maxTailBytes bounds what a group keeps of its own recent entries to spare reading them back before they are applied.
const maxTailBytes = 4 << 20

// raftStorage shows a group's EntryStore to Raft. It belongs to the group's worker.
//
// FirstIndex follows the horizon rule: it is whatever the log holds as its lowest Raft entry, and the log moves it
// only below entries that are durable on every voter.
type raftStorage struct {
	store     EntryStore
	snapshots SnapshotStore // nil: the log is never cut at its start
	first     []Member      // the group's first voters
	conf      *raftpb.ConfState
	initial   log.HardState

	// tail holds entries handed to the writer and not yet applied, contiguous, newest last. Raft asks for entries only after
	// they are durable, so the tail never shows what the disk does not have. Truncation copies: messages share the array.
	tail      []*raftpb.Entry
	tailBytes int
}

// newRaftStorage checks what is stored before Raft sees it, because Raft panics on an inconsistent start. minTerm is
// the term that a new group's first election must exceed (a recreated topic's epochs never fall).
func newRaftStorage(store EntryStore, applied uint64, voters []Member, minTerm uint64) (*raftStorage, error) {
	hs := store.HardState()
	first, last := store.FirstIndex(), store.LastIndex()
	if hs.Commit > last {
		return nil, fmt.Errorf("log ends at %d, before its persisted commit %d: entries were lost; "+
			"restore the data directory or rejoin the replica under a fresh id: %w", last, hs.Commit, log.ErrCorrupt)
	}
	if first == 0 || applied > last || applied+1 < first {
		return nil, fmt.Errorf("log [%d, %d] does not hold its applied index %d: %w", first, last, applied, log.ErrCorrupt)
	}
	// What is applied was committed, and the stored commit is only a lower bound.
	hs.Commit = max(hs.Commit, applied)
	hs.Term = max(hs.Term, minTerm)
	s := &raftStorage{store: store, first: voters, initial: hs}
	var configuration []byte
	if s.snapshots, _ = store.(SnapshotStore); s.snapshots != nil {
		configuration = s.snapshots.Configuration()
	}
	var err error
	s.conf, err = configurationOf(configuration, voters)
	return s, err
}

// InitialState implements raft.Storage.
func (s *raftStorage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	conf := s.conf
	if s.initial == (log.HardState{}) {
		return nil, conf, nil
	}
	return &raftpb.HardState{Term: &s.initial.Term, Vote: &s.initial.Vote, Commit: &s.initial.Commit}, conf, nil
}

// Entries implements raft.Storage.
func (s *raftStorage) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	if lo < s.store.FirstIndex() {
		return nil, raft.ErrCompacted
	}
	if len(s.tail) > 0 && lo >= s.tail[0].GetIndex() && hi <= s.tail[len(s.tail)-1].GetIndex()+1 {
		from := int(lo - s.tail[0].GetIndex())
		to, end := from, from+int(hi-lo)
		for size := uint64(0); to < end; to++ {
			size += entrySize(s.tail[to])
			if to > from && size > maxSize {
				break
			}
		}
		return s.tail[from:to:to], nil
	}
	stored, err := s.store.Entries(lo, hi, maxSize)
	if errors.Is(err, log.ErrCompacted) {
		return nil, raft.ErrCompacted
	}
	if err != nil {
		return nil, fmt.Errorf("read entries [%d, %d): %w", lo, hi, err)
	}
	if len(stored) == 0 && lo < hi {
		return nil, raft.ErrUnavailable
	}
	out := make([]*raftpb.Entry, len(stored))
	for i := range stored {
		out[i] = toRaft(&stored[i])
	}
	return out, nil
}

// Term implements raft.Storage.
func (s *raftStorage) Term(i uint64) (uint64, error) {
	first, last := s.store.FirstIndex(), s.store.LastIndex()
	if i+1 < first {
		return 0, raft.ErrCompacted
	}
	if i > last {
		return 0, raft.ErrUnavailable
	}
	return s.store.Term(i)
}

// LastIndex implements raft.Storage.
func (s *raftStorage) LastIndex() (uint64, error) { return s.store.LastIndex(), nil }

// FirstIndex implements raft.Storage.
func (s *raftStorage) FirstIndex() (uint64, error) { return s.store.FirstIndex(), nil }

// Snapshot implements raft.Storage. A follower below the horizon is fed outside Raft's messages.
func (s *raftStorage) Snapshot() (*raftpb.Snapshot, error) {
	if s.snapshots == nil {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	snap, err := snapshotOf(s.snapshots, s.first)
	if err == nil && raft.IsEmptySnap(snap) {
		// Raft asks when it could not read an entry, too. There is nothing below the horizon, which would be a broken invariant to it.
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return snap, err
}

// installed forgets the entries on their way to the disk, which a raftSnapshot has replaced.
func (s *raftStorage) installed() { s.tail, s.tailBytes = nil, 0 }

// remember adds entries on their way to the disk to the tail.
func (s *raftStorage) remember(entries []*raftpb.Entry) {
	if len(entries) == 0 {
		return
	}
	if n := len(s.tail); n > 0 && entries[0].GetIndex() != s.tail[n-1].GetIndex()+1 {
		keep := 0
		for keep < n && s.tail[keep].GetIndex() < entries[0].GetIndex() {
			keep++
		}
		if keep > 0 && s.tail[keep-1].GetIndex()+1 != entries[0].GetIndex() {
			keep = 0
		}
		s.tail = append([]*raftpb.Entry(nil), s.tail[:keep]...)
		s.tailBytes = 0
		for _, e := range s.tail {
			s.tailBytes += len(e.GetData())
		}
	}
	s.tail = append(s.tail, entries...)
	for _, e := range entries {
		s.tailBytes += len(e.GetData())
	}
	for s.tailBytes > maxTailBytes && len(s.tail) > 0 {
		s.dropFirst()
	}
}

// forget drops the tail up to and including index, once it is applied.
func (s *raftStorage) forget(index uint64) {
	for len(s.tail) > 0 && s.tail[0].GetIndex() <= index {
		s.dropFirst()
	}
	if len(s.tail) == 0 {
		s.tail = nil
	}
}

func (s *raftStorage) dropFirst() {
	s.tailBytes -= len(s.tail[0].GetData())
	s.tail = s.tail[1:]
}

// entryOverhead stands for an entry's index, term and framing in size limits.
const entryOverhead = 24

func entrySize(e *raftpb.Entry) uint64 { return uint64(len(e.GetData())) + entryOverhead }

// toLog and toRaft convert entries; both share the payload.
func toLog(e *raftpb.Entry) log.Entry {
	out := log.Entry{Index: e.GetIndex(), Term: e.GetTerm(), Type: log.EntryBatch, Data: e.GetData()}
	switch e.GetType() {
	case raftpb.EntryConfChange:
		out.Type = log.EntryMeta
	case raftpb.EntryConfChangeV2:
		out.Type = log.EntryMetaV2
	default:
		switch {
		case len(out.Data) == 0:
			out.Type = log.EntryMeta
		case log.IsTrimPayload(out.Data):
			out.Type = log.EntryTrim
		}
	}
	return out
}

func toRaft(e *log.Entry) *raftpb.Entry {
	kind := raftpb.EntryNormal
	switch {
	case e.Type == log.EntryMeta && len(e.Data) > 0:
		kind = raftpb.EntryConfChange
	case e.Type == log.EntryMetaV2:
		kind = raftpb.EntryConfChangeV2
	}
	return &raftpb.Entry{Index: &e.Index, Term: &e.Term, Type: kind.Enum(), Data: e.Data}
}
