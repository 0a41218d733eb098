package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// noAuthorizer is what Kafka answers to requests about ACLs where none are checked.
const noAuthorizer = "No authorizer is configured: every user who can log in may do everything"

func (b *Broker) handleDescribeACLs(_ context.Context, r *request) (kmsg.Response, error) {
	resp := r.req.ResponseKind().(*kmsg.DescribeACLsResponse)
	resp.ErrorCode, resp.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizer)
	resp.Resources = []kmsg.DescribeACLsResponseResource{}
	return resp, nil
}

func (b *Broker) handleCreateACLs(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.CreateACLsRequest)
	resp := req.ResponseKind().(*kmsg.CreateACLsResponse)
	for range req.Creations {
		result := kmsg.NewCreateACLsResponseResult()
		result.ErrorCode, result.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizer)
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}

func (b *Broker) handleDeleteACLs(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DeleteACLsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteACLsResponse)
	for range req.Filters {
		result := kmsg.NewDeleteACLsResponseResult()
		result.ErrorCode, result.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizer)
		result.MatchingACLs = []kmsg.DeleteACLsResponseResultMatchingACL{}
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}
