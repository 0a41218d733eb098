package sink

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// A table that is loaded again is emptied once, after all that stands before the truncate in every partition and before all that
// stands behind it. A partition that was added afterwards has no
// copy of it.
func TestReloadTruncatesBetweenBeforeAndBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		topic := rapid.SampledFrom(w.topics).Draw(t, "reloaded")
		behind := map[string]bool{}
		truncates := map[string]bool{}
		added := rapid.Bool().Draw(t, "added")
		commit, next := uint64(1000), map[string]int64{}
		for name, log := range w.logs {
			if len(log) > 0 {
				next[name] = log[len(log)-1].offset + 1
			}
		}
		put := func(q string, e entry) string {
			e.offset, e.size = next[q], 1
			next[q]++
			w.logs[q] = append(w.logs[q], e)
			return fmt.Sprintf("%s@%d", q, e.offset)
		}
		for round := range rapid.IntRange(1, 2).Draw(t, "rounds") {
			commit += 10
			for p := range w.parts[topic] {
				truncates[put(queueName(topic, int32(p)), entry{kind: entryFree, truncate: true, pos: event.Position{Commit: commit}})] = true
			}
			if round == 0 && added {
				w.parts[topic]++
			}
			for range rapid.IntRange(0, 5).Draw(t, "rows") {
				q := queueName(topic, int32(rapid.IntRange(0, w.parts[topic]-1-btoi(added)).Draw(t, "partition")))
				name := put(q, entry{kind: entryFree, pos: event.Position{Commit: commit}})
				w.loads[q] = append(w.loads[q], name)
				behind[name] = true
			}
			if added {
				break
			}
		}
		commit += 10
		for i := range rapid.IntRange(0, 3).Draw(t, "changes") {
			e := entry{kind: entryRow, pos: event.Position{Commit: commit + uint64(i), Order: 1, CollectionOrder: 1}}
			q := queueName(topic, int32(rapid.IntRange(0, w.parts[topic]-1-btoi(added)).Draw(t, "partition")))
			put(q, e)
			put("p.transaction/0", entry{kind: entryEnd, pos: event.Position{Commit: e.pos.Commit}, end: &event.TransactionEnd{
				Collections: []event.CollectionCount{{Collection: topic[len("p."):], Count: 1}},
			}})
			name := eventName(topic, 0, &e)
			behind[name] = true
			w.want = append(w.want, name, fmt.Sprintf("|%d", e.pos.Commit))
		}
		s := newStored()
		var applied []string
		for range rapid.IntRange(0, 3).Draw(t, "restarts") {
			applied = newMachine(w, w.topics, s).run(t, rapid.IntRange(0, 40).Draw(t, "steps"), s, applied)
		}
		applied = newMachine(w, w.topics, s).run(t, -1, s, applied)

		emptied, first := 0, -1
		for i, a := range applied {
			if truncates[a] {
				if emptied++; first < 0 {
					first = i
				}
			}
		}
		if want := len(truncates) / max(1, w.parts[topic]-btoi(added)); emptied != want {
			t.Fatalf("truncated %d times, want %d: %v", emptied, want, applied)
		}
		own := func(a string) bool {
			return len(a) > len(topic) && a[:len(topic)] == topic && (a[len(topic)] == '#' || a[len(topic)] == '/')
		}
		for i, a := range applied {
			if own(a) && !truncates[a] && behind[a] != (i > first) {
				t.Fatalf("%s stands on the wrong side of the truncate: %v", a, applied)
			}
		}
		applied = slices.DeleteFunc(applied, func(a string) bool { return truncates[a] })
		w.check(t, applied)
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The first event of a table version waits for the rows of a load that are still on their way in other partitions.
func TestNewVersionWaitsForLoadRows(t *testing.T) {
	m := newMerger(testPrefix, func(string) bool { return true })
	ends := m.addEnds("p.transaction", 0, 0, 0)
	ts := m.addTopic("p.t", 0, false)
	loading, q := m.addPartition(ts, 0, 0), m.addPartition(ts, 1, 0)
	m.push(ends, entry{kind: entryEnd, pos: event.Position{Commit: 5}, end: &event.TransactionEnd{
		Collections: []event.CollectionCount{{Collection: "t", Count: 2}},
	}})
	for i := range uint64(2) {
		m.push(q, entry{kind: entryRow, offset: int64(i), pos: event.Position{Commit: 5, Order: i + 1, CollectionOrder: i + 1, Schema: 2}})
	}
	next := func(want stepKind) step {
		t.Helper()
		st, err := m.step(true)
		if err != nil || st.kind != want {
			t.Fatalf("step = %+v, %v; want %d", st, err, want)
		}
		return st
	}
	if next(stepBlocked); m.ask != ts {
		t.Fatal("the ends of the table's partitions are not asked for")
	}
	loading.barrier, q.barrier = 1, 2
	next(stepBlocked)
	m.push(loading, entry{kind: entryFree, pos: event.Position{Commit: 1, Schema: 1}})
	if st := next(stepEvent); st.queue != loading {
		t.Fatalf("%+v goes before the load's row", st)
	}
	next(stepEvent)
	next(stepEvent) // of the same version: nothing to wait for
	next(stepBoundary)
}
