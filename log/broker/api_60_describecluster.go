package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// endpointBrokers is the only kind of endpoint: controllers have no listener of their own.
const endpointBrokers = 1

// handleDescribeCluster names the brokers.
func (b *Broker) handleDescribeCluster(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeClusterRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.ClusterID, resp.ControllerID = b.node.ClusterID(), b.controllerID()
	if req.Version >= 1 {
		resp.EndpointType = req.EndpointType
		if req.EndpointType != endpointBrokers {
			err := refuse(kerr.UnsupportedEndpointType, "only brokers can be described")
			resp.ErrorCode, resp.ErrorMessage = errorCode(err), errorMessage(err)
			return resp, nil
		}
	}
	resp.ClusterAuthorizedOperations = authorized(req.IncludeClusterAuthorizedOperations, clusterOperations)
	for _, e := range b.endpoints(map[int32]bool{resp.ControllerID: true}) {
		db := kmsg.NewDescribeClusterResponseBroker()
		db.NodeID, db.Host, db.Port, db.Rack = e.node, e.host, e.port, e.rack
		resp.Brokers = append(resp.Brokers, db)
	}
	return resp, nil
}
