package broker

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
)

// maxDescribedPartitions is how many partitions one answer holds, whatever the client says (Kafka's
// max.request.partition.size.limit).
const maxDescribedPartitions = 2000

// handleDescribeTopicPartitions describes partitions in pages: topics in order of their names, from the cursor on. No topics: all.
func (b *Broker) handleDescribeTopicPartitions(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeTopicPartitionsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	catalog := b.node.Catalog()
	var names []string
	for i := range req.Topics {
		names = append(names, req.Topics[i].Topic)
	}
	if len(names) == 0 {
		for name := range catalog.Topics {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	from := int32(0)
	if c := req.Cursor; c != nil {
		at, found := slices.BinarySearch(names, c.Topic)
		names = names[at:]
		if found {
			from = max(c.Partition, 0)
		}
	}
	left := min(maxDescribedPartitions, max(int(req.ResponsePartitionLimit), 1))
	for _, name := range names {
		t := catalog.Topics[name]
		if t == nil {
			st := kmsg.NewDescribeTopicPartitionsResponseTopic()
			st.Topic, st.ErrorCode = &name, kerr.UnknownTopicOrPartition.Code
			resp.Topics = append(resp.Topics, st)
			continue
		}
		if left == 0 { // a page that is full says where the next one begins
			resp.NextCursor = nextCursor(name, 0)
			break
		}
		st, next := b.describePartitions(t, from, left)
		resp.Topics = append(resp.Topics, st)
		left -= len(st.Partitions)
		if int(next) < len(t.Partitions) {
			resp.NextCursor = nextCursor(name, next)
			break
		}
		from = 0
	}
	return resp, nil
}

func nextCursor(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
	return &c
}

// describePartitions describes at most limit partitions of a topic, and says which one comes next.
func (b *Broker) describePartitions(t *cluster.Topic, from int32, limit int) (kmsg.DescribeTopicPartitionsResponseTopic, int32) {
	st := kmsg.NewDescribeTopicPartitionsResponseTopic()
	st.Topic, st.TopicID, st.IsInternal = &t.Name, t.ID, t.Internal
	st.AuthorizedOperations = topicOperations
	p := from
	for ; int(p) < len(t.Partitions) && len(st.Partitions) < limit; p++ {
		sp := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		d := b.describe(t, p)
		sp.Partition, sp.Replicas, sp.ISR, sp.OfflineReplicas, sp.LeaderID, sp.LeaderEpoch = p, d.replicas, d.isr, d.offline, d.leader, d.epoch
		sp.ErrorCode = leaderError(sp.LeaderID)
		// The protocol allows null here, Java's admin client does not.
		sp.EligibleLeaderReplicas, sp.LastKnownELR = []int32{}, []int32{}
		st.Partitions = append(st.Partitions, sp)
	}
	return st, p
}

// leaderError is the code beside a partition in metadata.
func leaderError(leader int32) int16 {
	if leader < 0 {
		return kerr.LeaderNotAvailable.Code
	}
	return 0
}
