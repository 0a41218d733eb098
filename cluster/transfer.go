package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// transferRequest names a partition and who is to lead it.
type transferRequest struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	To        Member `json:"to"`
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Prefer has a partition's leader, on whatever node it is, hand leadership to the first of its replicas. It returns when the leader has begun to; who
// leads then is announced. ErrInvalidNode: that replica is not in sync, or its node is not alive.
func (n *Node) Prefer(ctx context.Context, topic string, partition int32) error {
	t := n.Catalog().Topics[topic]
	if t == nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return fmt.Errorf("partition %s-%d: %w", topic, partition, ErrUnknownTopic)
	}
	req := transferRequest{topic, partition, t.Partitions[partition].Wanted()[0]}
	leader, _, _ := n.LeaderOf(t, partition)
	switch {
	case leader == req.To.Node:
		return nil
	case !n.Alive(req.To.Node):
		return fmt.Errorf("lead %s-%d on node %d: it is not alive: %w", topic, partition, req.To.Node, ErrInvalidNode)
	case leader == n.opts.NodeID:
		return n.transferHere(&req)
	case leader < 0 || n.net == nil:
		return fmt.Errorf("lead %s-%d on node %d: nobody leads it now who could hand it over: %w", topic, partition, req.To.Node, ErrInvalidNode)
	}
	b, err := n.net.net.Call(ctx, leader, mustJSON(call{Transfer: &req}))
	if err != nil {
		return fmt.Errorf("ask node %d to hand over %s-%d: %w", leader, topic, partition, err)
	}
	var a callError
	if err := json.Unmarshal(b, &a); err != nil {
		return fmt.Errorf("answer of node %d: %w", leader, err)
	}
	if a.Error != "" {
		return fmt.Errorf("node %d: %s: %w", leader, strings.TrimSuffix(a.Error, ": "+ErrInvalidNode.Error()), ErrInvalidNode)
	}
	return nil
}

// transferHere hands over what this node leads.
func (n *Node) transferHere(req *transferRequest) error {
	if n.controllerOf() == nil {
		return fmt.Errorf("this node is starting: %w", ErrInvalidNode)
	}
	r, err := n.Replica(req.Topic, req.Partition)
	if err != nil {
		return err
	}
	s := r.Status()
	for _, m := range s.Members {
		if s.Self && m.Member == req.To && m.Voter && m.InSync {
			r.transfer(req.To, false)
			return nil
		}
	}
	return fmt.Errorf("the replica on node %d is not in sync: %w", req.To.Node, ErrInvalidNode)
}
