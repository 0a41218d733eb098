package cluster

import "github.com/rowtrail/rowtrail/log"

// replicationFactor is the number of replicas asked for; a smaller cluster gives what it has.
const replicationFactor = 3

// place chooses replicas for count new partitions of a topic whose first new partition is number from: each starts one
// node further than the one before, the first replica being the preferred leader. Groups are numbered from first.
func place(nodes []int32, first log.GroupID, from, count int32) []Placement {
	out := make([]Placement, count)
	rf := min(replicationFactor, len(nodes))
	for i := range out {
		replicas := make([]int32, rf)
		for r := range replicas {
			replicas[r] = nodes[(int(from)+i+r)%len(nodes)]
		}
		out[i] = Placement{Group: first + log.GroupID(i), Replicas: replicas}
	}
	return out
}
