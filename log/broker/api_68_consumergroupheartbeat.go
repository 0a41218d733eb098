package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group/consumer"
)

// handleConsumerGroupHeartbeat keeps a member of the consumer protocol, takes in what it owns and says what it shall.
func (b *Broker) handleConsumerGroupHeartbeat(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ConsumerGroupHeartbeatRequest)
	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	cr := &consumer.Request{MemberID: req.MemberID, Epoch: req.MemberEpoch, InstanceID: req.InstanceID, RackID: req.RackID,
		ClientID: r.clientID, ClientHost: "/" + r.host, RebalanceTimeout: req.RebalanceTimeoutMillis,
		Topics: req.SubscribedTopicNames, Pattern: req.SubscribedTopicRegex, Assignor: req.ServerAssignor}
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			cr.Owned = append(cr.Owned, consumer.TopicPartition{Topic: req.Topics[i].TopicID, Partition: p})
		}
	}
	cr.OwnsNothing = req.Topics != nil && len(cr.Owned) == 0
	res, ok := await(b.whileCoordinating(ctx), func(reply func(consumer.Response)) {
		b.groups.ConsumerHeartbeat(req.Group, cr, req.Version >= 1, reply)
	})
	if !ok {
		res = consumer.Response{Code: kerr.CoordinatorNotAvailable.Code}
	}
	resp.ErrorCode, resp.ErrorMessage = res.Code, orNil(res.Message)
	resp.HeartbeatIntervalMillis = int32(b.groups.ConsumerLimits(req.Group).HeartbeatInterval.Milliseconds()) //nolint:gosec // configured in milliseconds
	if res.Code != 0 {
		return resp, nil
	}
	resp.MemberID, resp.MemberEpoch = orNil(res.MemberID), res.Epoch
	if res.Assigned == nil {
		return resp, nil
	}
	resp.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{}
	for i, tp := range res.Assigned {
		if i == 0 || tp.Topic != res.Assigned[i-1].Topic {
			t := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
			t.TopicID = tp.Topic
			resp.Assignment.Topics = append(resp.Assignment.Topics, t)
		}
		last := &resp.Assignment.Topics[len(resp.Assignment.Topics)-1]
		last.Partitions = append(last.Partitions, tp.Partition)
	}
	return resp, nil
}
