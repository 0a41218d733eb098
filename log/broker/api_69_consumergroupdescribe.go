package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group/consumer"
)

// memberTypeConsumer says that a member speaks the consumer protocol itself.
const memberTypeConsumer = 1

// handleConsumerGroupDescribe shows groups of the consumer protocol with their members.
func (b *Broker) handleConsumerGroupDescribe(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ConsumerGroupDescribeRequest)
	resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	ctx = b.whileCoordinating(ctx)
	named := once[string]{}
	for _, id := range req.Groups {
		if !named.first(id) {
			continue
		}
		code, d := awaitCoded(ctx, func(reply func(int16, consumer.Description)) { b.groups.ConsumerDescribe(id, reply) })
		sg := kmsg.NewConsumerGroupDescribeResponseGroup()
		sg.Group, sg.ErrorCode = id, code
		sg.AuthorizedOperations = authorized(req.IncludeAuthorizedOperations && code == 0, groupOperations)
		if code == kerr.GroupIDNotFound.Code {
			sg.ErrorMessage = orNil("Group " + id + " is not known, or not a consumer group.")
		}
		if code == 0 {
			sg.State, sg.AssignorName, sg.Epoch, sg.AssignmentEpoch = d.State, d.Assignor, d.Epoch, d.AssignmentEpoch
		}
		for i := range d.Members {
			m := &d.Members[i]
			sm := kmsg.NewConsumerGroupDescribeResponseGroupMember()
			sm.MemberID, sm.InstanceID, sm.RackID, sm.MemberEpoch = m.MemberID, orNil(m.InstanceID), orNil(m.RackID), m.Epoch
			sm.ClientID, sm.ClientHost, sm.MemberType = m.ClientID, m.ClientHost, memberTypeConsumer
			sm.SubscribedTopics, sm.SubscribedTopicRegex = m.Topics, orNil(m.Pattern)
			sm.Assignment, sm.TargetAssignment = b.assignment(m.Assigned), b.assignment(m.Target)
			sg.Members = append(sg.Members, sm)
		}
		resp.Groups = append(resp.Groups, sg)
	}
	return resp, nil
}

// assignment names partitions by topic; a topic that was deleted is left out.
func (b *Broker) assignment(list []consumer.TopicPartition) kmsg.Assignment {
	var a kmsg.Assignment
	topics := b.readableTopics()
	for i, tp := range list {
		t, ok := topics.ByID(tp.Topic)
		if !ok {
			continue
		}
		if n := len(a.TopicPartitions); i == 0 || n == 0 || a.TopicPartitions[n-1].TopicID != tp.Topic {
			at := kmsg.NewAssignmentTopicPartition()
			at.TopicID, at.Topic = tp.Topic, t.Name
			a.TopicPartitions = append(a.TopicPartitions, at)
		}
		last := &a.TopicPartitions[len(a.TopicPartitions)-1]
		last.Partitions = append(last.Partitions, tp.Partition)
	}
	return a
}
