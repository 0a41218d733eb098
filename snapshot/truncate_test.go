package snapshot

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// TestP25TruncateEmptiesState: after a truncate no key lives, in any partition; before it, and in history, they do.
func TestP25TruncateEmptiesState(t *testing.T) {
	v := openViews(t, t.TempDir())
	srcs := []*memSource{newMemSource(), newMemSource()}
	at := func(commit uint64, r testRecord) testRecord {
		r.place = &testPlace{commit: commit, time: int64(commit)}
		return r
	}
	srcs[0].append(0, at(10, keyed("a", "1")))
	srcs[1].append(0, at(10, keyed("b", "1")))
	for _, s := range srcs {
		s.append(0, at(20, testRecord{value: truncateValue(), ts: 2}))
	}
	srcs[0].append(0, at(30, keyed("a", "2")))
	for _, s := range srcs { // of a compacted topic
		s.append(0, at(40, testRecord{key: []byte(truncateKey), value: truncateValue(), ts: 4}))
	}
	srcs[1].append(0, at(50, keyed("b", "2")))
	v.Follow(testTopic, []Source{srcs[0], srcs[1]})
	for _, c := range []struct {
		position uint64
		want     string
	}{{9, ""}, {10, "a=1 b=1 "}, {20, ""}, {30, "a=2 "}, {40, ""}, {50, "b=2 "}} {
		got := ""
		err := v.Scan(t.Context(), testTopic, At{Position: &c.position}, func(r Row) error {
			got += fmt.Sprintf("%s=%s ", r.Key, r.Value)
			return nil
		})
		if err != nil || got != c.want {
			t.Errorf("state at %d: %q, %v, want %q", c.position, got, err, c.want)
		}
	}
	if row, found := latest(t, v, "a"); !found || !row.Deleted || row.Value != nil || row.Position != 40 {
		t.Errorf("latest after a truncate: %+v, found %v", row, found)
	}
	history := ""
	err := v.History(t.Context(), testTopic, []byte("a"), func(r Row) error {
		history += fmt.Sprintf("%d:%s:%s ", r.Position, r.Key, r.Value)
		return nil
	})
	if err != nil || history != "10:a:1 20:a: 30:a:2 40:a: " {
		t.Errorf("history %q, %v", history, err)
	}
}

// TestLongKeysAreDeleted: a deletion step fits into a Badger transaction however long the keys are.
func TestLongKeysAreDeleted(t *testing.T) {
	v := openViews(t, t.TempDir())
	src := newMemSource()
	pad := strings.Repeat("k", maxInlineKey-8)
	for i := range sweepEntries {
		src.append(0, keyed(pad+strconv.Itoa(i), "x"))
	}
	v.Follow(testTopic, []Source{src})
	if _, found := latest(t, v, pad+"7"); !found {
		t.Fatal("row is missing")
	}
	src.retain(sweepEntries - 1)
	sweepAll(t, v)
	if left := len(dump(t, v, testTopic)); left != 2 { // an entry and the fold's state
		t.Errorf("%d keys left", left)
	}
	v.Forget(testTopic)
	sweepAll(t, v)
}
