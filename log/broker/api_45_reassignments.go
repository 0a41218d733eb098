package broker

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
)

// handleAlterPartitionAssignments (AlterPartitionReassignments) has replicas move. It answers when the moves are decided; what they take goes on in
// the background.
func (b *Broker) handleAlterPartitionAssignments(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AlterPartitionAssignmentsRequest)
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	ctx, cancel := withTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	for i := range req.Topics {
		rt := &req.Topics[i]
		st := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		st.Topic = rt.Topic
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			err := b.reassign(ctx, rt.Topic, rp.Partition, rp.Replicas, req.AllowReplicationFactorChange)
			sp := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			sp.Partition, sp.ErrorCode, sp.ErrorMessage = rp.Partition, errorCode(err), errorMessage(err)
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil
}

// reassign has a partition's replicas move; nil asks to end a reassignment.
func (b *Broker) reassign(ctx context.Context, topic string, partition int32, replicas []int32, anyFactor bool) error {
	t, err := b.topic(topic, zeroID, false)
	if err != nil {
		return err
	}
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return kerr.UnknownTopicOrPartition
	}
	p := &t.Partitions[partition]
	switch have := p.Nodes(); {
	case replicas == nil && p.Target == nil:
		return kerr.NoReassignmentInProgress
	case replicas == nil:
	case p.Target == nil && slices.Equal(replicas, have):
		return nil
	case !anyFactor && len(replicas) != len(have):
		return refuse(kerr.InvalidReplicationFactor, fmt.Sprintf("%d replicas for a partition of %d, and the request does not allow to change that", len(replicas), len(have)))
	default:
		if err := b.checkReplicas(replicas); err != nil {
			return err
		}
	}
	defer pause(ctx)()
	return b.node.Reassign(ctx, topic, partition, replicas)
}

// handleListPartitionReassignments lists the moves that are under way.
func (b *Broker) handleListPartitionReassignments(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ListPartitionReassignmentsRequest)
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	catalog := b.node.Catalog()
	list := func(t *cluster.Topic, partitions []int32) {
		st := kmsg.NewListPartitionReassignmentsResponseTopic()
		st.Topic = t.Name
		for _, p := range partitions {
			if p < 0 || int(p) >= len(t.Partitions) || t.Partitions[p].Target == nil {
				continue
			}
			st.Partitions = append(st.Partitions, underWay(p, &t.Partitions[p]))
		}
		if len(st.Partitions) > 0 {
			resp.Topics = append(resp.Topics, st)
		}
	}
	if req.Topics == nil {
		for _, t := range catalog.Sorted() {
			all := make([]int32, len(t.Partitions))
			for i := range all {
				all[i] = int32(i)
			}
			list(t, all)
		}
	}
	var named partitionOnce
	for i := range req.Topics {
		if t := catalog.Topics[req.Topics[i].Topic]; t != nil {
			list(t, named.topic(t.Name, req.Topics[i].Partitions))
		}
	}
	return resp, nil
}

func underWay(partition int32, p *cluster.Placement) kmsg.ListPartitionReassignmentsResponseTopicPartition {
	sp := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
	sp.Partition, sp.Replicas = partition, replicasOf(p)
	have := p.Nodes()
	for _, n := range sp.Replicas {
		wanted := slices.ContainsFunc(p.Target, func(m cluster.Member) bool { return m.Node == n })
		switch {
		case !slices.Contains(have, n):
			sp.AddingReplicas = append(sp.AddingReplicas, n)
		case !wanted:
			sp.RemovingReplicas = append(sp.RemovingReplicas, n)
		}
	}
	return sp
}
