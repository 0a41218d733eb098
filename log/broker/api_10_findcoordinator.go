package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group"
	"github.com/rowtrail/rowtrail/log/broker/txn"
)

// Coordinator types of FindCoordinator.
const (
	coordinatorGroup = 0
	coordinatorTxn   = 1
)

// handleFindCoordinator names the node that coordinates a group or a transactional id.
func (b *Broker) handleFindCoordinator(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.FindCoordinatorRequest)
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	keys := req.CoordinatorKeys
	if req.Version < 4 {
		keys = []string{req.CoordinatorKey}
	}
	for _, key := range keys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key = key
		e, err := b.findCoordinator(req.CoordinatorType, key)
		if err == nil {
			c.NodeID, c.Host, c.Port = e.node, e.host, e.port
		} else {
			c.NodeID, c.Port = -1, -1
			c.ErrorCode, c.ErrorMessage = errorCode(err), errorMessage(err)
		}
		if req.Version >= 4 {
			resp.Coordinators = append(resp.Coordinators, c)
			continue
		}
		resp.ErrorCode, resp.ErrorMessage = c.ErrorCode, c.ErrorMessage
		resp.NodeID, resp.Host, resp.Port = c.NodeID, c.Host, c.Port
	}
	return resp, nil
}

// findCoordinator finds the leader of the partition that keeps a key. While it loads it is named already: requests are then told to
// wait, and clients know the way.
func (b *Broker) findCoordinator(kind int8, key string) (endpoint, error) {
	var topic string
	var partition int32
	var serving func(string) int16
	switch {
	case kind == coordinatorGroup:
		topic, partition, serving = group.Topic, b.groups.PartitionFor(key), b.groups.Serving
	case kind != coordinatorTxn:
		return endpoint{}, refuse(kerr.InvalidRequest, "coordinator type is neither group (0) nor transaction (1)")
	case key == "":
		return endpoint{}, refuse(kerr.InvalidRequest, "a transactional id cannot be empty")
	default:
		topic, partition, serving = txn.Topic, b.txns.PartitionFor(key), b.txns.Serving
	}
	t := b.node.Catalog().Topics[topic]
	if t == nil || partition < 0 {
		return endpoint{}, kerr.CoordinatorNotAvailable
	}
	leader, _ := b.leaderOf(t, partition)
	if leader == b.node.ID() {
		if code := serving(key); code != 0 && code != kerr.CoordinatorLoadInProgress.Code && code != kerr.NotCoordinator.Code {
			return endpoint{}, kerr.CoordinatorNotAvailable
		}
	}
	e, ok := b.endpoint(leader)
	if !ok {
		return e, kerr.CoordinatorNotAvailable
	}
	return e, nil
}
