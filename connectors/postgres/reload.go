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
		holds, err := l.writer.HoldsRecords(ctx, r.Topic)
		if err != nil {
			return err
		}
		if !holds {
			continue
		}
		l.log.Info("table is loaded again: a truncate comes first", "table", t.String(), "topic", r.Topic)
		w.Touch()
		if err := w.SchemaOnce(ctx, &r.Table); err != nil {
			return err
		}
		if err := w.Room(ctx); err != nil {
			return err
		}
		w.place()
		if err := w.Truncate(&r.Table); err != nil {
			return err
		}
	}
	return w.Send(ctx)
}

// place puts what follows at the load's point.
func (w *loadWorker) place() {
	w.Meta = event.Meta{TsMs: w.Meta.TsMs, SourceTsUs: w.timeUs, Snapshot: "true", LSN: uint64(w.point)}
	w.Pos = event.Position{Commit: uint64(w.point), CommitTime: w.timeUs}
}

// forget drops the loads of tables that are not captured any more: what they miss meanwhile is known only by loading them again.
func (r *resume) forget(c *Config) {
	maps.DeleteFunc(r.Loaded, func(name string, _ loaded) bool { return !c.capturesName(name) })
}
