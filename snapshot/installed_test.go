package snapshot

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log"
)

// TestAViewOfAReplicaThatWasAway: the replica gets a raftSnapshot in which a key is gone with its tombstone. Its view, which knows the
// key, must not go on from what it knows.
func TestAViewOfAReplicaThatWasAway(t *testing.T) {
	leader, away := openLog(t), openLog(t)
	leader.part.SetConfig(log.Config{Compact: true, RetentionBytes: -1, RetentionMs: -1, DeleteRetentionMs: 1})
	write := func(to *storedLog, key, value string) {
		t.Helper()
		r := testRecord{ts: time.Now().UnixMilli(), key: []byte(key)}
		if value != "" {
			r.value = []byte(value)
		}
		if err := to.append(r); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []*storedLog{leader, away} {
		write(l, "gone", "v")
		write(l, "kept", "v1")
	}
	v := openViews(t, t.TempDir())
	v.Follow("t", []Source{away.part})
	rows := func() map[string]string {
		t.Helper()
		got := map[string]string{}
		if err := v.Scan(context.Background(), "t", At{}, func(r Row) error {
			got[string(r.Key)] = string(r.Value)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := rows(); len(got) != 2 || got["gone"] != "v" {
		t.Fatalf("before: %v", got)
	}

	write(leader, "gone", "")
	write(leader, "kept", "v2")
	for range 2 { // the first round sees the tombstone, the second one takes it
		write(leader, "filler", time.Now().String())
		if err := leader.store.Compact(1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	install(t, leader, away)
	if got := rows(); got["gone"] != "" || got["kept"] != "v2" || len(got) != 2 {
		t.Errorf("after: %v", got)
	}
}

// install brings a partition what it missed as a cluster does.
func install(t *testing.T, from, to *storedLog) {
	t.Helper()
	snap, release, err := from.part.RaftSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if snap.Index <= to.part.LastIndex() {
		t.Fatalf("the horizon is at %d, the replica at %d", snap.Index, to.part.LastIndex())
	}
	in, err := to.part.Receive(1, snap)
	if err != nil {
		t.Fatal(err)
	}
	for !in.Complete() {
		chunk, next, err := from.part.SnapshotChunk(snap, in.At())
		if err == nil {
			err = in.Add(chunk, next)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := to.store.Commit([]log.Mutation{{Group: 1, Install: in}}); err != nil {
		t.Fatal(err)
	}
}

// TestADeleteThatWentBeforeItWasFolded: the fold has come to a record of a key when the key is deleted and compaction takes the tombstone, too.
// What the fold then finds in the log tells nothing of the key, whose last entry it has.
func TestADeleteThatWentBeforeItWasFolded(t *testing.T) {
	l := openLog(t)
	write := func(key string, value []byte) {
		t.Helper()
		if err := l.append(testRecord{ts: time.Now().UnixMilli(), key: []byte(key), value: value}); err != nil {
			t.Fatal(err)
		}
	}
	write("gone", make([]byte, foldBytes)) // all that one step reads
	write("kept", []byte("v"))
	v := openViews(t, t.TempDir())
	v.Follow(testTopic, []Source{l.part})
	p := v.topics[testTopic].parts[0]
	if _, err := p.step(v.db.DB, 1); err != nil || p.state.next != 1 {
		t.Fatalf("folded to %d, %v", p.state.next, err)
	}
	write("gone", nil)
	for range 2 { // the first round sees the tombstone, the second one takes it
		write("filler", []byte("f"))
		if err := l.store.Compact(1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	whole := l.part.Whole()
	last, covers, cuts := l.part.Marks().LastStable-1, whole-1, whole-2
	for _, at := range []At{{Now: true}, {Offset: &last}, {Offset: &covers}} {
		if row, found, err := v.Latest(t.Context(), testTopic, []byte("gone"), at); found || err != nil {
			t.Errorf("%+v: the deleted key: %v %v at offset %d", at, found, err, row.Offset)
		}
		var keys []string
		if err := v.Scan(t.Context(), testTopic, at, func(r Row) error {
			keys = append(keys, string(r.Key))
			return nil
		}); err != nil || !slices.Equal(keys, []string{"kept", "filler"}) {
			t.Errorf("%+v: keys %v, %v", at, keys, err)
		}
		if row, found, err := v.Latest(t.Context(), testTopic, []byte("kept"), at); !found || err != nil || string(row.Value) != "v" {
			t.Errorf("%+v: the other key: %v %v %q", at, found, err, row.Value)
		}
	}
	if _, _, err := v.Latest(t.Context(), testTopic, []byte("gone"), At{Offset: &cuts}); !errors.Is(err, ErrCompacted) {
		t.Errorf("a cut that leaves out what compaction has come to: %v", err)
	}
}

// TestALifeThatWentBeforeItWasFolded: the fold has come to a key's delete when the key lives again, is deleted again, and compaction takes all
// of it. A cut between the two deletes must not tell the first one.
func TestALifeThatWentBeforeItWasFolded(t *testing.T) {
	l := openLog(t)
	v := openViews(t, t.TempDir())
	v.Follow(testTopic, []Source{l.part})
	write := func(key string, value []byte) {
		t.Helper()
		if err := l.append(testRecord{ts: time.Now().UnixMilli(), key: []byte(key), value: value}); err != nil {
			t.Fatal(err)
		}
	}
	write("gone", []byte("v1"))
	write("gone", nil)
	if _, err := v.current(t.Context(), testTopic); err != nil {
		t.Fatal(err)
	}
	write("gone", []byte("v2"))
	lived := l.part.Marks().LastStable - 1
	write("gone", nil)
	for range 2 { // the first round sees the tombstone, the second one takes it
		write("filler", []byte("f"))
		if err := l.store.Compact(1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if row, found, err := v.Latest(t.Context(), testTopic, []byte("gone"), At{Offset: &lived}); !errors.Is(err, ErrCompacted) {
		t.Errorf("while it lived: %v %v at offset %d, deleted %v", found, err, row.Offset, row.Deleted)
	}
	whole := l.part.Whole() - 1
	if row, found, err := v.Latest(t.Context(), testTopic, []byte("gone"), At{Offset: &whole}); err != nil || found && !row.Deleted {
		t.Errorf("after its end: %v %v at offset %d", found, err, row.Offset)
	}
}
