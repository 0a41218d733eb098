package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxAPIKey is the highest API key that the table can hold.
const maxAPIKey = 92

// api is one row of the table of what is served. Only versions that are complete are advertised:
// clients use the highest they find.
type api struct {
	key, min, max int16
	// decodeMin, when above min, is the lowest version that is answered; versions below it are advertised
	// for clients that gate features on them, and refused.
	decodeMin int16
	// before, when set, does what a request changes before it is answered, outside of the bounds on answers, and returns how many
	// partitions it created.
	before func(b *Broker, ctx context.Context, r *request) int
	// handle answers one request. An error closes the connection with one log line; a nil response
	// without an error sends nothing.
	handle func(b *Broker, ctx context.Context, r *request) (kmsg.Response, error)
	// stage, instead of handle, begins a request whose answer comes later: it must call done exactly
	// once, from any goroutine. Requests are staged in arrival order. done never blocks.
	stage func(b *Broker, ctx context.Context, r *request, done func(kmsg.Response, error))
}

// dataAPIs are the APIs of topics, partitions and their configuration.
func dataAPIs() []api {
	return []api{
		// Older librdkafka takes features from Produce versions that nobody sends any more.
		{key: 0, min: 0, max: 13, decodeMin: 3, stage: (*Broker).stageProduce},
		{key: 1, min: 4, max: 17, handle: (*Broker).handleFetch},
		{key: 2, min: 1, max: 11, handle: (*Broker).handleListOffsets},
		{key: 3, min: 0, max: 13, before: (*Broker).createNamed, handle: (*Broker).handleMetadata},
		{key: 18, min: 0, max: 4, handle: (*Broker).handleAPIVersions},
		{key: 19, min: 0, max: 7, handle: (*Broker).handleCreateTopics},
		{key: 20, min: 0, max: 6, handle: (*Broker).handleDeleteTopics},
		{key: 21, min: 0, max: 2, handle: (*Broker).handleDeleteRecords},
		{key: 23, min: 2, max: 4, handle: (*Broker).handleOffsetForLeaderEpoch},
		{key: 32, min: 1, max: 4, handle: (*Broker).handleDescribeConfigs},
		{key: 33, min: 0, max: 2, handle: (*Broker).handleAlterConfigs},
		{key: 35, min: 1, max: 4, handle: (*Broker).handleDescribeLogDirs},
		{key: 37, min: 0, max: 3, handle: (*Broker).handleCreatePartitions},
		{key: 43, min: 0, max: 2, handle: (*Broker).handleElectLeaders},
		{key: 44, min: 0, max: 1, handle: (*Broker).handleIncrementalAlterConfigs},
		{key: 45, min: 0, max: 1, handle: (*Broker).handleAlterPartitionAssignments},
		{key: 46, min: 0, max: 0, handle: (*Broker).handleListPartitionReassignments},
		{key: 55, min: 0, max: 2, handle: (*Broker).handleDescribeQuorum},
		{key: 57, min: 0, max: 2, handle: (*Broker).handleUpdateFeatures},
		{key: 60, min: 0, max: 2, handle: (*Broker).handleDescribeCluster},
		{key: 75, min: 0, max: 0, handle: (*Broker).handleDescribeTopicPartitions},
	}
}
