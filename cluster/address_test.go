package cluster

import (
	"fmt"
	"slices"
	"testing"
)

// TestJoinThroughPeersOtherThanTheLeader: a node that joins is told of some nodes of the cluster only; the controller's leader need not be one.
func TestJoinThroughPeersOtherThanTheLeader(t *testing.T) {
	c := newTestCluster(t, 3)
	leader := c.controllerLeader()
	peers := slices.DeleteFunc(slices.Clone(c.peers), func(p Peer) bool { return p.ID == leader.id })
	x := c.add("rack9", t.TempDir())
	if err := x.start(peers); err != nil {
		t.Fatal(err)
	}
}

// TestAMemberFindsNodesThatMoved: the addresses that it knows, from its configuration and from the catalogue that it has, are old ones.
func TestAMemberFindsNodesThatMoved(t *testing.T) {
	c := newTestCluster(t, 3)
	if _, err := c.nodes[0].CreateTopic(t.Context(), TopicSpec{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	want := []string{"before"}
	c.append("t", 0, "before")
	for _, x := range c.nodes {
		c.same(x, "t", 0, want)
	}
	away := c.nodes[2]
	away.stop()
	for _, x := range c.nodes[:2] {
		x.stop()
		x.addr = freeAddress(t)
		if err := x.start(c.peers); err != nil {
			t.Fatal(err)
		}
		// Who moves before the others know of the one before is not found by anybody.
		eventually(t, "ready", func() (bool, string) { why := x.NotReady(); return len(why) == 0, fmt.Sprint(why) })
		want = append(want, x.addr)
		c.append("t", 0, x.addr)
	}
	if err := away.start(c.peers); err != nil {
		t.Fatal(err)
	}
	c.same(away, "t", 0, want)
	// And it is counted on.
	c.nodes[0].stop()
	c.append("t", 0, "after")
}

// TestAClusterMovesAsAWhole: with all addresses new, only the configuration says where anybody is.
func TestAClusterMovesAsAWhole(t *testing.T) {
	c := newTestCluster(t, 3)
	if _, err := c.nodes[0].CreateTopic(t.Context(), TopicSpec{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	c.append("t", 0, "before")
	for _, x := range c.nodes {
		x.stop()
	}
	for i, x := range c.nodes { // nobody reads them any more
		x.addr = freeAddress(t)
		c.peers[i].Address = x.addr
	}
	c.startAll()
	c.append("t", 0, "after")
}

// controllerLeader waits for the controller's leader.
func (c *testCluster) controllerLeader() (leader *clusterNode) {
	c.t.Helper()
	eventually(c.t, "leader of the controller's group", func() (bool, string) {
		for _, x := range c.nodes {
			if _, _, self := x.ctl.replica.Leader(); self {
				leader = x
				return true, ""
			}
		}
		return false, "none"
	})
	return leader
}
