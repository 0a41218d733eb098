package snapshot

import (
	"context"
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
