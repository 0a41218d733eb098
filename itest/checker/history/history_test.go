package history

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// Sessions of the hand-made histories.
const (
	live  = iota + 1 // a member of group "g"
	fresh            // from the start
	final            // from the start to the end, after everything
	dirty            // read_uncommitted
	other            // a reader of its own
)

func sessions() map[int64]Session {
	return map[int64]Session{
		live: {Client: "r", Group: "g"}, fresh: {Client: "f", FromStart: true}, final: {Client: "z", FromStart: true, Final: true},
		dirty: {Client: "u", Uncommitted: true, FromStart: true}, other: {Client: "o"},
	}
}

var a, b, c, k = TP{"t", 0}, TP{"t", 1}, TP{"out", 0}, TP{"keyed", 0}

func w(tp TP, value, offset int64) Write { return Write{TP: tp, Value: value, Offset: offset} }

func rd(session int64, tp TP, offset, value int64) Read {
	return Read{TP: tp, Session: session, Offset: offset, Value: value}
}

func keyed(key string, value, offset int64) Write {
	return Write{TP: k, Key: key, Value: value, Offset: offset}
}

func tombstone(key string, value, offset int64) Write {
	return Write{TP: k, Key: key, Value: value, Offset: offset, Tombstone: true}
}

func rdKey(session int64, key string, offset, value int64) Read {
	return Read{TP: k, Session: session, Offset: offset, Value: value, Key: key}
}

func txn(o Outcome, writes ...Write) Op {
	return Op{Client: "w", Kind: Transaction, Outcome: o, Writes: writes}
}

func send(writes ...Write) Op { return Op{Client: "s", Kind: Send, Writes: writes} }

func poll(reads ...Read) Op { return Op{Client: "r", Kind: Poll, Reads: reads} }

func by(client string, op Op) Op { op.Client = client; return op }

func (op Op) reading(reads ...Read) Op { op.Reads = reads; return op }

func (op Op) at(begin, end time.Duration) Op { op.Begin, op.End = begin, end; return op }

func history(ops ...Op) *History {
	return &History{Ops: ops, Sessions: sessions(), Compacted: map[string]bool{"keyed": true}}
}

func kinds(r *Report) string {
	var names []string
	for kind, n := range r.Count {
		for range n {
			names = append(names, kind)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func TestEachPropertyIsSeenBroken(t *testing.T) {
	outputs := func(ops ...Op) *History {
		h := history(ops...)
		h.Groups = map[string]map[TP]int64{"g": {a: 1}}
		h.Transforms = []Transform{{Group: "g", Input: "t", Output: "out"}}
		return h
	}
	groups := func(ops ...Op) *History {
		h := history(ops...)
		h.Groups = map[string]map[TP]int64{"g": {a: 2}}
		return h
	}
	tests := []struct {
		name string
		h    *History
		want string
	}{
		{"two values at an offset, by an answer", history(send(w(a, 1, 0), w(a, 2, NoOffset)), poll(rd(final, a, 0, 2))), InconsistentOffset + ", " + LostWrite},
		{"two values at an offset, by two readers", history(send(w(a, 1, NoOffset), w(a, 2, NoOffset)), poll(rd(live, a, 0, 2)), poll(rd(dirty, a, 0, 1))), InconsistentOffset},
		{"a value twice", history(send(w(a, 1, 0)), poll(rd(final, a, 0, 1), rd(final, a, 1, 1))), Duplicate},
		{"a value twice, once uncommitted", history(send(w(a, 1, 0)), poll(rd(final, a, 0, 1)), poll(rd(dirty, a, 7, 1))), Duplicate},
		{"a value that nobody wrote", history(poll(rd(final, a, 0, 9))), Phantom},
		{"a value in another partition", history(send(w(a, 1, NoOffset)), poll(rd(final, b, 0, 1))), Phantom},
		{"a value with another key", history(send(keyed("x", 1, NoOffset)), poll(rdKey(final, "y", 0, 1))), Phantom},
		{"an aborted value", history(txn(Aborted, w(a, 1, 0)), poll(rd(live, a, 0, 1))), AbortedRead},
		{"a value of the future", history(poll(rd(final, a, 0, 1)).at(1, 2), send(w(a, 1, 0)).at(3, 4)), FutureRead},
		{"an answered send that readers passed", history(send(w(a, 1, 0)), send(w(a, 2, 1)), poll(rd(final, a, 1, 2))), LostWrite},
		{"a committed write that readers passed", history(txn(Committed, w(a, 1, 0)), send(w(a, 2, 1)), poll(rd(final, a, 1, 2))), LostWrite},
		{"a read write that is gone", history(send(w(a, 1, 0)), poll(rd(live, a, 0, 1))), LostWrite},
		{"an answered send at the end", history(send(w(a, 1, 0), w(a, 2, 1)), poll(rd(final, a, 0, 1))), Unseen},
		{"half of a committed transaction", history(txn(Committed, w(a, 1, 0), w(b, 2, 0)), poll(rd(final, a, 0, 1))), Torn + ", " + Unseen},
		{"half of an unknown transaction", history(txn(Unknown, w(a, 1, 0), w(b, 2, 0)), poll(rd(final, a, 0, 1))), Torn},
		{"an unknown transaction that is gone", history(txn(Unknown, w(a, 1, 0)), poll(rd(live, a, 0, 1))), LostWrite},
		{"back within a poll", history(send(w(a, 1, 0), w(a, 2, 1)), poll(rd(live, a, 1, 2), rd(live, a, 0, 1)), poll(rd(final, a, 0, 1), rd(final, a, 1, 2))), InternalBackwards},
		{"back between polls", history(send(w(a, 1, 0)), poll(rd(live, a, 0, 1)), poll(rd(live, a, 0, 1)), poll(rd(final, a, 0, 1))), ExternalBackwards},
		{"skip within a poll", history(send(w(a, 1, 0), w(a, 2, 1), w(a, 3, 2)), poll(rd(live, a, 0, 1), rd(live, a, 2, 3)), poll(rd(final, a, 0, 1), rd(final, a, 1, 2), rd(final, a, 2, 3))), InternalSkip},
		{"skip between polls", history(send(w(a, 1, 0), w(a, 2, 1), w(a, 3, 2)), poll(rd(live, a, 0, 1)), poll(rd(live, a, 2, 3)), poll(rd(final, a, 0, 1), rd(final, a, 1, 2), rd(final, a, 2, 3))), ExternalSkip},
		{"skip at the start", history(send(w(a, 1, 0), w(a, 2, 1)), poll(rd(fresh, a, 1, 2)), poll(rd(final, a, 0, 1), rd(final, a, 1, 2))), InternalSkip},
		{"a transaction's record passed while another part was read", history(txn(Committed, w(a, 1, 0), w(a, 2, 1)), send(w(a, 3, 2)), poll(rd(fresh, a, 0, 1), rd(fresh, a, 2, 3)), poll(rd(final, a, 0, 1), rd(final, a, 1, 2), rd(final, a, 2, 3))), InternalSkip},
		{"skip of a key's last record", history(send(keyed("x", 1, 0), keyed("y", 2, 1)), poll(rdKey(fresh, "y", 1, 2)), poll(rdKey(final, "x", 0, 1), rdKey(final, "y", 1, 2))), InternalSkip},
		{"a group that passed a record", groups(send(w(a, 1, 0), w(a, 2, 1)), poll(rd(live, a, 1, 2)), poll(rd(final, a, 0, 1), rd(final, a, 1, 2))), GroupSkip},
		{"two outputs", outputs(send(w(a, 1, 0)), txn(Committed, Write{TP: c, Value: 2, From: 1, Offset: 0}), txn(Committed, Write{TP: c, Value: 3, From: 1, Offset: 1}), poll(rd(live, a, 0, 1)), poll(rd(final, a, 0, 1), rd(final, c, 0, 2), rd(final, c, 1, 3))), TransformedTwice},
		{"no output", outputs(send(w(a, 1, 0)), txn(Aborted, Write{TP: c, Value: 2, From: 1, Offset: 0}), poll(rd(live, a, 0, 1)), poll(rd(final, a, 0, 1))), NotTransformed},
		{"a key without its record", history(send(keyed("x", 1, 0))), KeyLost + ", " + Unseen},
		{"a key whose last record is older", history(send(keyed("x", 1, 0), keyed("x", 2, 1)), poll(rdKey(final, "x", 0, 1))), KeyStale + ", " + Unseen},
		{"a deleted key that is back", history(send(keyed("x", 1, 0), tombstone("x", 2, 1)), poll(rdKey(final, "x", 0, 1))), KeyStale},
		{"a cycle of two reads", history(
			by("p", txn(Committed, w(a, 1, 0))).reading(rd(live, b, 0, 2)), by("q", txn(Committed, w(b, 2, 0))).reading(rd(other, a, 0, 1)),
			poll(rd(final, a, 0, 1), rd(final, b, 0, 2))), CycleG1c},
		{"a cycle of reads through three", history(
			by("p", txn(Committed, w(a, 1, 0))).reading(rd(live, c, 0, 3)), by("q", txn(Committed, w(b, 2, 0))).reading(rd(other, a, 0, 1)),
			by("s", txn(Unknown, w(c, 3, 0))).reading(rd(other, b, 0, 2)),
			poll(rd(final, a, 0, 1), rd(final, b, 0, 2), rd(final, c, 0, 3))), CycleG1c},
		{"a cycle through a client's order", history(
			by("p", txn(Committed, w(a, 1, 0))).reading(rd(live, b, 0, 2)), by("q", txn(Committed)).reading(rd(other, a, 0, 1)),
			by("q", txn(Committed, w(b, 2, 0))), poll(rd(final, a, 0, 1), rd(final, b, 0, 2))), CycleG1cProcess},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Check(tt.h)
			if got := kinds(r); got != tt.want {
				t.Errorf("got %s\nwant %s\n%v", got, tt.want, r.Violations)
			}
			for _, v := range r.Violations {
				if len(v.Ops) == 0 || !strings.Contains(v.Text, "#") && v.Kind != GroupSkip && v.Kind != NotTransformed {
					t.Errorf("no evidence: %+v", v)
				}
			}
		})
	}
}

func TestWhatIsRightPasses(t *testing.T) {
	tests := []struct {
		name string
		h    *History
	}{
		{"nothing", history()},
		{"unanswered sends are there or not", history(send(w(a, 1, NoOffset), w(a, 2, NoOffset)), poll(rd(final, a, 0, 2)))},
		{"an unknown transaction that is whole", history(txn(Unknown, w(a, 1, 0), w(b, 2, 0)), poll(rd(final, a, 0, 1), rd(final, b, 0, 2)))},
		{"an unknown transaction that is not there", history(txn(Unknown, w(a, 1, 0), w(b, 2, 0)))},
		{"aborted records seen by an uncommitted reader", history(txn(Aborted, w(a, 1, 0)), send(w(a, 2, 2)), poll(rd(dirty, a, 0, 1), rd(dirty, a, 2, 2)), poll(rd(final, a, 2, 2)))},
		{"gaps where nothing was committed", history(txn(Aborted, w(a, 1, 1)), send(w(a, 2, 0), w(a, 3, 5)), poll(rd(fresh, a, 0, 2), rd(fresh, a, 5, 3)), poll(rd(final, a, 0, 2), rd(final, a, 5, 3)))},
		{"a new session starts where it wants", history(send(w(a, 1, 0), w(a, 2, 1)), poll(rd(live, a, 1, 2)), poll(rd(other, a, 0, 1)), poll(rd(final, a, 0, 1), rd(final, a, 1, 2)))},
		{"compaction took what came before", history(send(keyed("x", 1, 0), keyed("y", 2, 1), keyed("x", 3, 2)), poll(rdKey(live, "x", 0, 1)), poll(rdKey(final, "y", 1, 2), rdKey(final, "x", 2, 3)))},
		{"compaction took the tombstone", history(send(keyed("x", 1, 0), tombstone("x", 2, 1)))},
		{"the tombstone is there", history(send(keyed("x", 1, 0), tombstone("x", 2, 1)), poll(rdKey(final, "x", 1, 2)))},
		{"an unanswered tombstone deleted the key", history(send(keyed("x", 1, 0)), send(tombstone("x", 2, NoOffset)), poll(rdKey(live, "x", 0, 1)), poll(rdKey(live, "x", 1, 2)))},
		{"an unanswered record is a key's last", history(send(keyed("x", 1, 0)), send(keyed("x", 2, NoOffset)), poll(rdKey(final, "x", 1, 2)))},
		{"outputs that were made of nothing", func() *History {
			h := history(send(w(c, 1, 0), w(c, 2, 1)), poll(rd(final, c, 0, 1), rd(final, c, 1, 2)))
			h.Transforms = []Transform{{Group: "g", Input: "t", Output: "out"}}
			return h
		}()},
		{"a chain of reads", history(by("p", txn(Committed, w(a, 1, 0))), by("q", txn(Committed, w(b, 2, 0))).reading(rd(other, a, 0, 1)), by("p", txn(Committed, w(c, 3, 0))).reading(rd(live, b, 0, 2)), poll(rd(final, a, 0, 1), rd(final, b, 0, 2), rd(final, c, 0, 3)))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if r := Check(tt.h); len(r.Violations) > 0 {
				t.Errorf("%v", r.Violations)
			}
		})
	}
}

func TestCyclesThatKafkaAllowsAreCounted(t *testing.T) {
	interleaved := history(by("p", txn(Committed, w(a, 1, 0), w(b, 2, 1))), by("q", txn(Committed, w(a, 3, 1), w(b, 4, 0))),
		poll(rd(final, a, 0, 1), rd(final, a, 1, 3), rd(final, b, 0, 4), rd(final, b, 1, 2)))
	if r := Check(interleaved); len(r.Violations) > 0 || r.Allowed[AllowedG0] != 1 {
		t.Errorf("interleaved writes: %v, %v", r.Violations, r.Allowed)
	}
	// q read what p wrote to a, and its own write stands before p's in b.
	mixed := history(by("p", txn(Committed, w(a, 1, 0), w(b, 2, 1))), by("q", txn(Committed, w(b, 4, 0))).reading(rd(other, a, 0, 1)),
		poll(rd(final, a, 0, 1), rd(final, b, 0, 4), rd(final, b, 1, 2)))
	if r := Check(mixed); len(r.Violations) > 0 || r.Allowed[AllowedG1cWW] != 1 || r.Allowed[AllowedG0] != 0 {
		t.Errorf("writes and reads: %v, %v", r.Violations, r.Allowed)
	}
	// s wrote behind p; q read before p's write, and s before q's.
	skew := history(by("p", txn(Committed, w(a, 1, 1), w(b, 2, 1))).reading(rd(other, a, 0, 5)), by("q", txn(Committed, w(c, 3, 1))).reading(rd(live, b, 0, 6)),
		by("x", send(w(a, 5, 0), w(b, 6, 0), w(c, 7, 0))), by("s", txn(Committed, w(a, 8, 2))).reading(rd(fresh, c, 0, 7)),
		poll(rd(final, a, 0, 5), rd(final, a, 1, 1), rd(final, a, 2, 8), rd(final, b, 0, 6), rd(final, b, 1, 2), rd(final, c, 0, 7), rd(final, c, 1, 3)))
	if r := Check(skew); len(r.Violations) > 0 || r.Allowed[AllowedG2] != 1 {
		t.Errorf("a cycle of an overwritten read and a write: %v, %v", r.Violations, r.Allowed)
	}
	// Both read a partition before the other's write to it.
	both := history(by("p", txn(Committed, w(b, 1, 1))).reading(rd(other, a, 0, 5)), by("q", txn(Committed, w(a, 2, 1))).reading(rd(live, b, 0, 6)),
		by("x", send(w(a, 5, 0), w(b, 6, 0))), poll(rd(final, a, 0, 5), rd(final, a, 1, 2), rd(final, b, 0, 6), rd(final, b, 1, 1)))
	if r := Check(both); len(r.Violations) > 0 || r.Allowed[AllowedG2] != 1 {
		t.Errorf("write skew: %v, %v", r.Violations, r.Allowed)
	}
}

// The components are those of reachability both ways.
func TestComponentsAgainstReachability(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := 2 + rng.IntN(12)
		g := &graph{edges: map[int][]edge{}}
		reach := make([][]bool, n)
		for i := range reach {
			reach[i] = make([]bool, n)
		}
		for range rng.IntN(2 * n) {
			from, to := rng.IntN(n), rng.IntN(n)
			kind := writeRead
			if rng.IntN(4) == 0 {
				kind = writeWrite
			}
			g.add(from, to, kind, func() string { return "" })
			if kind == writeRead {
				reach[from][to] = true
			}
		}
		for via := range n {
			for i := range n {
				for j := range n {
					reach[i][j] = reach[i][j] || reach[i][via] && reach[via][j]
				}
			}
		}
		in := map[int]int{}
		for id, part := range g.components(writeRead) {
			for _, m := range part {
				in[m] = id + 1
			}
			path := g.cycle(part, writeRead, writeRead)
			for i, s := range path {
				if next := path[(i+1)%len(path)].from; s.to != next || s.kind != writeRead {
					t.Fatalf("no cycle: %+v", path)
				}
			}
			if path == nil {
				t.Fatalf("no cycle in %v", part)
			}
		}
		for i := range n {
			for j := range n {
				if i != j && (in[i] != 0 && in[i] == in[j]) != (reach[i][j] && reach[j][i]) {
					t.Fatalf("%d and %d: components %v, edges %v", i, j, in, g.edges)
				}
			}
		}
	}
}

func TestAReportIsBounded(t *testing.T) {
	var ops []Op
	for i := range int64(100) {
		ops = append(ops, txn(Aborted, w(a, i+1, i)), poll(rd(live, a, i, i+1)))
	}
	r := Check(history(ops...))
	if len(r.Violations) != maxPerKind || r.Count[AbortedRead] != 100 {
		t.Fatalf("%d explained, %d counted", len(r.Violations), r.Count[AbortedRead])
	}
}
