package cluster

import "slices"

// shift gives the lead of one partition to another of its replicas.
type shift struct {
	partition int // its place in the list
	to        int32
}

// evenShifts finds shifts after which a node leads one partition less and another one, that led at least two fewer, one more. A leader can only be
// one of a partition's replicas, so the shifts may be a chain: a gives to b what b gives to c. nil: leaders are as even as the replicas allow.
// lists are the nodes of each partition, its leader first; leaders counts what each node leads, here and elsewhere.
func evenShifts(lists [][]int32, leaders map[int32]int, among []int32) []shift {
	byCount := slices.Clone(among)
	slices.SortFunc(byCount, func(a, b int32) int {
		if leaders[a] != leaders[b] {
			return leaders[b] - leaders[a]
		}
		return int(a - b)
	})
	ledBy := map[int32][]int{}
	for i, nodes := range lists {
		ledBy[nodes[0]] = append(ledBy[nodes[0]], i)
	}
	for _, from := range byCount {
		if shifts := chainFrom(from, lists, ledBy, leaders, among); shifts != nil {
			return shifts
		}
	}
	return nil
}

// chainFrom is a breadth-first search from a node with many leaders to one with few.
func chainFrom(from int32, lists [][]int32, ledBy map[int32][]int, leaders map[int32]int, among []int32) []shift {
	type step struct {
		before int32 // the node that gives
		shift
	}
	came := map[int32]step{from: {before: -1}}
	for queue := []int32{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if leaders[from]-leaders[at] >= 2 {
			var out []shift
			for at != from {
				out = append(out, came[at].shift)
				at = came[at].before
			}
			slices.Reverse(out)
			return out
		}
		for _, i := range ledBy[at] {
			for _, to := range lists[i][1:] {
				if _, seen := came[to]; !seen && slices.Contains(among, to) {
					came[to] = step{at, shift{i, to}}
					queue = append(queue, to)
				}
			}
		}
	}
	return nil
}

// led puts a node first in a list.
func led(nodes []int32, by int32) []int32 {
	out := slices.Clone(nodes)
	at := slices.Index(out, by)
	out[0], out[at] = out[at], out[0]
	return out
}

// evenLeaders reorders the nodes of new partitions so that leaders are as even as their replicas allow.
func (l load) evenLeaders(lists [][]int32, among []int32) {
	for {
		shifts := evenShifts(lists, l.leaders, among)
		if shifts == nil {
			return
		}
		for _, s := range shifts {
			l.leaders[lists[s.partition][0]]--
			l.leaders[s.to]++
			lists[s.partition] = led(lists[s.partition], s.to)
		}
	}
}
