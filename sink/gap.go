package sink

import "fmt"

// gap describes a transaction whose events are not all there.
func (m *merger) gap(t *topicState) error {
	for _, q := range t.queues {
		if q.empty() || q.top().kind != entryRow || q.top().pos.Commit >= m.cur.commit {
			continue
		}
		e := q.top() // what hides the event
		return recordErr(q.topic, q.partition, e.offset, fmt.Errorf(
			"it is an event of source transaction %X, which %s does not have, though %X after it is there: the log shows part of a "+
				"transaction that was aborted, or the transaction topic was cut; load the target again with a sink of a new name after "+
				"a new initial load", e.pos.Commit, m.ends.topic, m.cur.commit))
	}
	return recordErr(m.ends.topic, 0, m.cur.offset, fmt.Errorf(
		"event %d of table topic %s in source transaction %X is not in the log (deleted or compacted): the transaction cannot be "+
			"applied whole; load the target again with a sink of a new name after a new initial load", t.next, t.name, m.cur.commit))
}
