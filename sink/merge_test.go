package sink

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// world is a random source history, its log, and the naive twin's answer: the sequence that a sink must apply.
type world struct {
	logs   map[string][]entry // by queue name topic/partition
	topics []string
	parts  map[string]int
	want   []string // stream events of the topics read, in source order, with a "|C" after each transaction
	loads  map[string][]string
}

const testPrefix = "p"

func queueName(topic string, partition int32) string { return fmt.Sprintf("%s/%d", topic, partition) }

func eventName(topic string, partition int32, e *entry) string {
	return fmt.Sprintf("%s#%d.%d", topic, e.pos.Commit, e.pos.Order)
}

// drawWorld makes transactions over random tables and partitions, with offset gaps (markers, aborted transactions),
// tombstones, initial-load rows before the stream of a partition, truncates in one or all partitions of a table, and
// tables that the sink does not read.
func drawWorld(t *rapid.T) *world {
	w := &world{logs: map[string][]entry{}, parts: map[string]int{}, loads: map[string][]string{}}
	for i := range rapid.IntRange(1, 4).Draw(t, "topics") {
		name := fmt.Sprintf("p.t%d", i)
		w.topics = append(w.topics, name)
		w.parts[name] = rapid.IntRange(1, 4).Draw(t, "partitions")
	}
	next := map[string]int64{}
	put := func(q string, e entry) {
		next[q] += int64(rapid.IntRange(0, 3).Draw(t, "gap"))
		e.offset, e.size = next[q], 1
		next[q]++
		w.logs[q] = append(w.logs[q], e)
	}
	for _, topic := range w.topics {
		for range rapid.IntRange(0, 5).Draw(t, "load") {
			p := int32(rapid.IntRange(0, w.parts[topic]-1).Draw(t, "loadpart"))
			q := queueName(topic, p)
			e := entry{kind: entryFree, pos: event.Position{Commit: 1}}
			put(q, e)
			w.loads[q] = append(w.loads[q], fmt.Sprintf("%s@%d", q, next[q]-1))
		}
	}
	read := map[string]bool{}
	for _, topic := range w.topics {
		read[topic] = true
	}
	all := append(slices.Clone(w.topics), "p.unread")
	w.parts["p.unread"] = 1
	commit := uint64(10)
	for range rapid.IntRange(0, 12).Draw(t, "transactions") {
		commit += uint64(rapid.IntRange(1, 5).Draw(t, "step"))
		counts := map[string]uint64{}
		var order uint64
		for range rapid.IntRange(0, 12).Draw(t, "events") {
			topic := rapid.SampledFrom(all).Draw(t, "topic")
			order++
			counts[topic]++
			e := entry{kind: entryRow, pos: event.Position{Commit: commit, Order: order, CollectionOrder: counts[topic]}}
			p := int32(rapid.IntRange(0, w.parts[topic]-1).Draw(t, "partition"))
			switch rapid.IntRange(0, 9).Draw(t, "op") {
			case 0: // truncate
				e.truncate = true
				if rapid.Bool().Draw(t, "broadcast") {
					for i := range w.parts[topic] {
						put(queueName(topic, int32(i)), e)
					}
				} else {
					put(queueName(topic, p), e)
				}
			case 1: // delete
				put(queueName(topic, p), e)
				tomb := e
				tomb.kind = entrySkip
				put(queueName(topic, p), tomb)
			default:
				put(queueName(topic, p), e)
			}
			if read[topic] {
				w.want = append(w.want, eventName(topic, p, &e))
			}
		}
		end := &event.TransactionEnd{Status: "END"}
		for topic, n := range counts {
			end.Collections = append(end.Collections, event.CollectionCount{Collection: topic[len("p."):], Count: int64(n)})
		}
		if rapid.Bool().Draw(t, "begin") {
			put("p.transaction/0", entry{kind: entrySkip})
		}
		put("p.transaction/0", entry{kind: entryEnd, pos: event.Position{Commit: commit}, end: end})
		w.want = append(w.want, fmt.Sprintf("|%d", commit))
	}
	return w
}

// stored is what a target keeps.
type stored struct {
	next   map[string]int64
	last   uint64
	behind map[string]bool
	done   map[string]uint64
}

// machine runs a merger over a world with random fetches.
type machine struct {
	w      *world
	m      *merger
	queues map[string]*queue
	read   map[string]int // entries pushed, by queue
}

func newMachine(w *world, topics []string, s *stored) *machine {
	mc := &machine{w: w, queues: map[string]*queue{}, read: map[string]int{}}
	mc.m = newMerger(testPrefix, func(topic string) bool { return slices.Contains(topics, topic) })
	open := func(name string, start int64, add func(int64) *queue) {
		q := add(start)
		mc.queues[name] = q
		for mc.read[name] < len(w.logs[name]) && w.logs[name][mc.read[name]].offset < start {
			mc.read[name]++
		}
	}
	start, last := s.next["p.transaction/0"], s.last
	for _, topic := range topics {
		if s.behind[topic] {
			start, last = 0, 0
		}
	}
	open("p.transaction/0", start, func(at int64) *queue { return mc.m.addEnds("p.transaction", at, last, s.last) })
	for _, topic := range topics {
		done := s.last
		if s.behind[topic] {
			done = s.done[topic]
		}
		ts := mc.m.addTopic(topic, done, s.behind[topic])
		for p := range w.parts[topic] {
			name := queueName(topic, int32(p))
			open(name, s.next[name], func(at int64) *queue { return mc.m.addPartition(ts, int32(p), at) })
		}
	}
	return mc
}

// feed pushes the next record of a queue; false when its log has no more.
func (mc *machine) feed(name string) bool {
	log, i := mc.w.logs[name], mc.read[name]
	if i == len(log) {
		return false
	}
	mc.read[name]++
	mc.m.push(mc.queues[name], log[i])
	return true
}

// relieve gives a blocked merger one thing that it asked for; false when there is nothing left.
func (mc *machine) relieve(t *rapid.T) bool {
	if mc.m.ask != nil {
		for _, q := range mc.m.ask.queues {
			q.barrier = 0
			if log := mc.w.logs[queueName(q.topic, q.partition)]; len(log) > 0 {
				q.barrier = log[len(log)-1].offset + 1
			}
		}
		return true
	}
	var can []string
	for _, q := range mc.m.waiting {
		if !q.empty() {
			t.Fatalf("waits for %s, of which %d are buffered", q.topic, len(q.entries)-q.head)
		}
		name := queueName(q.topic, q.partition)
		if mc.read[name] < len(mc.w.logs[name]) {
			can = append(can, name)
		}
	}
	if len(can) == 0 {
		return false
	}
	return mc.feed(rapid.SampledFrom(can).Draw(t, "relieve"))
}

// names are the queues in a fixed order.
func (mc *machine) names() []string {
	var names []string
	for name := range mc.queues {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// run steps until the log is used up or, when it is not negative, until that many steps were made. Applied is what a
// target would hold at the last commit; what came after is rolled back.
func (mc *machine) run(t *rapid.T, steps int, s *stored, applied []string) []string {
	const bufferBound = 3
	names := mc.names()
	open := applied
	for n := 0; steps < 0 || n < steps; n++ {
		if rapid.IntRange(0, 3).Draw(t, "fetch") == 0 {
			name := rapid.SampledFrom(names).Draw(t, "queue")
			if q := mc.queues[name]; len(q.entries)-q.head < bufferBound {
				mc.feed(name)
			}
		}
		st, err := mc.m.step(true)
		if err != nil {
			t.Fatalf("step: %v", err)
		}
		switch st.kind {
		case stepEvent:
			if st.entry.kind == entryFree {
				open = append(open, fmt.Sprintf("%s@%d", queueName(st.queue.topic, st.queue.partition), st.entry.offset))
			} else {
				open = append(open, eventName(st.queue.topic, st.queue.partition, &st.entry))
			}
		case stepBoundary:
			open = append(open, fmt.Sprintf("|%d", st.entry.pos.Commit))
		case stepBlocked:
			if !mc.relieve(t) {
				rest := false
				for _, name := range names {
					rest = mc.feed(name) || rest
				}
				if !rest {
					steps = 0
				}
			}
		}
		if mc.m.atBoundary() && rapid.Bool().Draw(t, "commit") || steps == 0 {
			if !mc.m.atBoundary() {
				t.Fatalf("log used up inside transaction %d, waiting %d", mc.m.cur.commit, len(mc.m.waiting))
			}
			mc.save(s)
			applied = slices.Clone(open)
		}
	}
	return applied
}

// save does what a target does on commit.
func (mc *machine) save(s *stored) {
	for _, q := range mc.m.takeDirty(nil) {
		name := queueName(q.topic, q.partition)
		if q.owner == nil {
			if mc.m.last >= s.last {
				s.next[name], s.last = q.next, mc.m.last
			}
			continue
		}
		s.next[name] = q.next
		if s.behind[q.topic] {
			s.done[q.topic], s.behind[q.topic] = mc.m.applied(q.owner), q.owner.behind
		}
	}
}

func newStored() *stored {
	return &stored{next: map[string]int64{}, behind: map[string]bool{}, done: map[string]uint64{}}
}

// check compares what was applied with the naive twin: stream events in exact source order with whole transactions; load
// rows once each, in partition order, before any stream event of their partition's topic that follows in the log.
func (w *world) check(t *rapid.T, applied []string) {
	var stream []string
	loads := map[string][]string{}
	for _, a := range applied {
		var q string
		for name := range w.loads {
			if len(a) > len(name) && a[:len(name)+1] == name+"@" {
				q = name
			}
		}
		if q == "" {
			stream = append(stream, a)
			continue
		}
		loads[q] = append(loads[q], a)
	}
	if !slices.Equal(stream, w.want) {
		t.Fatalf("applied\n%v\nwant\n%v", stream, w.want)
	}
	for q, want := range w.loads {
		if !slices.Equal(loads[q], want) {
			t.Fatalf("load rows of %s: %v, want %v", q, loads[q], want)
		}
	}
}

// A sink that is restarted at any points applies the same sequence as the naive twin.
func TestMergeAppliesSourceOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		s := newStored()
		var applied []string
		for range rapid.IntRange(0, 4).Draw(t, "restarts") {
			applied = newMachine(w, w.topics, s).run(t, rapid.IntRange(0, 40).Draw(t, "steps"), s, applied)
		}
		last := newMachine(w, w.topics, s)
		applied = last.run(t, -1, s, applied)
		w.check(t, applied)
		for name, q := range last.queues {
			if log := w.logs[name]; len(log) > 0 && q.next != log[len(log)-1].offset+1 {
				t.Fatalf("%s: everything is applied, but the offset is %d of %d", name, q.next, log[len(log)-1].offset+1)
			}
		}
	})
}

// A truncate is applied after every load row of its table, whatever partitions were fetched first.
func TestP25TruncateWaitsForLoadRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		s := newStored()
		applied := newMachine(w, w.topics, s).run(t, -1, s, nil)
		truncated := map[string]bool{}
		isTruncate := map[string]string{}
		for name, log := range w.logs {
			for i := range log {
				if log[i].truncate {
					topic := name[:len(name)-2]
					isTruncate[eventName(topic, 0, &log[i])] = topic
				}
			}
		}
		for _, a := range applied {
			if topic := isTruncate[a]; topic != "" {
				truncated[topic] = true
			}
			for topic := range truncated {
				for p := range w.parts[topic] {
					if slices.Contains(w.loads[queueName(topic, int32(p))], a) {
						t.Fatalf("load row %s after the truncate of %s", a, topic)
					}
				}
			}
		}
	})
}

// A table that joins an existing sink is brought up to the others from its first event, and then goes on with them.
func TestMergeTopicJoinsLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		if len(w.topics) < 2 {
			t.Skip("one table only")
		}
		s := newStored()
		late := w.topics[0]
		applied := newMachine(w, w.topics[1:], s).run(t, rapid.IntRange(0, 60).Draw(t, "steps"), s, nil)
		if s.next["p.transaction/0"] > 0 {
			s.behind[late] = true
		}
		for range rapid.IntRange(0, 2).Draw(t, "restarts") {
			applied = newMachine(w, w.topics, s).run(t, rapid.IntRange(0, 30).Draw(t, "more"), s, applied)
		}
		applied = newMachine(w, w.topics, s).run(t, -1, s, applied)
		only := func(list []string, keep func(string) bool) []string {
			var out []string
			for _, a := range list {
				if keep(a) {
					out = append(out, a)
				}
			}
			return out
		}
		for _, topic := range w.topics {
			mine := func(a string) bool { return len(a) > len(topic) && a[:len(topic)+1] == topic+"#" }
			if got, want := only(applied, mine), only(w.want, mine); !slices.Equal(got, want) {
				t.Fatalf("%s: applied %v, want %v", topic, got, want)
			}
		}
		others := func(a string) bool {
			return !(len(a) > len(late) && (a[:len(late)+1] == late+"#" || a[:len(late)+1] == late+"/")) && a[0] != '|' &&
				!slices.ContainsFunc(w.topics, func(topic string) bool { return len(a) > len(topic) && a[:len(topic)+1] == topic+"/" })
		}
		if got, want := only(applied, others), only(w.want, others); !slices.Equal(got, want) {
			t.Fatalf("others: applied %v, want %v", got, want)
		}
	})
}

func TestMergeAsksForMissingTopic(t *testing.T) {
	m := newMerger(testPrefix, func(topic string) bool { return topic == "p.new" })
	ends := m.addEnds("p.transaction", 0, 0, 0)
	m.push(ends, entry{kind: entryEnd, pos: event.Position{Commit: 5}, end: &event.TransactionEnd{
		Collections: []event.CollectionCount{{Collection: "new", Count: 1}, {Collection: "other", Count: 1}},
	}})
	st, err := m.step(true)
	if err != nil || st.kind != stepBlocked || m.missing != "p.new" || !m.atBoundary() {
		t.Fatalf("step = %+v, %v, missing %q", st, err, m.missing)
	}
	q := m.addPartition(m.addTopic("p.new", 0, false), 0, 0)
	m.push(q, entry{kind: entryRow, pos: event.Position{Commit: 5, Order: 1, CollectionOrder: 1}})
	for _, want := range []stepKind{stepEvent, stepBoundary, stepBlocked} {
		if st, err = m.step(true); err != nil || st.kind != want {
			t.Fatalf("step = %+v, %v; want %d", st, err, want)
		}
	}
}
