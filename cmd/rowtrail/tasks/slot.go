package tasks

import "hash/fnv"

const (
	// Topic is what all nodes of a log share.
	Topic = "__rowtrail_tasks"
	// Group is the consumer group of the nodes; it has the topic's name.
	Group = Topic

	// Slots is the number of the topic's partitions. It must be the same for all nodes and for good: a topic with another number is
	// read by its own number.
	Slots = 32
)

// slot is the partition that stands for a task.
func slot(name string, slots int32) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return int32(h.Sum32() % uint32(slots))
}
