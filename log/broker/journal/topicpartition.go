package journal

import "cmp"

// TopicPartition names a partition in what coordinators keep.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Compare orders partitions by topic and number.
func (a TopicPartition) Compare(b TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
