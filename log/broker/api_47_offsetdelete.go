package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// handleOffsetDelete deletes a group's offsets of topics that it does not read.
func (b *Broker) handleOffsetDelete(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.OffsetDeleteRequest)
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	var list []journal.TopicPartition
	var codes []*int16 // where each one's goes
	for i := range req.Topics {
		rt := &req.Topics[i]
		st := kmsg.NewOffsetDeleteResponseTopic()
		st.Topic = rt.Topic
		st.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(rt.Partitions))
		t, err := b.topic(rt.Topic, zeroID, false)
		for j, p := range rt.Partitions {
			sp := &st.Partitions[j]
			sp.Partition = p.Partition
			if err != nil || p.Partition < 0 || int(p.Partition) >= len(t.Partitions) {
				sp.ErrorCode = kerr.UnknownTopicOrPartition.Code
				continue
			}
			list = append(list, journal.TopicPartition{Topic: rt.Topic, Partition: p.Partition})
			codes = append(codes, &sp.ErrorCode)
		}
		resp.Topics = append(resp.Topics, st)
	}
	code, each := awaitCoded(b.whileCoordinating(ctx), func(reply func(int16, []int16)) {
		b.groups.DeleteOffsets(req.Group, list, reply)
	})
	if code != 0 {
		resp.ErrorCode, resp.Topics = code, nil
		return resp, nil
	}
	for i, c := range codes {
		*c = each[i]
	}
	return resp, nil
}
