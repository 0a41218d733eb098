package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleCreatePartitions adds partitions to topics. Every topic asked for is in the answer.
func (b *Broker) handleCreatePartitions(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.CreatePartitionsRequest)
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	if n := b.askedPartitions(req); n > maxMutations {
		return refuseMutations(req, n), nil
	}
	ctx, cancel := withTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	for i := range req.Topics {
		rt := &req.Topics[i]
		st := kmsg.NewCreatePartitionsResponseTopic()
		st.Topic = rt.Topic
		err := b.createPartitions(ctx, rt, req.ValidateOnly)
		st.ErrorCode, st.ErrorMessage = errorCode(err), errorMessage(err)
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil
}

func (b *Broker) createPartitions(ctx context.Context, rt *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	t, err := b.topic(rt.Topic, zeroID, false)
	if err != nil {
		return err
	}
	have := int32(len(t.Partitions))
	switch {
	case t.Internal:
		return refuse(kerr.InvalidTopicException, "topic "+t.Name+" holds the broker's own state")
	case rt.Count <= have:
		return refuse(kerr.InvalidPartitions, fmt.Sprintf("topic %s has %d partitions; ask for more", t.Name, have))
	case rt.Assignment != nil && len(rt.Assignment) != int(rt.Count-have):
		return refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("%d assignments for %d new partitions", len(rt.Assignment), rt.Count-have))
	}
	var assignment [][]int32
	for i := range rt.Assignment {
		if err := b.checkReplicas(rt.Assignment[i].Replicas); err != nil {
			return err
		}
		assignment = append(assignment, rt.Assignment[i].Replicas)
	}
	if validateOnly {
		return b.node.CheckPartitions(t.Name, rt.Count, assignment)
	}
	defer pause(ctx)()
	if err := b.node.CreatePartitions(ctx, t.Name, rt.Count, assignment); err != nil {
		return err
	}
	if t, err = b.topic(rt.Topic, zeroID, false); err == nil {
		b.awaitLeaders(ctx, t)
	}
	return nil
}
