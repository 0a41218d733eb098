package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors"
)

// watchEvery is how often the catalog is asked for what the stream does not tell.
const watchEvery = 5 * time.Second

// watch finds captured tables that were renamed or dropped, and partitions that were detached, dropped or truncated on their own: the
// stream says nothing of these (invariant 7). It belongs to one goroutine.
type watch struct {
	config    *Config
	tables    map[string]uint32          // captured at the start of the run
	leaves    map[string]map[uint32]leaf // of partitioned tables
	truncated func(root string) bool     // whether the stream had a truncate of the table since it was asked last
	parts     []string                   // warnings about partitions: what happened to them does not show twice
}

// leaf is one partition that holds rows.
type leaf struct {
	name     string
	filenode string // a new one after TRUNCATE, VACUUM FULL and the like
	empty    bool
}

// leaveOut says how to capture a table no longer.
func (c *Config) leaveOut(name string) string {
	if len(c.tables.Include) > 0 {
		return "take " + name + " out of table.include.list"
	}
	return "table.exclude.list: " + name
}

// place is where a table is found now.
type place struct {
	name      string
	partition bool
}

func newWatch(c *Config, tables []*table, l loads) *watch {
	w := &watch{config: c, tables: map[string]uint32{}, leaves: map[string]map[uint32]leaf{}}
	for _, t := range tables {
		w.tables[t.String()] = t.oid
	}
	for name, t := range l {
		w.tables[name] = t.oid
	}
	return w
}

// watchTables looks until ctx ends. A table that was dropped and created again is for a new run, which publishes and loads it.
func (r *run) watchTables(ctx context.Context, parked []string) error {
	w := newWatch(r.config, r.in.tables, r.resume.Loaded)
	for _, name := range parked { // what became of it is seen when it is unparked
		delete(w.tables, name)
	}
	w.truncated = func(root string) bool {
		_, seen := r.truncated.LoadAndDelete(root)
		return seen
	}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	told := map[string]bool{}
	for {
		var warnings []string
		err := r.side.use(ctx, func(conn *pgconn.PgConn) (err error) {
			if err := r.watchPublication(ctx, conn); err != nil {
				return err
			}
			warnings, err = w.look(ctx, conn)
			return err
		})
		switch {
		case err == nil:
			for _, text := range warnings {
				if !told[text] {
					told[text] = true
					r.log.Warn("source", "problem", text)
				}
			}
			r.tracker.Update(func(s *connectors.Status) { s.Warnings = warnings })
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errNewTable), connectors.IsFault(err):
			return err
		default:
			r.log.Warn("the catalog of the source cannot be watched", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// watchPublication stops the run when its publication is no more, where the server would go on without it.
func (r *run) watchPublication(ctx context.Context, conn *pgconn.PgConn) error {
	if r.in.version < skipsPublication {
		return nil
	}
	p, err := readPublication(ctx, conn, r.config.Publication, r.in.version)
	if err != nil {
		return err
	}
	at := resume{Publication: r.published}
	if m := r.committed.Load(); m != nil {
		at.LSN = lsn(m.Confirm)
	}
	return r.config.verifyPublication(r.in.version, p, &at)
}

// look compares the catalog with what is captured, and returns all that is to be told.
func (w *watch) look(ctx context.Context, conn *pgconn.PgConn) ([]string, error) {
	if len(w.tables) == 0 {
		return nil, nil
	}
	oids := make([]string, 0, len(w.tables))
	for _, oid := range w.tables {
		oids = append(oids, strconv.FormatUint(uint64(oid), 10))
	}
	rows, err := query(ctx, conn, `SELECT c.oid, n.nspname || '.' || c.relname, c.relispartition FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid IN (`+strings.Join(oids, ",")+`)`)
	if err != nil {
		return nil, fmt.Errorf("look for captured tables: %w", err)
	}
	found := make(map[uint32]place, len(rows))
	for _, r := range rows {
		found[parseOID(r[0])] = place{string(r[1]), isTrue(r[2])}
	}
	var warnings []string
	for name, oid := range w.tables {
		now, there := found[oid]
		if there && now.name == name && !now.partition {
			continue
		}
		text, err := w.moved(ctx, conn, name, now)
		if err != nil {
			return nil, err
		}
		warnings = append(warnings, text)
	}
	slices.Sort(warnings)
	if err := w.lookAtPartitions(ctx, conn); err != nil {
		return nil, err
	}
	return append(warnings, w.parts...), nil
}

// moved says what became of a table; now is empty when it is gone.
func (w *watch) moved(ctx context.Context, conn *pgconn.PgConn, name string, now place) (string, error) {
	c := w.config
	schema, table, _ := strings.Cut(name, ".")
	what := "was dropped"
	switch {
	case now.name == name:
		return fmt.Sprintf("table %s is a partition of another table now: its changes come with that table, if it is captured; topic %s gets no more. "+
			"To end this warning: %s", name, c.TopicOf(schema, table), c.leaveOut(name)), nil
	case now.name != "":
		what = "was renamed to " + now.name
	}
	rows, err := query(ctx, conn, `SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = `+quoteLiteral(schema)+` AND c.relname = `+quoteLiteral(table)+` AND c.relkind IN ('r', 'p') AND NOT c.relispartition`)
	if err != nil {
		return "", fmt.Errorf("look for table %s: %w", name, err)
	}
	if len(rows) > 0 {
		return w.replaced(ctx, conn, name, what)
	}
	if now.name == "" {
		return fmt.Sprintf("table %s %s: it is captured no longer; its rows stay in topic %s, in state and in targets. To end this warning: %s",
			name, what, c.TopicOf(schema, table), c.leaveOut(name)), nil
	}
	if newSchema, newTable, _ := strings.Cut(now.name, "."); c.captures(newSchema, newTable) {
		return fmt.Sprintf("table %s %s: its rows are in topic %s from now on, where it is loaded first; topic %s gets no more. To end this warning: %s",
			name, what, c.TopicOf(newSchema, newTable), c.TopicOf(schema, table), c.leaveOut(name)), nil
	}
	return fmt.Sprintf("table %s %s, which no list names: it is captured no longer. Add %s to table.include.list and restart the connector (it is loaded into its own topic), "+
		"or rename it back and load it again (%s for one start). To end this warning: %s", name, what, now.name, c.leaveOut(name), c.leaveOut(name)), nil
}

// replaced deals with another table of a captured one's name. A new run takes it in if nothing stands in its way, so that its
// neighbours go on.
func (w *watch) replaced(ctx context.Context, conn *pgconn.PgConn, name, what string) (string, error) {
	in, err := w.config.inspect(ctx, conn)
	if err != nil {
		return "", err
	}
	var obstacles []string
	for _, f := range w.config.findings(in) {
		if about := f.Collection(); f.Level == connectors.LevelError && (about == "" || about == name) {
			obstacles = append(obstacles, f.Subject+": "+f.Problem+" ("+f.Remedy+")")
		}
	}
	if len(obstacles) == 0 && w.config.Snapshot != SnapshotNoData {
		return "", fmt.Errorf("table %s %s, and there is another one of its name: %w", name, what, errNewTable)
	}
	text := fmt.Sprintf("table %s %s, and there is another one of its name, which is captured once the connector is restarted", name, what)
	if len(obstacles) > 0 {
		text += "; in the way: " + strings.Join(obstacles, "; ")
	}
	return text, nil
}

// lookAtPartitions compares the partitions of partitioned tables with those of the look before.
func (w *watch) lookAtPartitions(ctx context.Context, conn *pgconn.PgConn) error {
	oids := make([]string, 0, len(w.tables))
	names := make(map[uint32]string, len(w.tables))
	for name, oid := range w.tables {
		oids = append(oids, strconv.FormatUint(uint64(oid), 10))
		names[oid] = name
	}
	rows, err := query(ctx, conn, `SELECT r.oid, c.oid, n.nspname || '.' || c.relname, c.relfilenode, c.relpages = 0 AND c.reltuples <= 0
  FROM pg_class r CROSS JOIN LATERAL pg_partition_tree(r.oid) p JOIN pg_class c ON c.oid = p.relid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE r.relkind = 'p' AND p.isleaf AND c.relkind = 'r' AND r.oid IN (`+strings.Join(oids, ",")+`)`)
	if err != nil {
		return fmt.Errorf("look for partitions: %w", err)
	}
	now := map[string]map[uint32]leaf{}
	for _, r := range rows {
		root := names[parseOID(r[0])]
		if now[root] == nil {
			now[root] = map[uint32]leaf{}
		}
		now[root][parseOID(r[1])] = leaf{string(r[2]), string(r[3]), isTrue(r[4])}
	}
	for root, before := range w.leaves {
		if now[root] == nil && len(before) == 0 {
			continue
		}
		w.compare(root, before, now[root])
	}
	w.leaves = now
	return nil
}

// compare tells of partitions that lost their rows without an event. A TRUNCATE of the whole table empties all of them, and is one.
func (w *watch) compare(root string, before, now map[uint32]leaf) {
	var gone, emptied []string
	for oid, was := range before {
		is, there := now[oid]
		switch {
		case !there:
			gone = append(gone, was.name)
		case is.filenode != was.filenode && is.empty:
			emptied = append(emptied, was.name)
		}
	}
	if whole := w.truncated(root); len(emptied) == len(before) && (whole || len(before) > 1) {
		emptied = nil
	}
	tell := func(list []string, what string) {
		slices.Sort(list)
		for _, name := range list {
			w.parts = append(w.parts, fmt.Sprintf("partition %s of table %s %s, of which the stream has no event: its rows stay in the topic, in state and in targets. "+
				"Delete them there, or load the table again: %s for one start of the connector, and then undo that", name, root, what, w.config.leaveOut(root)))
		}
	}
	tell(gone, "was detached or dropped")
	tell(emptied, "was truncated")
}
