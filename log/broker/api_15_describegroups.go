package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group"
)

// handleDescribeGroups shows groups with their members.
func (b *Broker) handleDescribeGroups(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeGroupsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	ctx = b.whileCoordinating(ctx)
	named := once[string]{}
	for _, id := range req.Groups {
		if !named.first(id) {
			continue
		}
		code, d := awaitCoded(ctx, func(reply func(int16, group.Description)) { b.groups.Describe(id, reply) })
		sg := kmsg.NewDescribeGroupsResponseGroup()
		sg.Group, sg.ErrorCode = id, code
		if code == 0 {
			sg.State, sg.ProtocolType, sg.Protocol = d.State.String(), d.ProtocolType, d.Protocol
			if d.State == group.Dead && req.Version >= 6 {
				sg.ErrorCode = kerr.GroupIDNotFound.Code
				sg.ErrorMessage = orNil("Group " + id + " is not known.")
				if d.Consumer {
					sg.ErrorMessage = orNil("Group " + id + " is not a classic group.")
				}
			}
		}
		sg.AuthorizedOperations = authorized(req.IncludeAuthorizedOperations && sg.ErrorCode == 0, groupOperations)
		for i := range d.Members {
			m := kmsg.NewDescribeGroupsResponseGroupMember()
			m.MemberID, m.InstanceID = d.Members[i].MemberID, orNil(d.Members[i].InstanceID)
			m.ClientID, m.ClientHost = d.Members[i].ClientID, d.Members[i].ClientHost
			m.ProtocolMetadata, m.MemberAssignment = d.Members[i].Metadata, d.Members[i].Assignment
			sg.Members = append(sg.Members, m)
		}
		resp.Groups = append(resp.Groups, sg)
	}
	return resp, nil
}
