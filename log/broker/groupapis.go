package broker

// groupAPIs are the APIs of consumer groups. The lowest versions stay advertised: older librdkafka takes
// group support from them.
func groupAPIs() []api {
	return []api{
		{key: 8, min: 2, max: 10, handle: (*Broker).handleOffsetCommit},
		{key: 9, min: 1, max: 10, handle: (*Broker).handleOffsetFetch},
		{key: 10, min: 0, max: 6, handle: (*Broker).handleFindCoordinator},
		{key: 11, min: 0, max: 9, handle: (*Broker).handleJoinGroup},
		{key: 12, min: 0, max: 4, handle: (*Broker).handleHeartbeat},
		{key: 13, min: 0, max: 5, handle: (*Broker).handleLeaveGroup},
		{key: 14, min: 0, max: 5, handle: (*Broker).handleSyncGroup},
		{key: 15, min: 0, max: 6, handle: (*Broker).handleDescribeGroups},
		{key: 16, min: 0, max: 5, handle: (*Broker).handleListGroups},
		{key: 42, min: 0, max: 2, handle: (*Broker).handleDeleteGroups},
		{key: 47, min: 0, max: 0, handle: (*Broker).handleOffsetDelete},
		{key: 68, min: 0, max: 1, handle: (*Broker).handleConsumerGroupHeartbeat},
		{key: 69, min: 0, max: 1, handle: (*Broker).handleConsumerGroupDescribe},
	}
}
