package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
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
		err := b.findCoordinator(req.CoordinatorType, key)
		if err == nil {
			c.NodeID, c.Host, c.Port = b.node.ID(), b.opts.AdvertisedHost, b.opts.AdvertisedPort
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

// findCoordinator checks that this node coordinates a key. While it loads it is named already: requests are then
// told to wait, and clients know the way.
func (b *Broker) findCoordinator(kind int8, key string) error {
	var code int16
	switch kind {
	case coordinatorGroup:
		code = b.groups.Serving(key)
	case coordinatorTxn:
		if key == "" {
			return refuse(kerr.InvalidRequest, "a transactional id cannot be empty")
		}
		code = b.txns.Serving(key)
	default:
		return refuse(kerr.InvalidRequest, "coordinator type is neither group (0) nor transaction (1)")
	}
	if code == 0 || code == kerr.CoordinatorLoadInProgress.Code {
		return nil
	}
	return kerr.CoordinatorNotAvailable
}
