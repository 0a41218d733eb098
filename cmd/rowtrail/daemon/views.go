package daemon

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/rowtrail/rowtrail/snapshot"
)

// replicaRetry is how soon a partition that is not open yet is looked for again.
const replicaRetry = 20 * time.Millisecond

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
}

// followCatalog keeps the views in step with the topics. A new topic is in the catalogue a moment before its partitions are
// open on this node, so what is missing is looked for again.
func (d *Daemon) followCatalog() {
	followed := map[string]followedTopic{}
	retry := time.NewTimer(replicaRetry)
	defer retry.Stop()
	for {
		changed := d.node.CatalogChanged() // before reading the catalogue, so that no change falls between
		if complete := d.follow(followed); !complete {
			retry.Reset(replicaRetry)
		}
		select {
		case <-d.ctx.Done():
			return
		case <-changed:
		case <-retry.C:
		}
	}
}

// follow hands the views every partition of every topic that people may ask about, and takes back deleted topics. It is
// false when a partition is not open here yet.
func (d *Daemon) follow(followed map[string]followedTopic) (complete bool) {
	complete = true
	catalog := d.node.Catalog()
	for name, topic := range catalog.Topics {
		before, known := followed[name]
		if topic.Internal {
			continue
		}
		if known && before.id != topic.ID { // deleted and made anew since
			d.views.Forget(name)
			delete(followed, name)
		}
		parts := make([]snapshot.Source, 0, len(topic.Partitions))
		for p := range topic.Partitions {
			replica, err := d.node.Replica(name, int32(p)) //nolint:gosec // a partition number
			if err != nil {
				d.logger.Debug("partition is not open yet", "topic", name, "partition", p, "error", err)
				complete = false
				break
			}
			parts = append(parts, replica.Log())
		}
		// A replica that moved here, or was replaced, is another log.
		if len(parts) == len(topic.Partitions) && !slices.Equal(parts, followed[name].parts) {
			d.views.Follow(name, parts)
			followed[name] = followedTopic{topic.ID, parts}
		}
	}
	for name := range followed {
		if _, exists := catalog.Topics[name]; !exists {
			d.views.Forget(name)
			delete(followed, name)
		}
	}
	return complete
}
