package postgres

import (
	"context"
	"maps"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// clear begins the load of tables whose topics hold records: rows that were deleted at the source since then are in no change and
// in no load, so a truncate ends the life of all. It is in the log transaction of the load, and independent of skipped.operations:
// without it state and targets keep rows that are gone (invariant 7).
func (l *loader) clear(ctx context.Context, tables []*table) error {
	w := l.workers[0]
	for _, t := range tables {
		r, err := w.relationFor(ctx, t)
		if err != nil {
			return err
		}
		holds, err := l.writer.HoldsRecords(ctx, r.topic)
		if err != nil {
			return err
		}
		if !holds {
			continue
		}
		l.log.Info("table is loaded again: a truncate comes first", "table", t.String(), "topic", r.topic)
		w.touch()
		if err := w.schemaOnce(ctx, r); err != nil {
			return err
		}
		if err := w.room(ctx); err != nil {
			return err
		}
		w.place()
		if err := w.truncate(r); err != nil {
			return err
		}
	}
	return w.send(ctx)
}

// place puts what follows at the load's point.
func (w *loadWorker) place() {
	w.meta = event.Meta{TsMs: w.meta.TsMs, SourceTsUs: w.timeUs, Snapshot: "true", LSN: uint64(w.point)}
	w.pos = event.Position{Commit: uint64(w.point), CommitTime: w.timeUs}
}

// forget drops the loads of tables that are not captured any more: what they miss meanwhile is known only by loading them again.
func (r *resume) forget(c *Config) {
	maps.DeleteFunc(r.Loaded, func(name string, _ loaded) bool { return !c.capturesName(name) })
}
