package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestCurrentKnowsWhatWasDecided: a node that asks has every topic that was created before, wherever; one that reaches no controller says so.
func TestCurrentKnowsWhatWasDecided(t *testing.T) {
	c := newTestCluster(t, 3)
	for i := range 15 {
		name := fmt.Sprint("t", i)
		if _, err := c.nodes[i%3].CreateTopic(t.Context(), TopicSpec{Name: name, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		for _, x := range c.nodes {
			if err := x.Current(t.Context()); err != nil {
				t.Fatal(err)
			}
			if x.Catalog().Topics[name] == nil {
				t.Fatalf("node %d is current and does not know %s", x.id, name)
			}
		}
	}
	c.nodes[0].stop()
	c.nodes[1].stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := c.nodes[2].Current(ctx); !errors.Is(err, ErrNotController) {
		t.Fatalf("without a majority: %v", err)
	}
}

// TestReadyNodesKnowTheCatalogue: a node that was away is not ready before it knows what was decided meanwhile; one that reaches nobody is,
// with what it knows.
func TestReadyNodesKnowTheCatalogue(t *testing.T) {
	c := newTestCluster(t, 3)
	away := c.nodes[2]
	ready := func() {
		t.Helper()
		if err := away.start(c.peers); err != nil {
			t.Fatal(err)
		}
		eventually(t, "ready", func() (bool, string) { why := away.NotReady(); return len(why) == 0, fmt.Sprint(why) })
	}
	for round := range 10 {
		away.stop()
		name := fmt.Sprint("t", round)
		if _, err := c.nodes[round%2].CreateTopic(t.Context(), TopicSpec{Name: name, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		ready()
		if _, ok := away.Catalog().Topics[name]; !ok {
			t.Fatalf("round %d: the node is ready and does not know %s", round, name)
		}
	}
	for _, x := range c.nodes {
		x.stop()
	}
	ready()
}
