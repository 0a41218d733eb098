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
