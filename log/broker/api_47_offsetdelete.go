package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group"
)

// handleOffsetDelete deletes a group's offsets of topics that it does not read.
func (b *Broker) handleOffsetDelete(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.OffsetDeleteRequest)
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	var list []group.TopicPartition
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			list = append(list, group.TopicPartition{Topic: req.Topics[i].Topic, Partition: p.Partition})
		}
	}
	code, each := awaitCoded(b.coordinating, func(reply func(int16, []int16)) {
		b.groups.DeleteOffsets(req.Group, list, reply)
	})
	resp.ErrorCode = code
	if code != 0 {
		return resp, nil
	}
	n := 0
	for i := range req.Topics {
		st := kmsg.NewOffsetDeleteResponseTopic()
		st.Topic = req.Topics[i].Topic
		for _, p := range req.Topics[i].Partitions {
			sp := kmsg.NewOffsetDeleteResponseTopicPartition()
			sp.Partition, sp.ErrorCode = p.Partition, each[n]
			n++
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil
}
