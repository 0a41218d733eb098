package mysql

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
	"github.com/rowtrail/rowtrail/connectors/mysql/schema"
	"github.com/rowtrail/rowtrail/connectors/park"
	"github.com/rowtrail/rowtrail/connectors/raw"
	"github.com/rowtrail/rowtrail/log/fields"
)

// keptVersion begins every record that is kept of a parked table, but for changes: its form is read again by later builds.
const keptVersion = 1

// Kinds of kept changes.
const (
	keptRows     = 'r' // an event of rows, as it came
	keptTruncate = 't'
	keptUnlogged = 'q' // a statement that was logged without its rows
)

// kept is what the stream knows of the table that is being unparked.
type kept struct {
	relations map[*binlog.Table]*relation // as they were when its changes came
	last      *relation
	meta      event.Meta // of the transaction that is being written again
	name      string     // its name
}

// keptColumn is a column as it was when a table map came (M1).
type keptColumn struct {
	Name    string           `json:"name"`
	Facts   event.MySQLFacts `json:"facts"`
	NotNull bool             `json:"notNull,omitempty"`
}

// keptTable describes a table's rows; nil: it was not known.
type keptTable struct {
	Columns []keptColumn `json:"columns"`
	Primary []string     `json:"primary,omitempty"`
	Unique  []string     `json:"unique,omitempty"`
}

// keep is a table as the schema history has it where its changes came.
func keep(b *schema.Book, t *ddl.Table) *keptTable {
	k := &keptTable{Primary: t.PrimaryKey()}
	for i := range t.Columns {
		c := &t.Columns[i]
		k.Columns = append(k.Columns, keptColumn{c.Name, b.Facts(*c), !c.Nullable})
	}
	return k
}

func (k *keptTable) table(schema, name string) *table {
	if k == nil {
		return nil
	}
	t := &table{schema: schema, name: name, primary: k.Primary, unique: k.Unique}
	for _, c := range k.Columns {
		t.columns = append(t.columns, column{name: c.Name, facts: c.Facts, notNull: c.NotNull})
	}
	return t
}

// parkedRelation is the version of a parked table that a table map is of: it is not described, but kept with all that describes it.
func (s *stream) parkedRelation(ctx context.Context, t *binlog.Table) (*relation, error) {
	r := &relation{schema: t.Schema, name: t.Name}
	r.Collection = t.Collection()
	var then *keptTable // nil: nothing but the table map tells
	d, err := s.description(ctx, t)
	if err != nil && !connectors.IsFault(err) {
		return nil, err
	}
	if err == nil && d.Whole {
		known, _ := s.run.history.book.Known(d.Name)
		then = keep(s.run.history.book, known)
	}
	text, err := json.Marshal(then)
	if err != nil {
		return nil, fmt.Errorf("encode what the catalog tells of table %s: %w", r.Collection, err)
	}
	r.parked = &park.Context{Raw: t.AppendRaw(fields.AppendBytes([]byte{keptVersion}, text))}
	return r, nil
}

// keepRows keeps an event of rows.
func (s *stream) keepRows(ctx context.Context, r *relation, e *binlog.Event) error {
	if !e.Inner {
		s.Meta.Binlog.Pos = e.End - min(e.End, uint64(e.Header.Size))
	}
	return s.keepChange(ctx, r.Collection, r.parked, keptRows, e.AppendRaw)
}

// keepChange keeps a change of a parked table.
func (s *stream) keepChange(ctx context.Context, collection string, c *park.Context, kind byte, change func([]byte) []byte) error {
	if s.parking.Owes(collection) {
		return nil // the load will have it
	}
	return s.parking.Keep(ctx, &s.Emitter, collection, s.keptTransaction, c, func(dst []byte) []byte {
		dst = binary.AppendUvarint(append(dst, kind), s.Meta.Binlog.Pos)
		return change(fields.AppendBytes(dst, s.Meta.Binlog.Query))
	})
}

// keptTransaction describes the open source transaction.
func (s *stream) keptTransaction(dst []byte) []byte {
	b := &s.Meta.Binlog
	dst = binary.AppendVarint(append(dst, keptVersion), s.Meta.SourceTsUs)
	dst = binary.AppendUvarint(dst, uint64(b.ServerID))
	dst = binary.AppendUvarint(dst, b.Thread)
	for _, text := range []string{b.GTID, b.File, s.group.name} {
		dst = fields.AppendBytes(dst, text)
	}
	return dst
}

// Place is park.Source's. Positions are counted by the connector itself.
func (s *stream) Place() (event.Position, uint64) {
	s.Touch()
	return event.Position{Commit: s.point.commits + 1, CommitTime: s.Now.UnixMicro()}, 1 << 20
}

// Mark is park.Source's.
func (s *stream) Mark(ctx context.Context, own bool) error {
	if own {
		next := *s.point
		next.commits++
		s.point = &next
		s.txs++
	}
	return s.placeMark(ctx, !own)
}

// Loads is park.Source's.
func (s *stream) Loads() bool { return s.config.Snapshot != SnapshotNoData }

// Live is park.Source's.
func (s *stream) Live(ctx context.Context, name string, load bool) (after, err error) {
	s.kept = kept{}
	for t, r := range s.relations {
		if r != nil && r.Collection == name {
			delete(s.relations, t)
		}
	}
	if !load {
		return nil, nil
	}
	return nil, s.loadAgain(ctx, name)
}

// Rewrite is park.Source's.
func (s *stream) Rewrite(ctx context.Context, collection string, kind park.Kind, record []byte) error {
	err := s.rewrite(ctx, collection, kind, record)
	var bad *malformedError
	var column *binlog.ColumnError
	_, refused := errorOfBinlog(err)
	switch {
	case errors.As(err, &column):
		return columnFault("a row of transaction "+s.kept.name+", which waited,", column)
	case errors.As(err, &bad), refused:
		return &connectors.Fault{
			Problem: fmt.Sprintf("what waits of table %s cannot be decoded, in transaction %s", collection, s.kept.name), Err: err, Collection: collection,
			Remedy: "report this with the server's version; once a build can decode it, unpark the table again, or load it again with --reload",
		}
	}
	return err
}

func (s *stream) rewrite(ctx context.Context, collection string, kind park.Kind, record []byte) error {
	r := fields.Read(record)
	switch kind {
	case park.KindTransaction:
		if r.Byte() != keptVersion {
			return malformed("it is of another version of Rowtrail")
		}
		m := event.Meta{SourceTsUs: r.Varint()}
		m.Binlog = event.Binlog{ServerID: uint32(r.Uvarint()), Thread: r.Uvarint(), GTID: string(r.Bytes()), File: string(r.Bytes())} //nolint:gosec // written from one
		s.kept.meta, s.kept.name = m, string(r.Bytes())
		if !r.Done() {
			return malformed("bytes are missing")
		}
		return nil
	case park.KindContext:
		return s.rewriteContext(ctx, record)
	case park.KindChange:
	default:
		return malformed("a record of kind %d", kind)
	}
	change, pos, query := r.Byte(), r.Uvarint(), string(r.Bytes())
	if !r.OK() {
		return malformed("bytes are missing")
	}
	m := s.kept.meta
	m.TsMs, m.Binlog.Pos, m.Binlog.Query = s.Meta.TsMs, pos, query
	s.Meta, s.Pos.CommitTime = m, m.SourceTsUs
	rest := record[len(record)-r.Len():]
	switch change {
	case keptRows:
		e, err := s.decoder.Replay(rest)
		if err != nil {
			return err
		}
		rel := s.kept.relations[e.Rows.Table]
		if rel == nil {
			return malformed("rows of a table that was not described")
		}
		return s.write(ctx, e, rel, nil)
	case keptTruncate:
		return s.rewriteTruncate(ctx, collection)
	case keptUnlogged:
		return s.unloggedFault(collection, string(rest))
	}
	return malformed("a change of kind %d", change)
}

// rewriteContext describes a table as it was then, for what the configuration is now.
func (s *stream) rewriteContext(ctx context.Context, record []byte) error {
	r := fields.Read(record)
	if r.Byte() != keptVersion {
		return malformed("it is of another version of Rowtrail")
	}
	text := r.Bytes()
	var k *keptTable
	if !r.OK() || json.Unmarshal(text, &k) != nil {
		return malformed("what the catalog told")
	}
	e, err := s.decoder.Replay(record[len(record)-r.Len():])
	if err != nil {
		return err
	}
	rel, err := s.config.describe(&s.charsets, e.Table, k.table(e.Table.Schema, e.Table.Name))
	if err != nil {
		return err
	}
	if err := s.Writer.EnsureTable(ctx, &rel.Table); err != nil {
		return err
	}
	if s.kept.relations == nil {
		s.kept.relations = map[*binlog.Table]*relation{}
	}
	s.kept.relations[e.Table], s.kept.last = rel, rel
	return nil
}

// rewriteTruncate writes a truncate, by the table's last version before it if there is one.
func (s *stream) rewriteTruncate(ctx context.Context, collection string) error {
	if s.config.SkipTruncate {
		return nil
	}
	var t *connectors.Table
	if s.kept.last != nil {
		t = &s.kept.last.Table
	} else {
		database, name, _ := strings.Cut(collection, ".")
		var err error
		if t, err = s.lastVersion(ctx, ddl.TableName{Database: database, Table: name}); err != nil {
			return err
		}
		if err := s.Writer.EnsureTable(ctx, t); err != nil {
			return err
		}
	}
	if err := s.Prepare(ctx, t); err != nil {
		return err
	}
	s.Next(t)
	return s.Truncate(t)
}

// loadAgain loads a table beside the stream, after a truncate of what its topic has.
func (s *stream) loadAgain(ctx context.Context, collection string) error {
	l := s.loader
	database, name, _ := strings.Cut(collection, ".")
	now, err := s.run.lookUp(ctx, database, name)
	if now == nil || err != nil { // it is gone: the statement that did that is in the stream, or was
		return err
	}
	l.dirty = true
	delete(l.held, now.id())
	if err := l.add(ctx, now, "", ""); err != nil {
		return err
	}
	holds, err := s.Writer.HoldsRecords(ctx, l.tables[collection].Topic)
	if err != nil {
		return err
	}
	if holds {
		if err := s.clear(ctx, l.tables[collection]); err != nil {
			return err
		}
	}
	s.run.tracker.SetState(connectors.StateLoading, nil)
	return s.keepLoad()
}

// park takes up what is parked, with the tables that turned out to be unfit.
func (r *run) park(unfit []connectors.Finding) error {
	var saved *park.Tables
	held := tableSet{}
	if r.resume != nil {
		saved = r.resume.point.parked
		var err error
		if held, err = parseTableSet(r.resume.point.held); err != nil {
			return err
		}
	}
	owed := func(name string) bool {
		database, table, _ := strings.Cut(name, ".")
		counted := r.resume == nil || r.resume.point.held != nil
		return r.config.Snapshot != SnapshotNoData && counted && !held[ddl.TableName{Database: database, Table: table}]
	}
	r.isolation.Restore(saved)
	if err := r.isolation.Unfit(unfit, r.resume != nil); err != nil {
		return err
	}
	captured := func(name string) bool {
		database, table, _ := strings.Cut(name, ".")
		return r.config.captures(database, table)
	}
	var err error
	r.parking, err = r.isolation.Begin(captured, owed, func() (*raw.Store, error) { return r.raw, nil })
	return err
}
