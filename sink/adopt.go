package sink

// adopt adds newly assigned partitions to the merge. Records of them can only have been fetched after they were put there.
func (t *task) adopt() error {
	for _, a := range t.inbox.take() {
		if t.queues[a.partition] != nil || t.books[a.topic] != nil {
			continue
		}
		prefix, kind := t.plan.place(a.topic)
		switch kind {
		case placeSchema:
			t.books[a.topic] = newSchemaBook(a.topic, a.start)
			continue
		case placeUnknown: // left over from a plan before
			continue
		}
		m := t.byPrefix[prefix]
		if m == nil {
			m = newMerger(prefix, t.sink.settings.Topics.Wants)
			t.byPrefix[prefix] = m
			t.mergers = append(t.mergers, m)
		}
		var q *queue
		if kind == placeTransaction {
			goal := t.inbox.starts.goal(prefix)
			last := goal
			if o, ok := t.inbox.starts.stored[a.partition]; ok && a.start < o.Next {
				last = 0
			}
			q = m.addEnds(a.topic, a.start, last, goal)
		} else {
			ts := m.topics[a.topic]
			if ts == nil {
				ts = t.addTopic(m, a.topic)
			}
			q = m.addPartition(ts, a.id, a.start)
			if o, ok := t.inbox.starts.stored[a.partition]; ok && o.Log == "" {
				m.moved(q) // the target learns which log it is
			}
		}
		t.queues[a.partition] = q
		t.owners[q] = m
	}
	return nil
}

// addTopic adds a data topic to its merger. One that appears while the task runs has no events in the transactions before
// the one at hand, since the merge does not pass a transaction that names a topic it wants and does not read.
func (t *task) addTopic(m *merger, topic string) *topicState {
	done, behind := t.inbox.starts.topic(m.prefix, topic)
	if behind && m.ends != nil && m.last >= m.goal && t.started {
		return m.addTopic(topic, m.last, false)
	}
	return m.addTopic(topic, done, behind)
}
