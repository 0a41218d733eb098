package broker

import "github.com/rowtrail/rowtrail/log/broker/journal"

// once tells what a request names for the first time. What exists is described once in an answer, however often the request
// names it: an answer is then bounded by what there is, and not by a few bytes of request each (invariant 9).
type once[K comparable] map[K]struct{}

func (o once[K]) first(k K) bool {
	if _, again := o[k]; again {
		return false
	}
	o[k] = struct{}{}
	return true
}

// partitionOnce is once for lists of partitions by topic.
type partitionOnce struct {
	seen once[journal.TopicPartition]
}

// topic keeps of a topic's partitions those that are named for the first time, in their order.
func (o *partitionOnce) topic(name string, partitions []int32) []int32 {
	if o.seen == nil {
		o.seen = once[journal.TopicPartition]{}
	}
	kept := make([]int32, 0, len(partitions))
	for _, p := range partitions {
		if o.seen.first(journal.TopicPartition{Topic: name, Partition: p}) {
			kept = append(kept, p)
		}
	}
	return kept
}
