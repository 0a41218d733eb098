package broker

import (
	"context"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
)

const (
	// maxLeaderless bounds the partitions whose elections are remembered.
	maxLeaderless = 10_000
	// electionLook is the least time between two looks of one request for metadata.
	electionLook = 10 * time.Millisecond
)

// elections remembers since when partitions have no leader, so that metadata waits for a leader that is about to be known, and not for one that
// has been gone for long.
type elections struct {
	mu    sync.Mutex
	since map[log.GroupID]leaderless
}

type leaderless struct {
	epoch int32 // of the leader before
	at    time.Time
}

// open reports that a partition has lost its leader only just now.
func (e *elections) open(group log.GroupID, epoch int32, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, ok := e.since[group]
	if !ok || x.epoch != epoch {
		if e.since == nil {
			e.since = map[log.GroupID]leaderless{}
		}
		if !ok && len(e.since) >= maxLeaderless {
			return false // so much is lost that waiting is of no use
		}
		x = leaderless{epoch, now}
		e.since[group] = x
	}
	return now.Sub(x.at) < hintWait
}

// over forgets elections of a partition that has a leader.
func (e *elections) over(group log.GroupID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.since, group)
}

// awaitElections returns when the topics' partitions have leaders, or have had none for hintWait: many a client that is told of none asks again
// only seconds later.
func (b *Broker) awaitElections(ctx context.Context, topics []*cluster.Topic) {
	for {
		changed := b.node.LeadersChanged()
		if !b.electing(topics) {
			return
		}
		resume := pause(ctx)
		timer := time.NewTimer(hintWait)
		select {
		case <-changed:
			timer.Reset(electionLook)
			<-timer.C
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		resume()
		if ctx.Err() != nil {
			return
		}
	}
}

// electing looks at every partition: all that have lost their leaders are waited for at the same time.
func (b *Broker) electing(topics []*cluster.Topic) (open bool) {
	now := time.Now()
	for _, t := range topics {
		for i := range t.Partitions {
			leader, epoch := b.leaderOf(t, int32(i)) //nolint:gosec // a partition
			if leader >= 0 {
				b.elections.over(t.Partitions[i].Group)
			} else if b.elections.open(t.Partitions[i].Group, epoch, now) {
				open = true
			}
		}
	}
	return open
}

const (
	// redirectQuiet is how long nobody must have been told of another leader before a node that stops closes its connections.
	redirectQuiet = 250 * time.Millisecond
	// redirectFor bounds that.
	redirectFor = time.Second
)

// Redirect goes on answering after the node has handed over what it led, until clients that are at work know who leads now. One that finds the
// connection closed instead has to ask for metadata, which it may have asked for too lately.
func (b *Broker) Redirect(ctx context.Context) {
	end := time.NewTimer(redirectFor)
	defer end.Stop()
	for told := int64(-1); told != b.redirected.Load(); {
		told = b.redirected.Load()
		select {
		case <-time.After(redirectQuiet):
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
