package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
	"github.com/rowtrail/rowtrail/connectors/mysql/state"
)

const (
	// askTimeout bounds a question for the state of rows, which waits for the views to show what is committed.
	askTimeout = time.Minute
	// prefetchBytes bounds the keys that are asked for at once.
	prefetchBytes = 4 << 20
	// maxDecoders bounds the table versions whose rows in the log are read.
	maxDecoders = 1024
)

// completion completes row images from the state that the log's views and the rows on their way have (M6, M13): see package state. A
// table's rows are kept from its first incomplete image on; until then that costs nothing.
type completion struct {
	rows     connectors.Rows // nil: there are no views
	kept     *state.Rows
	tables   map[string]*tracked
	decoders map[uint64]*event.Decoder // by schema; nil: the log does not have it
	ahead    *binlog.Decoder
	rest     [][]byte // packets behind the one that is decoded
	before   event.Row
	after    event.Row
	loading  bool // the open log transaction has what a load told, up to a forced mark
	key      []byte
	fit      event.Row
}

// tracked is a table whose rows can be completed.
type tracked struct {
	on      bool   // its changes are kept
	last    uint64 // change that was not kept; 0: there is none
	drifted bool   // and said so
}

// trackError says that changes of a table that are in the open log transaction were not kept, and are needed.
type trackError struct{ collection string }

func (e *trackError) Error() string {
	return "table " + e.collection + " has a row image without all columns: the open log transaction is read again, and its rows kept"
}

// tracks tells whether the next run is to keep a table's rows from its start on.
func (c *Connector) tracks(err error) bool {
	var track *trackError
	if !errors.As(err, &track) || c.tracking[track.collection] {
		return false
	}
	c.log.Info("rows are kept from here on", "table", track.collection, "reason", track.Error())
	if c.tracking == nil {
		c.tracking = map[string]bool{}
	}
	c.tracking[track.collection] = true
	return true
}

func newCompletion(r *run) *completion {
	c := &completion{rows: r.deps.Rows, tables: map[string]*tracked{}, decoders: map[uint64]*event.Decoder{}}
	if r.config.SkipCreate || r.config.SkipUpdate || r.config.SkipDelete {
		c.rows = nil // the log has not all changes
	}
	if c.rows != nil {
		c.kept = state.New(state.MaxBytes)
	}
	return c
}

// tracks gives a table version its place in the completion; nil: its rows cannot be told apart by the record's key, or there is no state.
func (s *stream) tracks(r *relation) *tracked {
	if r.looked {
		return r.tracked
	}
	r.looked = true
	if s.state.rows == nil || r.hidden || len(r.Keys) == 0 || !exactKey(&r.Table) || !s.config.tellsRows(r) {
		return nil
	}
	t := s.state.tables[r.Collection]
	if t == nil {
		t = &tracked{on: s.repair != nil || s.run.partialImages() || s.run.tracking[r.Collection]}
		s.state.tables[r.Collection] = t
	}
	r.tracked = t
	return t
}

// silent are the columns that the source may change without sending them in an image without all columns: MariaDB leaves generated
// columns out. Where only the binlog tells of a column, one that the catalog does not have, or has in another way, may be one.
func (s *stream) silent(ctx context.Context, r *relation) ([]bool, error) {
	if !s.config.MariaDB {
		return nil, nil
	}
	list := make([]bool, len(r.Schema.Columns))
	if r.description != nil && r.description.Whole { // the history has the table as it was there
		for i := range list {
			list[i] = r.Schema.Columns[i].Key == 0 && r.Schema.Columns[i].Generated
		}
		return list, nil
	}
	now, err := s.run.lookUp(ctx, r.schema, r.name)
	if err != nil {
		return nil, err
	}
	for i := range list {
		c := &r.Schema.Columns[i]
		col := now.column(c.Name)
		list[i] = c.Key == 0 && (c.Generated || col == nil || col.facts.Generated || col.facts.ColumnType != c.Type)
	}
	return list, nil
}

// tellsRows says whether the record key tells a row from others: of message.key.columns that is to be seen.
func (c *Config) tellsRows(r *relation) bool {
	if len(c.KeyFor(r.schema, r.name)) == 0 {
		return true
	}
	wire := r.layout.Table()
	if !wire.Named || len(wire.PrimaryKey) == 0 {
		return false
	}
	for _, part := range wire.PrimaryKey {
		within := false
		for _, k := range r.Keys {
			within = within || r.Schema.Columns[k].Name == wire.Columns[part.Column].Name
		}
		if !within {
			return false
		}
	}
	return true
}

// exactKey says whether two rows never have one record key: their texts, as the log has them, tell their values apart.
func exactKey(t *connectors.Table) bool {
	lossy := t.Schema.Lossy()
	for _, k := range t.Keys {
		if c := &t.Schema.Columns[k]; slices.Contains(lossy, c.Name) || !exact(c.Charset) {
			return false
		}
	}
	return true
}

// exact tells the charsets in which a text is one string of bytes: in others two keys can have the same text.
func exact(charset string) bool {
	switch charset {
	case "", "utf8mb4", "utf8mb3", "utf8", "ascii", "latin1", "ucs2", "utf16", "utf16le", "utf32", "binary":
		return true
	}
	return false
}

// partialImages says whether the source's sessions send incomplete images unless they say otherwise.
func (r *run) partialImages() bool {
	image := r.server.variables["binlog_row_image"]
	return !strings.EqualFold(image, "FULL") || r.server.variables["binlog_row_value_options"] != ""
}

// fillIn completes the images of the current row. What is not known of it stays absent.
func (s *stream) fillIn(ctx context.Context, r *relation, e *binlog.Event) error {
	op := e.Rows.Op
	if op == event.OpCreate || !state.Lacks(r.before) && (op == event.OpDelete || !state.Lacks(r.after)) {
		return nil
	}
	if r.completer == nil {
		silent, err := s.silent(ctx, r)
		if err != nil {
			return err
		}
		r.completer = state.NewCompleter(r.Schema, silent)
	}
	t := s.tracks(r)
	var old event.Row
	if t != nil && state.Incomplete(op, r.before) {
		if !t.on {
			if err := s.track(r, t); err != nil {
				return err
			}
			if err := s.prefetchRest(ctx, e); err != nil {
				return err
			}
		}
		var err error
		if old, err = s.rowBefore(ctx, r); err != nil {
			return err
		}
	}
	return s.completed(r, t, op, old, e.Rows.Diffs)
}

// completed completes the images from the row as it was, nil if that is not known.
func (s *stream) completed(r *relation, t *tracked, op event.Op, old event.Row, diffs []binlog.Diff) error {
	var err error
	if op == event.OpDelete {
		err = r.completer.Delete(r.before, old)
	} else {
		err = r.completer.Update(r.before, r.after, old, diffs)
	}
	var drift *state.DriftError
	if !errors.As(err, &drift) {
		return err
	}
	if !t.drifted {
		t.drifted = true
		s.run.warn(fmt.Sprintf("table %s, change at %s: %v. Columns that the source does not send stay absent where that is so. "+
			"The log has missed changes, or the source was changed without its binlog: load the table again", r.Collection, s.Where(), drift))
	}
	return nil
}

// track begins to keep a table's changes, if none that may be needed was not kept.
func (s *stream) track(r *relation, t *tracked) error {
	if t.last > s.run.committedEvents() {
		return &trackError{r.Collection}
	}
	t.on = true
	return nil
}

// keep notes what a change that was written made of a row.
func (s *stream) keep(r *relation, op event.Op) error {
	t := s.tracks(r)
	if t == nil {
		return nil
	}
	if !t.on {
		t.last = s.Events
		return nil
	}
	c := s.state
	c.kept.Committed(s.run.committedEvents())
	var err error
	if op == event.OpDelete || op == event.OpUpdate && r.KeyChanged(r.before, r.after) {
		if c.key, _, err = r.Encoder.AppendKey(c.key[:0], r.before); err != nil {
			return err
		}
		c.kept.Set(r.Collection, c.key, state.Row{Commit: s.Pos.Commit}, s.Events)
	}
	if op != event.OpDelete {
		if c.key, _, err = r.Encoder.AppendKey(c.key[:0], r.after); err != nil {
			return err
		}
		c.kept.Set(r.Collection, c.key, state.Row{Schema: r.Schema, Columns: r.after, Commit: s.Pos.Commit}, s.Events)
	}
	return nil
}

// rowBefore is the row as it was before the current change, nil if that is not known. It is valid until the next row.
func (s *stream) rowBefore(ctx context.Context, r *relation) (event.Row, error) {
	c := s.state
	var keyed bool
	var err error
	if c.key, keyed, err = r.Encoder.AppendKey(c.key[:0], r.before); err != nil || !keyed {
		return nil, nil //nolint:nilerr // an image without its key: whoever writes the event tells
	}
	c.kept.Committed(s.run.committedEvents())
	row, found := c.kept.Get(r.Collection, c.key)
	if found == state.Unknown {
		if err := s.ask(ctx, &r.Table, [][]byte{append([]byte{}, c.key...)}); err != nil {
			return nil, err
		}
		row, found = c.kept.Get(r.Collection, c.key)
	}
	if found != state.Known || row.Columns == nil || s.repair.stale(r.Collection, row.Commit) {
		return nil, nil
	}
	if cap(c.fit) < len(r.Schema.Columns) {
		c.fit = make(event.Row, len(r.Schema.Columns))
	}
	c.fit = c.fit[:len(r.Schema.Columns)]
	s.point.trust.Fit(c.fit, r.Schema, row)
	return c.fit, nil
}

// awaitLoad waits for what a load told to be committed: the views do not have it before. Its mark is forced, so nothing else has to come.
func (s *stream) awaitLoad(ctx context.Context) error {
	if !s.state.loading {
		return nil
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	s.state.loading = false
	return s.Room(ctx)
}

// ask asks the views for rows, which are kept then.
func (s *stream) ask(ctx context.Context, t *connectors.Table, keys [][]byte) error {
	c := s.state
	if err := s.awaitLoad(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	told := make([]bool, len(keys))
	var later []heldRow // of versions that are not known yet
	err := c.rows.Latest(ctx, t.Topic, keys, s.Writer.Committed(t.Topic), func(i int, r connectors.StateRow) error {
		told[i] = true
		if r.Deleted {
			c.kept.Learn(t.Collection, keys[i], state.Row{})
			return nil
		}
		pos, err := event.ParsePosition(r.Place)
		if err != nil || pos.Schema == 0 {
			return nil //nolint:nilerr // no row of a connector, or of a newer one: nothing is known of it
		}
		if _, known := c.decoders[pos.Schema]; !known && pos.Schema != t.Schema.ID {
			later = append(later, heldRow{keys[i], append([]byte{}, r.Value...), pos})
			return nil
		}
		return s.learn(t, keys[i], r.Value, pos)
	})
	if err != nil {
		return fmt.Errorf("ask for rows of table %s as the log has them: %w", t.Collection, err)
	}
	for i, k := range keys {
		if !told[i] {
			c.kept.Learn(t.Collection, k, state.Row{})
		}
	}
	for _, h := range later {
		if err := s.decoderOf(ctx, t.Collection, h.pos.Schema); err != nil {
			return err
		}
		if err := s.learn(t, h.key, h.value, h.pos); err != nil {
			return err
		}
	}
	return nil
}

type heldRow struct {
	key, value []byte
	pos        event.Position
}

// learn keeps a row of the log. One that cannot be read is not known.
func (s *stream) learn(t *connectors.Table, key, value []byte, pos event.Position) error {
	c := s.state
	d := c.decoders[pos.Schema]
	if d == nil && pos.Schema == t.Schema.ID {
		var err error
		if d, err = event.NewDecoder(t.Schema); err != nil {
			return err
		}
		c.decoders[pos.Schema] = d
	}
	if d == nil {
		return nil
	}
	change, err := d.Decode(value, pos)
	if err != nil {
		s.run.warn(fmt.Sprintf("table %s: a row of topic %s cannot be read, so that columns that the source does not send stay absent: %v", t.Collection, t.Topic, err))
		return nil
	}
	if change.After != nil {
		c.kept.Learn(t.Collection, key, state.Row{Schema: d.Schema(), Columns: change.After, Commit: pos.Commit})
	}
	return nil
}

// decoderOf finds a version of a table in the log.
func (s *stream) decoderOf(ctx context.Context, collection string, id uint64) error {
	c := s.state
	if _, known := c.decoders[id]; known {
		return nil
	}
	if len(c.decoders) >= maxDecoders {
		clear(c.decoders)
	}
	c.decoders[id] = nil
	topic := s.config.Prefix + ".schema"
	key := event.AppendSchemaKey(nil, collection, id)
	return c.rows.Latest(ctx, topic, [][]byte{key}, s.Writer.Committed(topic), func(_ int, r connectors.StateRow) error {
		if r.Deleted {
			return nil
		}
		schema, err := event.ParseSchema(r.Value)
		if err != nil {
			return fmt.Errorf("read a version of table %s in topic %s: %w", collection, topic, err)
		}
		d, err := event.NewDecoder(schema)
		c.decoders[id] = d
		return err
	})
}

// told notes a row that a load tells. What is kept of it may lack columns that the load has.
func (s *stream) told(t *connectors.Table, row event.Row) error {
	c := s.state
	if c.kept == nil || c.kept.Size() == 0 || len(t.Keys) == 0 {
		return nil
	}
	var err error
	if c.key, _, err = t.Encoder.AppendKey(c.key[:0], row); err != nil {
		return err
	}
	c.kept.Replace(t.Collection, c.key, state.Row{Schema: t.Schema, Columns: row, Commit: s.Pos.Commit})
	return nil
}

// emptied notes a statement that empties a table.
func (s *stream) emptied(name ddl.TableName) {
	collection := name.Database + "." + name.Table
	if s.state.kept != nil {
		s.state.kept.Truncate(collection, s.Events)
	}
	if !s.config.SkipTruncate && s.config.captures(name.Database, name.Table) {
		s.trust(s.point.trust.Emptied(collection))
	}
}

func (s *stream) trust(t *state.Trust) {
	if t != s.point.trust {
		next := *s.point
		next.trust = t
		s.point = &next
	}
}

// distrust notes what a statement does to columns of captured tables: what the log has of them is of what they were before.
func (s *stream) distrust(e *ddl.Effect, failed bool) {
	columns, all := e.Touched()
	if failed && (e.Kind == ddl.AlterTable || e.Kind == ddl.RenameTable) {
		columns, all = nil, true // it did a part of it
	}
	if !all && len(columns) == 0 {
		return
	}
	at := s.Pos.Commit
	if e.Any {
		s.trust(s.point.trust.All(at))
		return
	}
	fold := s.run.server.variables["lower_case_table_names"] != "0"
	change := func(n ddl.TableName, columns ...string) {
		if fold {
			n.Database, n.Table = strings.ToLower(n.Database), strings.ToLower(n.Table)
		}
		if s.config.captures(n.Database, n.Table) {
			s.trust(s.point.trust.Changed(at, n.Database+"."+n.Table, columns...))
		}
	}
	if !all {
		change(e.Tables[0], columns...)
		return
	}
	if e.Kind != ddl.RenameTable { // whose sources are gone
		for _, n := range e.Tables {
			change(n)
		}
	}
	for _, n := range e.Doubt {
		change(n)
	}
	for _, r := range e.Renames {
		change(r.To)
	}
}
