package cluster

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// spread is the largest difference between two values.
func spread(m map[int32]int, nodes []int32) int {
	low, high := 1<<30, 0
	for _, n := range nodes {
		low, high = min(low, m[n]), max(high, m[n])
	}
	return high - low
}

// checkRacks: no two replicas of a partition share a rack while there are as many racks as replicas.
func checkRacks(t *rapid.T, s *catalogState) {
	racks := map[string]bool{}
	for _, n := range s.nodes {
		if !n.Drain {
			racks[n.Rack] = true
		}
	}
	for name, topic := range s.topics {
		for i := range topic.Partitions {
			seen := map[string]bool{}
			nodes := nodesOf(topic.Partitions[i].Wanted())
			for _, n := range nodes {
				if r := s.nodes[n].Rack; seen[r] && len(racks) >= len(nodes) {
					t.Fatalf("partition %s-%d is on %v, two of them in rack %s; racks are %v", name, i, nodes, r, racks)
				}
				seen[s.nodes[n].Rack] = true
			}
		}
	}
}

func drawCluster(t *rapid.T, racks int) *catalogState {
	var infos []NodeInfo
	perRack := rapid.IntRange(1, 3).Draw(t, "nodes per rack")
	for i := range racks * perRack {
		infos = append(infos, NodeInfo{Rack: fmt.Sprint("rack", i%racks)})
	}
	return withNodes(t, infos...)
}

// TestPlacement: racks are kept apart, and replicas are even within one. So are leaders, if need be once partitions that were there before are led by
// another of their replicas: a new one may have none on the node that leads least.
func TestPlacement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		racks := rapid.IntRange(1, 4).Draw(t, "racks")
		s := drawCluster(t, racks)
		rf := rapid.IntRange(1, min(3, racks)).Draw(t, "replication factor")
		for i := range rapid.IntRange(1, 5).Draw(t, "topics") {
			cs, err := s.createTopic(TopicSpec{
				Name: fmt.Sprint("t", i), Partitions: int32(rapid.IntRange(1, 12).Draw(t, "partitions")), ReplicationFactor: int16(rf),
			}, [16]byte{byte(i)})
			if err != nil {
				t.Fatal(err)
			}
			applyAll(t, s, cs)
		}
		checkRacks(t, s)
		l := s.load()
		var nodes []int32
		for _, n := range s.nodeList() {
			nodes = append(nodes, n.ID)
		}
		if spread(l.replicas, nodes) > 1 {
			t.Fatalf("replicas %v of nodes %v", l.replicas, nodes)
		}
		settleMoves(t, s)
		after := s.load()
		if !maps.Equal(after.replicas, l.replicas) || spread(after.leaders, nodes) > 1 {
			t.Fatalf("replicas %v, leaders %v of nodes %v; before %v, %v", after.replicas, after.leaders, nodes, l.replicas, l.leaders)
		}
	})
}

// settleMoves does what the controller does until nothing is left to do.
func settleMoves(t *rapid.T, s *catalogState) (moves int) {
	for range 2000 {
		cs, err := s.balance(func(int32) bool { return true }, defaultReplicationFactor)
		if err != nil {
			t.Fatal(err)
		}
		if len(cs) == 0 {
			return moves
		}
		moves++
		applyAll(t, s, cs)
		for name, topic := range s.topics {
			for i := range topic.Partitions {
				if target := topic.Partitions[i].Target; target != nil {
					cs, err := s.moved(name, int32(i), target)
					if err != nil {
						t.Fatal(err)
					}
					applyAll(t, s, cs)
				}
			}
		}
	}
	t.Fatalf("moves do not end")
	return 0
}

// TestBalance: after nodes came, are drained and left, replicas are even within one again, racks are kept apart, drained nodes are empty, and no
// member of a group ever comes back under the same generation.
func TestBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawCluster(t, 3)
		for i := range rapid.IntRange(1, 4).Draw(t, "topics") {
			cs, err := s.createTopic(TopicSpec{Name: fmt.Sprint("t", i), Partitions: int32(rapid.IntRange(1, 12).Draw(t, "partitions")), ReplicationFactor: 3}, [16]byte{byte(i)})
			if err != nil {
				t.Fatal(err)
			}
			applyAll(t, s, cs)
		}
		was := map[string]bool{} // group/node.gen that once were and were removed
		before := map[string][]Member{}
		note := func() {
			for name, topic := range s.topics {
				for i := range topic.Partitions {
					key := fmt.Sprint(name, "-", i)
					now := topic.Partitions[i].Members
					for _, m := range before[key] {
						if !slices.Contains(now, m) {
							was[key+m.String()] = true
						}
					}
					for _, m := range now {
						if was[key+m.String()] {
							t.Fatalf("member %v of %s came back", m, key)
						}
					}
					before[key] = slices.Clone(now)
				}
			}
		}
		note()
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				id := int32(len(s.nodes) + 10)
				cs, err := s.register(registration{ID: id, Node: NodeInfo{Disk: fmt.Sprint("new", id), Rack: fmt.Sprint("rack", id%3)}})
				if err != nil {
					t.Fatal(err)
				}
				applyAll(t, s, cs)
			case 1: // its disk is lost
				n := rapid.SampledFrom(s.nodeList()).Draw(t, "node")
				r := registration{ID: n.ID, Node: n}
				r.Node.Disk += "+"
				cs, err := s.register(r)
				if err != nil {
					t.Fatal(err)
				}
				applyAll(t, s, cs)
				for _, topic := range s.topics {
					for i := range topic.Partitions {
						if p := &topic.Partitions[i]; slices.Contains(p.Nodes(), n.ID) && p.Target == nil {
							t.Fatalf("partition %d keeps its replica on node %d, whose disk is lost", i, n.ID)
						}
					}
				}
			default:
				n := rapid.SampledFrom(s.nodeList()).Draw(t, "node")
				cs, err := s.drain(n.ID, !n.Drain)
				if err == nil {
					applyAll(t, s, cs)
				}
			}
			// What a lost disk started has to end before the rest does.
			for name, topic := range s.topics {
				for i := range topic.Partitions {
					if target := topic.Partitions[i].Target; target != nil {
						cs, _ := s.moved(name, int32(i), target)
						applyAll(t, s, cs)
					}
				}
			}
			settleMoves(t, s)
			note()
		}
		var open []int32
		l := s.load()
		for _, n := range s.nodeList() {
			if !n.Drain {
				open = append(open, n.ID)
			}
		}
		if len(open) < 3 {
			return
		}
		for _, n := range s.nodeList() {
			if n.Drain && l.replicas[n.ID] > 0 {
				t.Fatalf("drained node %d has %d replicas", n.ID, l.replicas[n.ID])
			}
		}
		checkRacks(t, s)
		if spread(l.replicas, open) > 1 && !rackBound(s) {
			t.Fatalf("replicas %v on %v", l.replicas, open)
		}
		for name, topic := range s.topics {
			for i := range topic.Partitions {
				nodes := topic.Partitions[i].Nodes()
				for _, other := range nodes[1:] {
					if slices.Contains(open, other) && l.leaders[nodes[0]]-l.leaders[other] > 1 {
						t.Fatalf("%s-%d on %v should be led by node %d: leaders %v", name, i, nodes, other, l.leaders)
					}
				}
			}
		}
	})
}

// rackBound reports that racks have different numbers of nodes: then keeping replicas apart goes before evenness.
func rackBound(s *catalogState) bool {
	n := map[string]int{}
	for _, x := range s.nodes {
		if !x.Drain {
			n[x.Rack]++
		}
	}
	first := -1
	for _, c := range n {
		if first >= 0 && c != first {
			return true
		}
		first = c
	}
	return len(n) < 3
}
