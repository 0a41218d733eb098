package cluster

import (
	"context"
	"time"
)

// tickInterval is Raft's clock: elections after 1 to 2 s, heartbeats every 300 ms. Groups with one voter need none.
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
			n.retain(now)
		case <-ctx.Done():
			return
		}
	}
}

// retain trims every partition by its settings, each on its own worker. The leader decides, and the log tells the others; the store
// carries the deletes to the disk.
func (n *Node) retain(now time.Time) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, rs := range n.replicas {
		for _, r := range rs {
			if r != nil {
				n.sched.run(r.group, func() {
					r.group.retainer.ForgetIdle(now)
					r.group.retain(now)
				})
			}
		}
	}
}
