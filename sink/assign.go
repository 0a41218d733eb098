package sink

import (
	"fmt"
)

// partition names one partition of the log.
type partition struct {
	topic string
	id    int32
}

// bounds are the offsets that the log has of a partition.
type bounds struct{ start, end int64 }

// starts decides where each partition is read from. The target's offsets win (invariant 4).
type starts struct {
	stored map[partition]Offset
	topics map[string]topicStart
}

// topicStart is what the target knows of a topic as a whole.
type topicStart struct {
	behind bool
	done   uint64
}

func newStarts(offsets []Offset) *starts {
	s := &starts{stored: make(map[partition]Offset, len(offsets)), topics: make(map[string]topicStart)}
	for _, o := range offsets {
		s.stored[partition{o.Topic, o.Partition}] = o
		t := s.topics[o.Topic]
		t.behind = t.behind || o.Behind
		t.done = max(t.done, o.Position)
		s.topics[o.Topic] = t
	}
	return s
}

// goal is the commit position of the last transaction that the target has of a connector.
func (s *starts) goal(prefix string) uint64 {
	return s.stored[partition{prefix + suffixTransaction, 0}].Position
}

// topic tells up to which commit position a data topic is in the target, and whether it is behind the others: it has
// joined the sink after transactions had been applied, or had not caught up when the target was written last.
func (s *starts) topic(prefix, topic string) (done uint64, behind bool) {
	goal := s.goal(prefix)
	t, known := s.topics[topic]
	switch {
	case !known:
		return 0, goal > 0
	case t.behind:
		return t.done, true
	}
	return goal, false
}

// offset is where to read a data or transaction topic from. Invariant 7: what is gone from the log is an error.
func (s *starts) offset(p partition, log bounds, whole bool) (int64, error) {
	o, ok := s.stored[p]
	switch {
	case !ok && whole && log.start > 0:
		return 0, recordErr(p.topic, p.id, 0, fmt.Errorf(
			"the log begins at offset %d: older changes were deleted by retention, so the target cannot be built whole from it; "+
				"start a new initial load at the source, or raise retention.ms and retention.bytes before it", log.start))
	case !ok:
		return log.start, nil
	case o.Next < log.start:
		return 0, recordErr(p.topic, p.id, o.Next, fmt.Errorf(
			"the target needs offset %d, but retention has deleted everything before %d: %d records are lost to this sink; "+
				"load the target again with a sink of a new name after a new initial load, and raise retention.ms or retention.bytes",
			o.Next, log.start, log.start-o.Next))
	case o.Next > log.end:
		return 0, recordErr(p.topic, p.id, o.Next, fmt.Errorf(
			"the target has this partition up to offset %d, but the log ends at %d: the topic was deleted and created again, or the log "+
				"lost data; load the target again with a sink of a new name", o.Next, log.end))
	}
	return o.Next, nil
}
