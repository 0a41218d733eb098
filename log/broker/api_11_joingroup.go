package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group"
)

// handleJoinGroup enters a member into a group's next generation. It answers when the rebalance is over.
func (b *Broker) handleJoinGroup(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.JoinGroupRequest)
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	jr := group.JoinRequest{
		MemberID: req.MemberID, InstanceID: deref(req.InstanceID), ClientID: r.clientID, ClientHost: "/" + r.host,
		Session: durationMillis(req.SessionTimeoutMillis), Rebalance: durationMillis(req.RebalanceTimeoutMillis),
		ProtocolType: req.ProtocolType, TwoSteps: req.Version >= 4, MaySkip: req.Version >= 9, Wait: &group.Wait{},
	}
	if req.Version == 0 {
		jr.Rebalance = jr.Session
	}
	for _, p := range req.Protocols {
		jr.Protocols = append(jr.Protocols, group.Protocol{Name: p.Name, Metadata: p.Metadata})
	}
	res, ok := await(ctx, func(reply func(group.JoinResult)) { b.groups.Join(req.Group, jr, reply) })
	if !ok {
		b.groups.Gone(req.Group, jr.Wait)
		res = group.JoinResult{Code: kerr.CoordinatorNotAvailable.Code, MemberID: req.MemberID, Generation: -1}
	}
	resp.ErrorCode, resp.Generation = res.Code, res.Generation
	resp.LeaderID, resp.MemberID, resp.SkipAssignment = res.Leader, res.MemberID, res.SkipAssignment
	resp.ProtocolType, resp.Protocol = orNil(res.ProtocolType), orNil(res.Protocol)
	if resp.Protocol == nil && req.Version < 7 {
		resp.Protocol = new(string) // not nullable before
	}
	for i := range res.Members {
		m := kmsg.NewJoinGroupResponseMember()
		m.MemberID, m.InstanceID, m.ProtocolMetadata = res.Members[i].MemberID, orNil(res.Members[i].InstanceID), res.Members[i].Metadata
		resp.Members = append(resp.Members, m)
	}
	return resp, nil
}
