package broker

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleAlterPartitionAssignments (AlterPartitionReassignments) accepts the placement that a partition has. There is no other one to
// move to, so none is ever under way.
func (b *Broker) handleAlterPartitionAssignments(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AlterPartitionAssignmentsRequest)
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	for i := range req.Topics {
		rt := &req.Topics[i]
		st := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		st.Topic = rt.Topic
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			err := b.reassign(rt.Topic, rp.Partition, rp.Replicas, req.AllowReplicationFactorChange)
			sp := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			sp.Partition, sp.ErrorCode, sp.ErrorMessage = rp.Partition, errorCode(err), errorMessage(err)
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil
}

// reassign checks the replicas that are asked for; nil asks to end a reassignment.
func (b *Broker) reassign(topic string, partition int32, replicas []int32, anyFactor bool) error {
	t, err := b.topic(topic, zeroID, false)
	if err != nil {
		return err
	}
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return kerr.UnknownTopicOrPartition
	}
	have := t.Partitions[partition].Nodes()
	switch {
	case replicas == nil:
		return kerr.NoReassignmentInProgress
	case slices.Equal(replicas, have):
		return nil
	case !anyFactor && len(replicas) != len(have):
		return refuse(kerr.InvalidReplicationFactor, fmt.Sprintf("%d replicas for a partition of %d, and the request does not allow to change that", len(replicas), len(have)))
	}
	return refuse(kerr.InvalidReplicaAssignment, "not yet")
}

// handleListPartitionReassignments lists what is under way: nothing.
func (b *Broker) handleListPartitionReassignments(_ context.Context, r *request) (kmsg.Response, error) {
	return r.req.ResponseKind(), nil
}
