package cluster

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestReplicasGrow: what was created on too few nodes has the default number of replicas once there are enough, in racks apart; what somebody has said
// stays, and a drained node still becomes empty.
func TestReplicasGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := withNodes(t, NodeInfo{Rack: "rack0"})
		add := func(spec TopicSpec) {
			cs, err := s.createTopic(spec, [16]byte{byte(len(s.topics) + 1)})
			if err != nil {
				t.Fatal(err)
			}
			applyAll(t, s, cs)
		}
		add(TopicSpec{Name: "grows", Partitions: int32(rapid.IntRange(1, 8).Draw(t, "partitions")), ReplicationFactor: 3, few: true})
		add(TopicSpec{Name: "said", Partitions: 2, ReplicationFactor: 1})
		add(TopicSpec{Name: "more", Partitions: 1, ReplicationFactor: 3, few: true})
		if cs, err := s.createPartitions("more", 3, nil); err != nil {
			t.Fatal(err)
		} else {
			applyAll(t, s, cs)
		}
		most := rapid.IntRange(2, 6).Draw(t, "nodes")
		for i := 1; i < most; i++ {
			cs, err := s.register(registration{ID: int32(i), Node: NodeInfo{Disk: fmt.Sprint("new", i), Rack: fmt.Sprint("rack", i%3)}})
			if err != nil {
				t.Fatal(err)
			}
			applyAll(t, s, cs)
			if rapid.Bool().Draw(t, "settles") {
				settleMoves(t, s)
			}
		}
		settleMoves(t, s)
		replicas := func(when string, want map[string]int) {
			for name, n := range want {
				for i := range s.topics[name].Partitions {
					if p := &s.topics[name].Partitions[i]; len(p.Members) != n || p.Target != nil {
						t.Fatalf("%s: %s-%d is on %v, want %d replicas", when, name, i, p.Nodes(), n)
					}
				}
			}
		}
		replicas("grown", map[string]int{"grows": min(3, most), "more": min(3, most), "said": 1})
		checkRacks(t, s)

		for i := range s.topics["grows"].Partitions {
			cs, err := s.reassignAsked("grows", int32(i), []int32{0, 1})
			if err != nil {
				t.Fatal(err)
			}
			applyAll(t, s, cs)
			if cs, err = s.moved("grows", int32(i), s.topics["grows"].Partitions[i].Target); err != nil {
				t.Fatal(err)
			}
			applyAll(t, s, cs)
		}
		settleMoves(t, s)
		replicas("fewer asked for", map[string]int{"grows": 2, "more": min(3, most), "said": 1})
		if most <= 3 {
			return // nobody could take what is on a node that is drained
		}
		cs, err := s.drain(0, true)
		if err != nil {
			t.Fatal(err)
		}
		applyAll(t, s, cs)
		settleMoves(t, s)
		if l := s.load(); l.replicas[0] > 0 {
			t.Fatalf("the drained node has %v replicas", l.replicas)
		}
	})
}

// TestANodeAloneGetsCompany: a topic that was created on one node has its records on three when there are three.
func TestANodeAloneGetsCompany(t *testing.T) {
	c := &testCluster{t: t}
	first := c.add("rack0", t.TempDir())
	if err := first.start(c.peers); err != nil {
		t.Fatal(err)
	}
	if _, err := first.CreateTopic(t.Context(), TopicSpec{Name: "t", Partitions: 2, ReplicationFactor: -1, Internal: true}); err != nil {
		t.Fatal(err)
	}
	want := []string{"a", "b"}
	for _, v := range want {
		c.append("t", 0, v)
	}
	var moves int
	for i := range 2 {
		x := c.add(fmt.Sprint("rack", i+1), t.TempDir())
		if err := x.start([]Peer{{ID: first.id, Address: first.addr}}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "three replicas", func() (bool, string) {
		o := first.Overview(t.Context())
		moves = max(moves, len(o.Moves))
		ps := first.Catalog().Topics["t"].Partitions
		for i := range ps {
			if len(ps[i].Members) != 3 || ps[i].Target != nil {
				return false, fmt.Sprintf("%+v", ps)
			}
		}
		return true, ""
	})
	if moves == 0 {
		t.Error("the moves were not to be seen")
	}
	for _, x := range c.nodes {
		c.same(x, "t", 0, want)
	}
	first.stop()
	c.append("t", 0, "c")
	c.same(c.nodes[1], "t", 0, append(want, "c"))
}
