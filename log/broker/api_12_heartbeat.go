package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleHeartbeat keeps a member's session.
func (b *Broker) handleHeartbeat(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.HeartbeatRequest)
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	resp.ErrorCode = awaitCode(b.whileCoordinating(ctx), func(reply func(int16)) {
		b.groups.Heartbeat(req.Group, req.MemberID, deref(req.InstanceID), req.Generation, reply)
	})
	return resp, nil
}
