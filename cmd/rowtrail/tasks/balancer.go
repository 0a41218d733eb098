package tasks

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataVersion is the consumer protocol's that has a generation beside the owned partitions.
const metadataVersion = 3

// identity is what a node tells the group about itself.
type identity struct {
	Node  int32    `json:"node"`
	Tasks []string `json:"tasks"`
}

// balancer is place as a cooperative balancer of consumer groups.
type balancer struct{ self identity }

func (balancer) ProtocolName() string { return "rowtrail-tasks" }

// IsCooperative: a task that stays where it is goes on while others move.
func (balancer) IsCooperative() bool { return true }

func (b balancer) JoinGroupMetadata(interests []string, current map[string][]int32, generation int32) []byte {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version, meta.Topics, meta.Generation = metadataVersion, slices.Sorted(slices.Values(interests)), generation
	meta.UserData, _ = json.Marshal(b.self) // numbers and texts always marshal
	for _, topic := range slices.Sorted(maps.Keys(current)) {
		owned := kmsg.NewConsumerMemberMetadataOwnedPartition()
		owned.Topic, owned.Partitions = topic, slices.Sorted(slices.Values(current[topic]))
		meta.OwnedPartitions = append(meta.OwnedPartitions, owned)
	}
	return meta.AppendTo(nil)
}

func (balancer) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	return kgo.ParseConsumerSyncAssignment(assignment)
}

func (b balancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	c, err := kgo.NewConsumerBalancer(b, members)
	if err != nil {
		return nil, nil, fmt.Errorf("read what the members of group %s say of themselves: %w", Group, err)
	}
	return c, c.MemberTopics(), nil
}

// Balance places. A slot that another member still owns is held back until that member has stopped its tasks.
func (balancer) Balance(b *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	plan := b.NewPlan()
	slots := topics[Topic]
	if slots == 0 {
		return plan // the topic is about to be known
	}
	candidates := make([]candidate, 0, len(b.Members()))
	newest := map[int32]int32{} // slot -> generation of the newest claim: an older one is of a member that missed what came after
	for i := range b.Members() {
		_, meta := b.MemberAt(i)
		for _, s := range ownedSlots(meta) {
			newest[s] = max(newest[s], meta.Generation)
		}
	}
	for i := range b.Members() {
		member, meta := b.MemberAt(i)
		var self identity
		if json.Unmarshal(meta.UserData, &self) != nil {
			self = identity{} // not one of ours: it gets nothing
		}
		owned := slices.DeleteFunc(ownedSlots(meta), func(s int32) bool { return meta.Generation < newest[s] })
		candidates = append(candidates, candidate{ID: member.MemberID, Node: self.Node, Tasks: self.Tasks, Owned: owned})
	}
	for i, given := range place(candidates, slots) {
		member, _ := b.MemberAt(i)
		for _, s := range given {
			plan.AddPartition(member, Topic, s)
		}
	}
	plan.AdjustCooperative(b)
	return plan
}

func ownedSlots(meta *kmsg.ConsumerMemberMetadata) (slots []int32) {
	for _, o := range meta.OwnedPartitions {
		if o.Topic == Topic {
			slots = append(slots, o.Partitions...)
		}
	}
	return slots
}
