package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
	"github.com/rowtrail/rowtrail/connectors/mysql/schema"
)

// history is what each table is at the stream's place: a schema.Book, which the topic <prefix>.schema-history keeps, and where to look when
// the binlog does not tell. It belongs to one goroutine: that of the run, and then the stream's.
type history struct {
	run     *run
	options schema.Options
	book    *schema.Book
	scout   scout
}

// HistoryTopic is the topic that keeps what each table is at the position.
func (c *Config) HistoryTopic() string { return schema.TopicName(c.Prefix) }

// followsDatabase tells of which databases the statements are followed: those that can have captured tables, and that of the signals.
func (c *Config) followsDatabase(name string) bool {
	return c.capturesDatabase(name) || strings.HasPrefix(c.signals, name+".")
}

// openHistory takes back what the last run committed.
func (r *run) openHistory(ctx context.Context) error {
	setting := func(name string) string { return r.server.variables[name] }
	h := &history{run: r, options: schema.Options{
		Version: r.server.number, Keep: r.config.followsDatabase,
		FoldNames:          setting("lower_case_table_names") != "" && setting("lower_case_table_names") != "0",
		ImplicitTimestamps: setting("explicit_defaults_for_timestamp") != "" && !r.server.on("explicit_defaults_for_timestamp"),
	}}
	if r.config.MariaDB {
		h.options.Flavour = ddl.MariaDB
	}
	if err := r.side.use(ctx, func(s *session) (err error) {
		h.options.Collations, err = schema.ReadCollations(ctx, catalogSession{s}, h.options)
		return err
	}); err != nil {
		return fmt.Errorf("read the source's collations: %w", err)
	}
	h.book = schema.New(h.options)
	h.scout = scout{run: r, ahead: h.book.Ahead()}
	topic := r.config.HistoryTopic()
	_, err := r.writer.ScanOwn(ctx, topic, func(rec *kgo.Record) error { return h.book.Restore(rec.Key, rec.Value) })
	if errors.Is(err, schema.ErrRecord) {
		return &connectors.Fault{
			Problem: "topic " + topic + " cannot be read", Err: err,
			Remedy: "run the newer build that wrote it, or delete the topic (`rowtrail topics delete`) and restart the connector: the tables are described from the catalog again",
		}
	}
	r.history = h
	return err
}

// begin brings the history to the resume point. Where it is of another point, or was never written, the catalog tells, but for the
// tables that a statement changes between the resume point and the end of the binlog.
func (h *history) begin(ctx context.Context) error {
	p := h.run.resume.point
	at := schema.Place{Order: p.commits, Text: p.at.String()}
	if last := h.book.Place(); h.run.fresh || p.history == nil || *p.history != last.Order || last.Text == "" {
		h.book.Forget(at, "the schema history is not that of the resume point")
	}
	h.book.Restrict(at)
	var databases []string
	for _, t := range h.run.tables {
		if !h.book.Follows(t.schema) && !slices.Contains(databases, t.schema) {
			databases = append(databases, t.schema)
		}
	}
	if len(databases) == 0 {
		return nil
	}
	began := time.Now()
	var read *schema.Catalog
	if err := h.run.side.use(ctx, func(s *session) (err error) {
		read, err = schema.ReadDatabases(ctx, catalogSession{s}, h.options, databases...)
		return err
	}); err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	h.scout.ahead.Pass(spotOf(p.at))
	if err := h.scout.on(ctx, p, func() bool { return false }); err != nil {
		return err
	}
	h.book.Catalog(at, read, h.scout.ahead)
	for _, t := range h.run.tables {
		h.take(t, read)
	}
	h.run.log.Info("tables are described from the catalog", "databases", len(databases), "tables", len(read.Tables), "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// describe gives a table of the catalog the columns that the stream's rows will have, unless it has them. One that is gone has none.
func (h *history) describe(ctx context.Context, t *table) error {
	if t.described != nil {
		return nil
	}
	return h.run.side.use(ctx, func(s *session) error {
		read, err := schema.Read(ctx, catalogSession{s}, h.options, t.id())
		if err == nil {
			h.take(t, read)
		}
		return err
	})
}

func (h *history) take(t *table, read *schema.Catalog) {
	if found := read.Tables[t.id()]; found != nil {
		t.described, t.refused = h.book.Columns(found)
	}
}

// bookPlace is the stream's place in the terms of the Book.
func (s *stream) bookPlace() schema.Place {
	return schema.Place{Order: s.Pos.Commit, Text: s.group.name}
}

// description is what the rows of a table map are.
func (s *stream) description(ctx context.Context, t *binlog.Table) (*schema.Description, error) {
	h := s.run.history
	d, err := h.book.Table(s.bookPlace(), t)
	var look *schema.LookError
	if errors.As(err, &look) {
		if err := s.look(ctx, look); err != nil {
			return nil, err
		}
		d, err = h.book.Table(s.bookPlace(), t)
	}
	return d, s.indescribable(t, err)
}

// look asks the catalog for a table. The stream waits for it: what is read ahead is read once in a run.
func (s *stream) look(ctx context.Context, look *schema.LookError) error {
	h := s.run.history
	name := look.Table
	s.run.log.Info("table is looked up in the catalog", "table", name.Database+"."+name.Table, "reason", look.Why, "at", s.group.name)
	var read *schema.Catalog
	err := s.run.side.use(ctx, func(session *session) (err error) {
		read, err = schema.Read(ctx, catalogSession{session}, h.options, name)
		return err
	})
	if denied(err) {
		return &connectors.Fault{
			Problem: "table " + name.Database + "." + name.Table + " cannot be captured", Err: err, Collection: name.Database + "." + name.Table,
			Remedy: "GRANT SELECT ON " + quoteIdent(name.Database) + "." + quoteIdent(name.Table) + " TO " + s.config.account(),
		}
	}
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	h.scout.ahead.Pass(spotOf(place{s.file, s.end}))
	if err := h.scout.on(ctx, &point{at: s.began}, func() bool { return h.scout.ahead.Changes(name) }); err != nil {
		return err
	}
	h.book.Catalog(s.bookPlace(), read, h.scout.ahead)
	return nil
}

// indescribable is the Fault of a table that the Book cannot describe (invariant 7).
func (s *stream) indescribable(t *binlog.Table, err error) error {
	var e *schema.Error
	if !errors.As(err, &e) {
		return err
	}
	f := &connectors.Fault{
		Problem: fmt.Sprintf("table %s cannot be captured from %s:%d (transaction %s) on", t.Collection(), s.file, s.end, s.group.name),
		Err:     errors.New(e.Reason), Remedy: e.Remedy, Collection: t.Collection(),
	}
	switch {
	case f.Remedy == "":
		f.Remedy = "leave the table out with table.exclude.list, or report this with the server's version"
	case !t.Named:
		f.Remedy += ": " + s.config.again()
	}
	return f
}

// keepHistory writes what the history learned since the last mark into the log transaction of the events that it learned it from
// (invariant 3). The mark that follows names it, so that a history that is not the mark's is known as such.
func (s *stream) keepHistory(ctx context.Context) error {
	book := s.run.history.book
	records, err := book.Changes(schema.Place{Order: s.point.commits, Text: s.point.at.String()})
	if err != nil {
		return err
	}
	topic := s.config.HistoryTopic()
	for _, r := range records {
		if err := s.Room(ctx); err != nil {
			return err
		}
		s.Batch.Record(topic, 0, r.Key, r.Value, s.Now)
	}
	if order := book.Place().Order; s.point.history == nil || *s.point.history != order {
		next := *s.point
		next.history = &order
		s.point = &next
	}
	return nil
}

// known is a table's description at the stream's place, by all of its columns; nil if there is none.
func (h *history) known(name ddl.TableName) ([]event.TableColumn, []error) {
	t, _ := h.book.Known(name)
	if t == nil {
		return nil, nil
	}
	return h.book.Columns(t)
}

// catalogSession gives the catalog's statements a bound each.
type catalogSession struct{ *session }

// Query runs one statement.
func (s catalogSession) Query(ctx context.Context, sql string) ([][]*string, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	found, err := s.query(ctx, sql)
	if isMyError(err) {
		return nil, fmt.Errorf("%w: %w", schema.ErrRefused, err)
	}
	if err != nil {
		return nil, err
	}
	list := make([][]*string, len(found))
	for i, r := range found {
		for _, v := range r {
			if v == nil {
				list[i] = append(list[i], nil)
				continue
			}
			list[i] = append(list[i], new(string(v)))
		}
	}
	return list, nil
}
