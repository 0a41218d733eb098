package sink

import (
	"fmt"
)

// merger puts the records of one connector's topics back into source order. It is pure: the task feeds queues and calls
// step. A merger without a transaction topic passes everything through in partition order.
type merger struct {
	prefix string
	ends   *queue
	topics map[string]*topicState
	wants  func(topic string) bool

	cur  transaction
	last uint64 // commit position of the last transaction finished
	goal uint64 // last, as the target had it at the start; lower while a topic that joined late is brought up

	free      []*queue      // queues with an entryFree on top
	reloading []*topicState // a truncate that begins a load waits on top of one of their partitions
	dirty     []*queue
	err       error // sticky: found while settling a queue

	// Why step returned stepBlocked.
	waiting []*queue    // any of these must get a record
	missing string      // this topic must be read, or (without a transaction topic) has events of source transactions
	ask     *topicState // barriers of this topic must be set
}

// topicState is one data topic and its share of the transaction at hand.
type topicState struct {
	name   string
	queues []*queue
	done   uint64 // transactions up to this commit position were applied by a session before
	behind bool   // joined the sink late: the transaction topic is read again from its start for this topic

	version uint64 // table version of its last stream event; 0: none yet

	left uint64 // events of the current transaction still to come
	next uint64 // CollectionOrder of the next one
	at   *queue // where the next one is; nil: not located
}

// transaction is the source transaction being applied.
type transaction struct {
	active bool
	id     string // as its source has it
	commit uint64
	offset int64 // of its END
	order  uint64
	topics []*topicState // those with events left
}

// String names it for people.
func (t *transaction) String() string {
	if t.id == "" {
		return numbered(t.commit)
	}
	return t.id
}

// numbered names a transaction of which only its place in the order is known.
func numbered(commit uint64) string { return fmt.Sprintf("number %d", commit) }

type stepKind uint8

const (
	stepBlocked  stepKind = iota // see waiting, missing and ask
	stepEvent                    // an event to apply
	stepBoundary                 // a source transaction is complete
)

// step is one step of the merge.
type step struct {
	kind  stepKind
	queue *queue
	entry entry
}

func newMerger(prefix string, wants func(string) bool) *merger {
	return &merger{prefix: prefix, topics: make(map[string]*topicState), wants: wants}
}

// addEnds adds the transaction topic, read from start on. The transactions before it reach up to last; the target has those
// up to goal.
func (m *merger) addEnds(topic string, start int64, last, goal uint64) *queue {
	m.ends = &queue{topic: topic, next: start, fetched: start, barrier: -1}
	m.last, m.goal = last, goal
	return m.ends
}

// addTopic adds a data topic. Transactions up to done are not counted for it.
func (m *merger) addTopic(name string, done uint64, behind bool) *topicState {
	t := &topicState{name: name, done: done, behind: behind}
	m.topics[name] = t
	return t
}

func (m *merger) addPartition(t *topicState, partition int32, start int64) *queue {
	q := &queue{topic: t.name, partition: partition, owner: t, next: start, fetched: start, barrier: -1}
	t.queues = append(t.queues, q)
	return q
}

// push adds the next record of a partition.
func (m *merger) push(q *queue, e entry) {
	if m.prefix == "" && e.kind == entryFree && e.pos.Schema != 0 {
		e.kind = entryRow // a connector's load row: it waits for the connector's own topics as its other events do
	}
	was := q.empty()
	q.push(e)
	if was {
		m.settle(q)
	}
}

// atBoundary tells that no source transaction is half applied.
func (m *merger) atBoundary() bool { return !m.cur.active }

// takeDirty returns the queues that moved since the last call. Their next offsets are a consistent cut only at a boundary.
func (m *merger) takeDirty(dst []*queue) []*queue {
	for _, q := range m.dirty {
		q.dirty = false
	}
	dst = append(dst, m.dirty...)
	m.dirty = m.dirty[:0]
	return dst
}

func (m *merger) moved(q *queue) {
	if !q.dirty {
		q.dirty = true
		m.dirty = append(m.dirty, q)
	}
}

func (m *merger) pop(q *queue) entry {
	e := q.pop()
	m.moved(q)
	m.settle(q)
	return e
}

// settle drops what needs no applying from the top of a queue.
func (m *merger) settle(q *queue) {
	for !q.empty() {
		e := q.top()
		switch {
		case e.reloads():
			m.reloaded(q.owner)
			return
		case e.kind == entryFree:
			m.release(q)
			return
		case e.kind == entrySkip:
		case e.kind == entryRow && q.owner != nil && m.passed(q.owner, e):
			if !e.truncate { // a truncate may stand in every partition of its table; it was applied once
				m.err = recordErr(q.topic, q.partition, e.offset, fmt.Errorf(
					"event %d of source transaction %s comes after the sink has passed it: the log repeats or reorders a source transaction",
					e.pos.Order, numbered(e.pos.Commit)))
				return
			}
		default:
			return
		}
		q.pop()
		m.moved(q)
	}
}

// release lets the entry on top of a queue be applied; it belongs to no source transaction.
func (m *merger) release(q *queue) {
	if !q.free {
		q.free = true
		m.free = append(m.free, q)
	}
}

// applied is the commit position up to which a table's transactions have been applied.
func (m *merger) applied(t *topicState) uint64 { return max(t.done, m.last) }

// passed tells that an event lies before the point the merge has reached.
func (m *merger) passed(t *topicState, e *entry) bool {
	switch {
	case e.pos.Commit <= m.applied(t):
		return true
	case m.cur.active && e.pos.Commit == m.cur.commit:
		return t.next > e.pos.CollectionOrder
	}
	return false
}

// step makes one step. With start false no new source transaction is begun, so that a boundary is reached.
func (m *merger) step(start bool) (step, error) {
	m.waiting, m.missing, m.ask = m.waiting[:0], "", nil
	if m.err != nil {
		return step{}, m.err
	}
	if len(m.free) > 0 && (start || m.cur.active) {
		q := m.free[len(m.free)-1]
		m.free = m.free[:len(m.free)-1]
		q.free = false
		if q.top().reloads() {
			return step{stepEvent, q, m.popReload(q)}, nil
		}
		return step{stepEvent, q, m.pop(q)}, nil
	}
	if start || m.cur.active {
		for _, t := range m.reloading {
			m.reload(t)
		}
		if len(m.free) > 0 {
			return m.step(start)
		}
	}
	if m.ends == nil {
		m.missing = m.headless()
		return step{}, nil
	}
	if !m.cur.active {
		if !start {
			return step{}, nil
		}
		if ok, err := m.begin(); !ok || err != nil {
			return step{}, err
		}
	}
	if len(m.cur.topics) == 0 {
		return m.finish(), nil
	}
	return m.next()
}

// headless names the transaction topic that must exist when events of source transactions come without one.
func (m *merger) headless() string {
	for _, t := range m.topics {
		for _, q := range t.queues {
			if !q.empty() && q.top().kind == entryRow {
				return t.name
			}
		}
	}
	return ""
}

// begin takes the next END. False: blocked.
func (m *merger) begin() (bool, error) {
	if m.ends.empty() {
		m.waiting = append(m.waiting, m.ends)
		return false, nil
	}
	e := m.ends.top()
	if e.err != nil {
		return false, recordErr(m.ends.topic, 0, e.offset, e.err)
	}
	if e.pos.Commit <= m.last {
		return false, recordErr(m.ends.topic, 0, e.offset, fmt.Errorf(
			"source transaction %s, %s, comes after %s: positions went back (another server, or the connector was reset); "+
				"let a sink of a new name load the target again", e.end.ID, numbered(e.pos.Commit), numbered(m.last)))
	}
	m.cur = transaction{active: true, id: e.end.ID, commit: e.pos.Commit, offset: e.offset, topics: m.cur.topics[:0]}
	for _, c := range e.end.Collections {
		name := topicOf(m.prefix, c.Collection)
		t := m.topics[name]
		if t == nil || len(t.queues) == 0 {
			if m.wants(name) {
				m.cur = transaction{topics: m.cur.topics[:0]}
				m.missing = name
				return false, nil
			}
			continue
		}
		if c.Count <= 0 || e.pos.Commit <= t.done {
			continue
		}
		t.left, t.next, t.at = uint64(c.Count), 1, nil
		m.cur.topics = append(m.cur.topics, t)
	}
	return true, nil
}

// finish ends the current transaction.
func (m *merger) finish() step {
	before := m.last
	m.last = m.cur.commit
	if before < m.goal && m.last >= m.goal {
		m.caughtUp()
	}
	m.cur = transaction{topics: m.cur.topics[:0]}
	return step{stepBoundary, m.ends, m.pop(m.ends)}
}

// caughtUp ends the bringing up of topics that joined late; the target has to learn it.
func (m *merger) caughtUp() {
	for _, t := range m.topics {
		if !t.behind {
			continue
		}
		t.behind = false
		for _, q := range t.queues {
			m.moved(q)
		}
	}
}

// next finds the event with the lowest Order among the tables that have events left. Each table's next event is the one
// whose CollectionOrder follows; it can only be on top of one of the table's partitions.
func (m *merger) next() (step, error) {
	var best *topicState
	for _, t := range m.cur.topics {
		if t.at == nil && !m.locate(t) {
			if m.err != nil {
				return step{}, m.err
			}
			switch {
			case len(m.free) > 0: // came to the top while looking
				return m.step(true)
			case len(m.waiting) == 0:
				return step{}, m.gap(t)
			}
			return step{}, nil
		}
		if best == nil || t.at.top().pos.Order < best.at.top().pos.Order {
			best = t
		}
	}
	if len(m.free) > 0 {
		return m.step(true)
	}
	q := best.at
	e := q.top()
	if e.pos.Order <= m.cur.order {
		return step{}, recordErr(q.topic, q.partition, e.offset, fmt.Errorf(
			"event %d of source transaction %s follows event %d", e.pos.Order, &m.cur, m.cur.order))
	}
	// Rows of a load may still be on their way in other partitions. A truncate takes them, and a new table version changes the
	// target's table under them.
	if (e.truncate || e.pos.Schema != best.version) && !m.reached(best) {
		return step{}, nil
	}
	best.version = e.pos.Schema
	m.cur.order = e.pos.Order
	best.next++
	best.left--
	best.at = nil
	if best.left == 0 {
		m.drop(best)
	}
	st := step{stepEvent, q, m.pop(q)}
	if st.entry.truncate { // its copies in the table's other partitions have passed
		for _, other := range best.queues {
			m.settleTop(other)
		}
	}
	return st, nil
}

func (m *merger) drop(t *topicState) {
	for i, have := range m.cur.topics {
		if have == t {
			last := len(m.cur.topics) - 1
			m.cur.topics[i] = m.cur.topics[last]
			m.cur.topics = m.cur.topics[:last]
			return
		}
	}
}

// locate finds the table's next event. When it is not there, waiting holds the partitions that it can still come from.
func (m *merger) locate(t *topicState) bool {
	for _, q := range t.queues {
		m.settleTop(q)
		if q.empty() {
			m.waiting = append(m.waiting, q)
			continue
		}
		e := q.top()
		if e.kind == entryRow && e.pos.Commit == m.cur.commit && e.pos.CollectionOrder == t.next {
			t.at = q
			m.waiting = m.waiting[:0]
			return true
		}
	}
	return false
}

// settleTop settles again: what has passed depends on the current transaction.
func (m *merger) settleTop(q *queue) {
	if !q.empty() && q.top().truncate {
		m.settle(q)
	}
}

// reached tells whether everything that stands before a truncate in the other partitions of its table has been applied.
// Stream events before it have; initial-load rows have only when the partition was read up to an event or to its end.
func (m *merger) reached(t *topicState) bool {
	ask := false
	for _, q := range t.queues {
		switch {
		case !q.empty(), q.barrier >= 0 && q.fetched >= q.barrier:
		case q.barrier < 0:
			ask = true
		default:
			m.waiting = append(m.waiting, q)
		}
	}
	if ask {
		m.ask = t
		return false
	}
	if len(m.waiting) > 0 {
		return false
	}
	for _, q := range t.queues {
		q.barrier = -1
	}
	return true
}
