package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleDeleteGroups deletes groups without members, with their offsets.
func (b *Broker) handleDeleteGroups(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DeleteGroupsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	ctx = b.whileCoordinating(ctx)
	for _, id := range req.Groups {
		sg := kmsg.NewDeleteGroupsResponseGroup()
		sg.Group = id
		sg.ErrorCode = awaitCode(ctx, func(reply func(int16)) { b.groups.Delete(id, reply) })
		resp.Groups = append(resp.Groups, sg)
	}
	return resp, nil
}
