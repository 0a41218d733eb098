package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group"
)

// handleLeaveGroup removes members from a group.
func (b *Broker) handleLeaveGroup(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.LeaveGroupRequest)
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	list := []group.Leaver{{MemberID: req.MemberID}}
	if req.Version >= 3 {
		list = list[:0]
		for i := range req.Members {
			list = append(list, group.Leaver{MemberID: req.Members[i].MemberID, InstanceID: deref(req.Members[i].InstanceID)})
		}
	}
	code, each := awaitCoded(b.whileCoordinating(ctx), func(reply func(int16, []int16)) { b.groups.Leave(req.Group, list, reply) })
	resp.ErrorCode = code
	if code != 0 {
		return resp, nil
	}
	if req.Version < 3 {
		resp.ErrorCode = each[0]
		return resp, nil
	}
	for i := range req.Members {
		m := kmsg.NewLeaveGroupResponseMember()
		m.MemberID, m.InstanceID, m.ErrorCode = req.Members[i].MemberID, req.Members[i].InstanceID, each[i]
		resp.Members = append(resp.Members, m)
	}
	return resp, nil
}
