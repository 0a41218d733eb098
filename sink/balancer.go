package sink

import (
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// singleOwner is a group balancer that gives every partition to the group's leader. The coordinator keeps a leader until it
// leaves, so a member that joins takes nothing away, and one that goes is replaced by another.
type singleOwner struct{}

func (singleOwner) ProtocolName() string { return "rowtrail-single-owner" }

// IsCooperative: the owner keeps reading while other members join.
func (singleOwner) IsCooperative() bool { return true }

func (singleOwner) JoinGroupMetadata(interests []string, current map[string][]int32, generation int32) []byte {
	return kgo.CooperativeStickyBalancer().JoinGroupMetadata(interests, current, generation)
}

func (singleOwner) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	return kgo.ParseConsumerSyncAssignment(assignment)
}

func (s singleOwner) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	b, err := kgo.NewConsumerBalancer(s, members)
	return b, b.MemberTopics(), err
}

// Balance plans for the leader. A partition that another member still owns is held back until that member has given it up.
func (singleOwner) Balance(b *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	plan := b.NewPlan()
	leader := b.Info().LeaderID
	for i := range b.Members() {
		member, meta := b.MemberAt(i)
		if member.MemberID != leader {
			continue
		}
		for _, topic := range meta.Topics {
			for p := range topics[topic] {
				plan.AddPartition(member, topic, p)
			}
		}
	}
	plan.AdjustCooperative(b)
	return plan
}
