package cluster

import (
	"context"
	"time"
)

// tickInterval is Raft's clock: elections after 1 to 2 s, heartbeats every 500 ms. Groups with one voter need none.
const tickInterval = 100 * time.Millisecond

// clockLoop is the node's one clock: Raft ticks and retention.
func (n *Node) clockLoop(ctx context.Context) {
	ticks := time.NewTicker(tickInterval)
	defer ticks.Stop()
	retention := time.NewTicker(n.opts.RetentionInterval)
	defer retention.Stop()
	for {
		select {
		case <-ticks.C:
			n.sched.tick()
		case now := <-retention.C:
			n.sched.retain(now)
		case <-ctx.Done():
			return
		}
	}
}
