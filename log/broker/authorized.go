package broker

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The operations that there are on a kind of resource. There is no authorizer, so whoever is served may do them all.
const (
	topicOperations = 1<<kmsg.ACLOperationRead | 1<<kmsg.ACLOperationWrite | 1<<kmsg.ACLOperationCreate | 1<<kmsg.ACLOperationDelete |
		1<<kmsg.ACLOperationAlter | 1<<kmsg.ACLOperationDescribe | 1<<kmsg.ACLOperationDescribeConfigs | 1<<kmsg.ACLOperationAlterConfigs
	groupOperations = 1<<kmsg.ACLOperationRead | 1<<kmsg.ACLOperationDelete | 1<<kmsg.ACLOperationDescribe |
		1<<kmsg.ACLOperationDescribeConfigs | 1<<kmsg.ACLOperationAlterConfigs
	clusterOperations = 1<<kmsg.ACLOperationCreate | 1<<kmsg.ACLOperationAlter | 1<<kmsg.ACLOperationDescribe |
		1<<kmsg.ACLOperationClusterAction | 1<<kmsg.ACLOperationDescribeConfigs | 1<<kmsg.ACLOperationAlterConfigs |
		1<<kmsg.ACLOperationIdempotentWrite
)

// authorized is the bit field of operations that a response tells where the request asks for it (KIP-430).
func authorized(asked bool, operations int32) int32 {
	if !asked {
		return math.MinInt32
	}
	return operations
}
