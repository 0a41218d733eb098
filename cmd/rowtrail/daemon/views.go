package daemon

import (
	"fmt"
	"path/filepath"
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

func (d *Daemon) startViews() error {
	views, err := snapshot.Open(filepath.Join(d.cfg.Node.DataDir, "views"), snapshot.Options{Logger: d.logger.With("part", "views")})
	if err != nil {
		return fmt.Errorf("open views: %w; stop rowtrail and delete the directory %s to rebuild them from the log", err,
			filepath.Join(d.cfg.Node.DataDir, "views"))
	}
	d.views = views
	d.viewsWG.Go(d.followCatalog)
	d.viewsWG.Go(func() {
		if err := views.Run(d.ctx); err != nil && d.ctx.Err() == nil {
			// Invariant 8: views are folds of the log; without them the log still serves.
			d.logger.Error("views stopped", "error", err)
		}
	})
	return nil
}

// followedTopic is what the views have been given of a topic.
type followedTopic struct {
	id    [16]byte
	parts []snapshot.Source
	gone  []int32 // partitions that this node has no replica of
}

// followCatalog keeps the views in step with the topics. A partition is in the catalogue a moment before its replica is open on this node, so what
// is missing is looked for again.
func (d *Daemon) followCatalog() {
	followed := map[string]followedTopic{}
	pause := replicaRetry
	retry := time.NewTimer(pause)
	defer retry.Stop()
	for {
		changed := d.node.CatalogChanged() // before reading the catalogue, so that no change falls between
		if complete := d.follow(followed); !complete {
			retry.Reset(pause)
			pause = min(2*pause, replicaRetryMax)
		}
		select {
		case <-d.ctx.Done():
			return
		case <-changed:
			pause = replicaRetry
		case <-retry.C:
		}
	}
}

// follow hands the views what this node has of every topic that people may ask about, and takes back deleted topics and replicas that have moved
// away. It is false when a partition is not open here yet.
func (d *Daemon) follow(followed map[string]followedTopic) (complete bool) {
	complete = true
	catalog := d.node.Catalog()
	for name, topic := range catalog.Topics {
		if internal(topic) {
			continue
		}
		before, known := followed[name]
		if known && before.id != topic.ID { // deleted and made anew since
			d.views.Forget(name)
			known = false
		}
		now := followedTopic{id: topic.ID, parts: make([]snapshot.Source, len(topic.Partitions))}
		for p := range topic.Partitions {
			number := int32(p) //nolint:gosec // a partition number
			member, here := memberOn(&topic.Partitions[p], d.node.ID())
			if !here {
				now.gone = append(now.gone, number)
				continue
			}
			replica, err := d.node.Replica(name, number)
			if err != nil || replica.Member() != member || replica.Topic().ID != topic.ID { // or it is one that is about to be replaced
				complete = false
				continue
			}
			now.parts[p] = replica.Log()
		}
		if known && slices.Equal(now.parts, before.parts) && slices.Equal(now.gone, before.gone) {
			continue
		}
		d.views.Follow(name, now.parts)
		for _, p := range now.gone {
			d.views.Discard(name, p)
		}
		followed[name] = now
	}
	for name := range followed {
		if _, exists := catalog.Topics[name]; !exists {
			d.views.Forget(name)
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
