package log

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// lag leaves a replica behind.
func (m *compactModel) lag(*rapid.T) {
	m.close()
	m.behind = crashCopy(m.t, m.dir)
	m.open()
}

// move goes on as another replica that gets a raftSnapshot, interrupted by restarts, and then the tail: one that is new, or one that was
// away. Everything that the model checks must hold there.
func (m *compactModel) move(rt *rapid.T) {
	dir := m.behind
	if dir == "" || rapid.Bool().Draw(rt, "new replica") {
		dir = m.t.TempDir()
	}
	m.behind = ""
	snap, release, err := m.p.RaftSnapshot()
	if err != nil {
		rt.Fatal(err)
	}
	if snap, err = DecodeRaftSnapshot(snap.Encode()); err != nil {
		rt.Fatal(err)
	}
	old := *m
	m.dir, m.old = dir, nil
	m.open()
	if m.p.LastIndex() >= snap.Index {
		// It has what there is below the horizon; the tail brings the rest.
		release()
		m.close()
		*m = old
		rt.Skip("not far enough behind")
	}
	in := m.receive(rt, snap)
	for !in.Complete() {
		if rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
			m.close()
			m.open()
			at := in.At()
			if in = m.receive(rt, snap); in.At() != at {
				rt.Fatalf("resumed at %+v, it had come to %+v", in.At(), at)
			}
		}
		chunk, next, err := old.p.SnapshotChunk(snap, in.At())
		if err != nil {
			rt.Fatal(err)
		}
		if err := in.Add(chunk, next); err != nil {
			rt.Fatal(err)
		}
	}
	if err := m.s.Commit([]Mutation{{Group: 3, Install: in, HardState: &HardState{Term: m.term, Commit: snap.Index}}}); err != nil {
		rt.Fatal(err)
	}
	if rapid.Bool().Draw(rt, "restart before the tail") {
		m.close()
		m.open()
	}
	for lo := m.p.LastIndex() + 1; lo <= old.p.LastIndex(); lo = m.p.LastIndex() + 1 {
		es, err := old.p.Entries(lo, old.p.LastIndex()+1, 4096)
		if err != nil {
			rt.Fatal(err)
		}
		for i := range es {
			es[i].Data = slices.Clone(es[i].Data)
		}
		m.p.Follow(es)
		if err := m.s.Commit([]Mutation{{Group: 3, Entries: es}}); err != nil {
			rt.Fatal(err)
		}
		m.p.Apply(es)
	}
	want := old.p.fold
	want.horizon.installed = m.p.fold.horizon.installed
	if m.p.Installed() != snap.base.horizon.base || !bytes.Equal(m.p.fold.encode(), want.encode()) {
		rt.Fatalf("the replica that caught up has another state:\n%+v\n%+v", m.p.fold, want)
	}
	release()
	old.close()
}

func (m *compactModel) receive(rt *rapid.T, snap *RaftSnapshot) *Incoming {
	in, err := m.p.Receive(1, snap)
	if err != nil {
		rt.Fatal(err)
	}
	return in
}

// What has arrived whole is Raft's to install or to discard, whoever else sends; what is still arriving gives way to another sender, and
// without one it is dropped after a while.
func TestIncomingTakesItsTurn(t *testing.T) {
	from := mustOpen(t, t.TempDir(), manual(nil))
	defer func() { _ = from.Close() }()
	p := mustPartition(t, from, 1)
	p.SetConfig(compacting())
	for i := range 12 {
		appendAll(t, from, p, keyed(1, 500_000, fmt.Sprint("a", i)))
	}
	if err := from.Compact(1); err != nil {
		t.Fatal(err)
	}
	snap, release, err := p.RaftSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer release()

	s := mustOpen(t, t.TempDir(), manual(nil))
	defer func() { _ = s.Close() }()
	to := mustPartition(t, s, 1)
	receive := func(sender uint64) *Incoming {
		t.Helper()
		in, err := to.Receive(sender, snap)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	add := func(in *Incoming) error {
		t.Helper()
		chunk, next, err := p.SnapshotChunk(snap, in.At())
		if err != nil {
			t.Fatal(err)
		}
		return in.Add(chunk, next)
	}
	old := receive(1)
	if err := add(old); err != nil || old.Complete() {
		t.Fatal(err, old.Complete())
	}
	before := to.Marks()
	if err := s.Commit([]Mutation{{Group: 1, Install: old, HardState: &HardState{Term: 1, Commit: snap.Index}}}); err == nil || to.Marks() != before {
		t.Errorf("a part of a raftSnapshot was installed: %v, %+v", err, to.Marks())
	}
	in := receive(2)
	if err := add(old); !errors.Is(err, errReplaced) {
		t.Errorf("a sender whose place was taken goes on: %v", err)
	}
	if err := old.Discard(); err != nil || to.received == nil {
		t.Errorf("discarding the old one dropped the new one: %v", err)
	}
	for !in.Complete() {
		if err := add(in); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := to.Receive(3, snap); err == nil {
		t.Error("another one took the place of one that is about to be installed")
	}
	s.forgetIdle(time.Now().Add(2 * idleTransfer))
	if err := s.Commit([]Mutation{{Group: 1, Install: in, HardState: &HardState{Term: 1, Commit: snap.Index}}}); err != nil {
		t.Fatal(err)
	}
	if got := to.Marks(); got.HighWatermark != snap.base.hwm {
		t.Errorf("installed %+v", got)
	}

	if err := add(receive(4)); err != nil {
		t.Fatal(err)
	}
	s.forgetIdle(time.Now().Add(idleTransfer / 2))
	if !to.runs.busy() {
		t.Error("one that goes on was dropped")
	}
	s.forgetIdle(time.Now().Add(2 * idleTransfer))
	if to.runs.busy() {
		t.Error("compaction waits for a sender that has given up")
	}
}
