package daemon

import (
	"path/filepath"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/cmd/rowtrail/rows"
)

func (d *Daemon) startViews() error {
	r, err := rows.Open(rows.Options{
		Dir: filepath.Join(d.cfg.Node.DataDir, "views"), Node: d.node, Logger: d.logger.With("part", "views"), Others: admin.OthersHandler(d), Hidden: internal,
	})
	if err != nil {
		return err
	}
	d.rows = r
	d.viewsWG.Go(func() { r.Run(d.ctx) })
	return nil
}
