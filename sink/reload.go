package sink

import "slices"

// A table that is loaded again begins with a truncate in each of its partitions, which belongs to no source transaction. It is
// applied once, when all that stands before it in every partition has been applied and nothing that stands behind it.

// reloads tells that an entry is the truncate that begins a load.
func (e *entry) reloads() bool { return e.kind == entryFree && e.truncate }

// reloaded notes that a table's truncate waits.
func (m *merger) reloaded(t *topicState) {
	if !slices.Contains(m.reloading, t) {
		m.reloading = append(m.reloading, t)
	}
}

// reload releases a table's waiting truncate once it, or something behind it, is on top of every partition. A partition that was
// added later has no copy of it: when it has nothing to read, its end decides.
func (m *merger) reload(t *topicState) {
	var first *queue
	for _, q := range t.queues {
		if !q.empty() && q.top().reloads() && (first == nil || q.top().pos.Commit < first.top().pos.Commit) {
			first = q
		}
	}
	if first == nil {
		return
	}
	waits := false
	for _, q := range t.queues {
		switch {
		case q.empty() && q.barrier < 0:
			m.ask = t
			waits = true
		case q.empty():
			waits = waits || q.fetched < q.barrier
		case q.top().reloads():
		case q.top().kind == entryFree, q.top().pos.Commit < first.top().pos.Commit:
			waits = true
		}
	}
	if !waits {
		m.release(first)
	}
}

// popReload takes the truncate and its copies.
func (m *merger) popReload(q *queue) entry {
	m.reloading = slices.DeleteFunc(m.reloading, func(t *topicState) bool { return t == q.owner })
	e := q.pop()
	m.moved(q)
	for _, other := range q.owner.queues {
		other.barrier = -1
		if !other.empty() && other.top().reloads() && other.top().pos.Commit == e.pos.Commit {
			other.pop()
			m.moved(other)
		}
	}
	for _, other := range q.owner.queues {
		m.settle(other)
	}
	return e
}
