package rows

import (
	"context"
	"slices"
	"time"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/snapshot"
)

// A partition that is not open yet is looked for again, at first soon.
const (
	replicaRetry    = 20 * time.Millisecond
	replicaRetryMax = time.Second
)

// followedTopic is what the views have been given of a topic.
type followedTopic struct {
	id    [16]byte
	parts []snapshot.Source
	gone  []int32 // partitions that this node has no replica of
}

// followCatalog keeps the views in step with the topics. A partition is in the catalogue a moment before its replica is open on this node, so what
// is missing is looked for again.
func (r *Rows) followCatalog(ctx context.Context) {
	followed := map[string]followedTopic{}
	pause := replicaRetry
	retry := time.NewTimer(pause)
	defer retry.Stop()
	for {
		changed := r.node.CatalogChanged() // before reading the catalogue, so that no change falls between
		if complete := r.follow(followed); !complete {
			retry.Reset(pause)
			pause = min(2*pause, replicaRetryMax)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			pause = replicaRetry
		case <-retry.C:
		}
	}
}

// follow hands the views what this node has of every topic that people may ask about, and takes back deleted topics and replicas that have moved
// away. It is false when a partition is not open here yet.
func (r *Rows) follow(followed map[string]followedTopic) (complete bool) {
	complete = true
	catalog := r.node.Catalog()
	for name, topic := range catalog.Topics {
		if r.hidden(topic) {
			continue
		}
		before, known := followed[name]
		if known && before.id != topic.ID { // deleted and made anew since
			r.local.Forget(name)
			known = false
		}
		now := followedTopic{id: topic.ID, parts: make([]snapshot.Source, len(topic.Partitions))}
		for p := range topic.Partitions {
			number := int32(p) //nolint:gosec // a partition number
			member, here := memberOn(&topic.Partitions[p], r.node.ID())
			if !here {
				now.gone = append(now.gone, number)
				continue
			}
			replica, err := r.node.Replica(name, number)
			if err != nil || replica.Member() != member || replica.Topic().ID != topic.ID { // or it is one that is about to be replaced
				complete = false
				continue
			}
			now.parts[p] = replica.Log()
		}
		if known && slices.Equal(now.parts, before.parts) && slices.Equal(now.gone, before.gone) {
			continue
		}
		r.local.Follow(name, now.parts)
		for _, p := range now.gone {
			r.local.Discard(name, p)
		}
		followed[name] = now
	}
	for name := range followed {
		if _, exists := catalog.Topics[name]; !exists {
			r.local.Forget(name)
			delete(followed, name)
		}
	}
	return complete
}

// memberOn is the replica that a node has, or is to have: during a move the one that is to stay.
func memberOn(p *cluster.Placement, node int32) (cluster.Member, bool) {
	for _, list := range [][]cluster.Member{p.Target, p.Members} {
		for _, m := range list {
			if m.Node == node {
				return m, true
			}
		}
	}
	return cluster.Member{}, false
}
