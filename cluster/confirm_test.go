package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log"
)

// TestConfirm: who confirms that it leads has every acknowledged record applied, whoever acknowledged it; a leader without a quorum does not
// confirm.
func TestConfirm(t *testing.T) {
	c := newTestCluster(t, 3)
	topic, err := c.nodes[0].CreateTopic(t.Context(), TopicSpec{Name: "t", Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	nodes := topic.Partitions[0].Nodes()
	for i := range 12 {
		end := c.append("t", 0, fmt.Sprint("v", i)) + 1
		if i%4 == 3 { // leadership moves
			to := nodes[(i/4)%3]
			r, err := c.leader("t", 0).Replica("t", 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range topic.Partitions[0].Members {
				if m.Node == to {
					r.transfer(m, true)
				}
			}
		}
		confirmed := 0
		eventually(t, "confirmation", func() (bool, string) {
			for _, x := range c.nodes {
				r, err := x.Replica("t", 0)
				if err != nil {
					return false, err.Error()
				}
				err = r.Confirm(t.Context())
				switch {
				case err == nil && r.Log().Marks().HighWatermark < end:
					t.Fatalf("node %d confirms with the high watermark at %d, and %d was acknowledged", x.id, r.Log().Marks().HighWatermark, end)
				case err == nil:
					confirmed++
				case !errors.Is(err, log.ErrNotLeader):
					t.Fatal(err)
				}
			}
			return confirmed > 0, "none"
		})
	}
	lead := c.leader("t", 0)
	for _, x := range c.nodes {
		if x != lead {
			x.stop()
		}
	}
	r, err := lead.Replica("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := r.Confirm(ctx); !errors.Is(err, log.ErrNotLeader) {
		t.Errorf("a leader that has lost the others confirms with %v", err)
	}
}
