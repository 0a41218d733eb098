package broker

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group"
)

// handleListGroups lists the groups that this node coordinates. Filters compare without case.
func (b *Broker) handleListGroups(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ListGroupsRequest)
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	code, list := awaitCoded(b.whileCoordinating(ctx), b.groups.List)
	resp.ErrorCode = code
	matches := func(filter []string, value string) bool {
		return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
	}
	for _, l := range list {
		if l.State == group.Dead.String() || !matches(req.StatesFilter, l.State) || !matches(req.TypesFilter, l.Type) {
			continue
		}
		sg := kmsg.NewListGroupsResponseGroup()
		sg.Group, sg.ProtocolType, sg.GroupState, sg.GroupType = l.Group, l.ProtocolType, l.State, l.Type
		resp.Groups = append(resp.Groups, sg)
	}
	return resp, nil
}
