package daemon

import (
	"fmt"
	"path/filepath"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/internal/views"
)

func (d *Daemon) startViews() error {
	views, err := snapshot.Open(filepath.Join(d.cfg.Node.DataDir, "views"), snapshot.Options{Logger: d.logger.With("part", "views")})
	if err != nil {
		return fmt.Errorf("open views: %w; stop rowtrail and delete the directory %s to rebuild them from the log", err,
			filepath.Join(d.cfg.Node.DataDir, "views"))
	}
	d.views = views
	followed := map[string]int{}
	changed := d.node.CatalogChanged()
	d.follow(followed)
	d.viewsWG.Go(func() {
		for {
			select {
			case <-d.ctx.Done():
				return
			case <-changed:
			}
			changed = d.node.CatalogChanged() // before reading it, so that no change falls between
			d.follow(followed)
		}
	})
	d.viewsWG.Go(func() {
		if err := views.Run(d.ctx); err != nil && d.ctx.Err() == nil {
			// Invariant 8: views are folds of the log; without them the log still serves.
			d.logger.Error("views stopped", "error", err)
		}
	})
	return nil
}

// follow hands the views every partition of every topic that people may ask about, and takes back deleted topics.
func (d *Daemon) follow(followed map[string]int) {
	catalog := d.node.Catalog()
	for name, topic := range catalog.Topics {
		if topic.Internal || followed[name] == len(topic.Partitions) {
			continue
		}
		parts := make([]snapshot.Source, 0, len(topic.Partitions))
		for p := range topic.Partitions {
			replica, err := d.node.Replica(name, int32(p)) //nolint:gosec // a partition number
			if err != nil {
				d.logger.Debug("partition is not here yet", "topic", name, "partition", p, "error", err)
				break // a later change of the catalogue brings it
			}
			parts = append(parts, replica.Log())
		}
		if len(parts) == len(topic.Partitions) {
			d.views.Follow(name, parts)
			followed[name] = len(parts)
		}
	}
	for name := range followed {
		if _, exists := catalog.Topics[name]; !exists {
			d.views.Forget(name)
			delete(followed, name)
		}
	}
}
