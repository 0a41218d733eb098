package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group"
)

// handleSyncGroup takes the leader's assignment and gives each member its own.
func (b *Broker) handleSyncGroup(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.SyncGroupRequest)
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	if req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		resp.ErrorCode = kerr.InconsistentGroupProtocol.Code
		return resp, nil
	}
	sr := group.SyncRequest{MemberID: req.MemberID, InstanceID: deref(req.InstanceID), Generation: req.Generation,
		ProtocolType: deref(req.ProtocolType), Protocol: deref(req.Protocol),
		Assignments: make(map[string][]byte, len(req.GroupAssignment)), Wait: &group.Wait{}}
	for i := range req.GroupAssignment {
		sr.Assignments[req.GroupAssignment[i].MemberID] = req.GroupAssignment[i].MemberAssignment
	}
	res, ok := await(ctx, func(reply func(group.SyncResult)) { b.groups.Sync(req.Group, sr, reply) })
	if !ok {
		b.groups.Gone(req.Group, sr.Wait)
		res.Code = kerr.CoordinatorNotAvailable.Code
	}
	resp.ErrorCode, resp.MemberAssignment = res.Code, res.Assignment
	resp.ProtocolType, resp.Protocol = orNil(res.ProtocolType), orNil(res.Protocol)
	return resp, nil
}
