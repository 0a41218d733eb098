package postgres

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/park"
	"github.com/rowtrail/rowtrail/connectors/raw"
	"github.com/rowtrail/rowtrail/log/fields"
)

// keptVersion begins every record that is kept of a parked table: its form is read again by later builds.
const keptVersion = 1

// kept is what the stream knows of records of parked tables.
type kept struct {
	relations map[uint32]*relation // of the table that is being unparked, as they were when its changes came
	tx        keptTransaction      // that is being written again
	at        lsn                  // of our own transaction that it is written in
	writing   bool
}

// keptTransaction is what the events of a source transaction say of it.
type keptTransaction struct {
	commit, last, origin uint64
	timeUs               int64
	xid                  uint32
	name                 string // of the origin
}

func (t *keptTransaction) append(dst []byte) []byte {
	dst = binary.AppendUvarint(append(dst, keptVersion), t.commit)
	dst = binary.AppendVarint(dst, t.timeUs)
	dst = binary.AppendUvarint(dst, uint64(t.xid))
	dst = binary.AppendUvarint(dst, t.last)
	dst = binary.AppendUvarint(dst, t.origin)
	return fields.AppendBytes(dst, t.name)
}

func (t *keptTransaction) parse(r *fields.Reader) {
	*t = keptTransaction{commit: r.Uvarint(), timeUs: r.Varint(), xid: uint32(r.Uvarint()), last: r.Uvarint(), origin: r.Uvarint(), name: string(r.Bytes())} //nolint:gosec // written from one
}

// keptContext is what the catalog told when a relation message came: later it may tell something else (P18).
type keptContext struct {
	Facts []keptType `json:"facts"`
	Table *keptTable `json:"table"` // nil: it was gone
}

type keptType struct {
	OID      uint32          `json:"oid"`
	Modifier int32           `json:"modifier"`
	Facts    event.TypeFacts `json:"facts"`
}

// keptTable is the part of a table that describes its relation messages.
type keptTable struct {
	PrimaryKey  []string     `json:"primaryKey,omitempty"`
	IdentityKey []string     `json:"identityKey,omitempty"`
	Columns     []keptColumn `json:"columns"`
}

type keptColumn struct {
	Name     string  `json:"name"`
	Type     uint32  `json:"type"`
	NotNull  bool    `json:"notNull,omitempty"`
	Number   int     `json:"number"`
	Missing  *string `json:"missing,omitempty"`
	Defaults bool    `json:"defaults,omitempty"`
}

func keep(t *table) *keptTable {
	if t == nil {
		return nil
	}
	k := &keptTable{PrimaryKey: t.primaryKey, IdentityKey: t.identityKey}
	for _, c := range t.columns {
		k.Columns = append(k.Columns, keptColumn{c.name, c.typeOID, c.notNull, c.number, c.missing, c.defaults})
	}
	return k
}

func (k *keptTable) table(m *relationMessage) *table {
	if k == nil {
		return nil
	}
	t := &table{oid: m.id, schema: m.schema, name: m.name, identity: m.identity, primaryKey: k.PrimaryKey, identityKey: k.IdentityKey}
	for _, c := range k.Columns {
		t.columns = append(t.columns, column{name: c.Name, typeOID: c.Type, notNull: c.NotNull, number: c.Number, missing: c.Missing, defaults: c.Defaults})
	}
	return t
}

// relationKept takes the description of a parked table, with all that it takes to decode its changes later.
func (s *stream) relationKept(ctx context.Context, m relationMessage, b []byte) error {
	name := m.schema + "." + m.name
	r := &relation{message: m, point: s.loaded[name].at}
	s.relations[m.id] = r
	var c keptContext
	err := s.side.use(ctx, func(conn *pgconn.PgConn) error {
		tables, err := s.config.captured(ctx, conn, m.id)
		if err != nil {
			return err
		}
		if len(tables) > 0 && tables[0].String() == name {
			if s.needLoad && !s.loaded.has(name, m.id) {
				// It is loaded when it is unparked, and everything up to then is in that load.
				s.parking.Owe(name)
				return nil
			}
			c.Table = keep(tables[0])
		}
		facts, err := types(ctx, conn, m.types(nil))
		for ref, f := range facts {
			c.Facts = append(c.Facts, keptType{ref.oid, ref.modifier, f})
		}
		r.captured = true
		return err
	})
	if err != nil || !r.captured {
		return err
	}
	r.Collection = name
	text, err := json.Marshal(&c)
	if err != nil {
		return fmt.Errorf("encode what the catalog tells of table %s: %w", name, err)
	}
	r.parked = &park.Context{Raw: append(fields.AppendBytes([]byte{keptVersion}, text), b...)}
	return nil
}

// parkedRelation is the relation of a change of a parked table, else nil.
func (s *stream) parkedRelation(b []byte) *relation {
	if len(b) < 4 {
		return nil
	}
	if r := s.relations[binary.BigEndian.Uint32(b)]; r != nil && r.parked != nil {
		return r
	}
	return nil
}

// truncateOf is what is kept of a TRUNCATE for one of its tables.
func truncateOf(id uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{0, 0, 0, 1, 0}, id)
}

// keep keeps a change of a parked table.
func (s *stream) keep(ctx context.Context, r *relation, kind byte, at lsn, b []byte) error {
	if s.begin.commit < r.point {
		return nil
	}
	return s.parking.Keep(ctx, &s.Emitter, r.Collection, s.keptTransaction, r.parked, func(dst []byte) []byte {
		return append(append(binary.AppendUvarint(dst, uint64(at)), kind), b...)
	})
}

// keptTransaction describes the open source transaction.
func (s *stream) keptTransaction(dst []byte) []byte {
	t := keptTransaction{
		commit: s.Pos.Commit, last: s.Meta.LastCommit, origin: s.Meta.OriginLSN, timeUs: s.Meta.SourceTsUs, xid: s.Meta.TxID, name: s.Meta.Origin,
	}
	return t.append(dst)
}

// state is what a mark has besides the position.
func (s *stream) state() *streamed {
	if now := s.parking.Marked(); s.marks == nil || s.marks.loads != s.encoded || s.marks.parked != now {
		s.marks = &streamed{s.encoded, now}
	}
	return s.marks
}

// boundary is between two source transactions, if it is.
func (s *stream) boundary(ctx context.Context) error {
	if s.open {
		return nil
	}
	return s.parking.Boundary(ctx, &s.Emitter, s)
}

// Place puts a transaction of our own right behind the one before it: a commit record has room for some, and the next one begins
// after the WAL that was read.
func (s *stream) Place() (event.Position, uint64) {
	s.Touch()
	s.kept.at = s.previous
	for _, t := range s.loaded {
		s.kept.at = max(s.kept.at, t.at)
	}
	s.kept.at++
	room := uint64(max(s.marked, s.kept.at) - s.kept.at)
	return event.Position{Commit: uint64(s.kept.at), CommitTime: s.Now.UnixMicro()}, room
}

// Mark is park.Source's.
func (s *stream) Mark(ctx context.Context, own bool) error {
	if err := s.Room(ctx); err != nil {
		return err
	}
	if own {
		s.previous = s.kept.at
		s.txs++
	}
	s.mark(s.marked, s.Now.UnixMicro(), !own)
	return nil
}

// Loads is park.Source's.
func (s *stream) Loads() bool { return s.needLoad }

// Live is park.Source's. A load is one of the next run.
func (s *stream) Live(ctx context.Context, name string, load bool) (after, err error) {
	s.kept.relations = nil
	if load {
		s.loaded = s.loaded.without(name)
		s.encoded = encodeLoads(s.loaded)
		return fmt.Errorf("table %s is unparked: %w", name, errNewTable), nil
	}
	for _, r := range s.relations {
		if r.Collection == name && r.parked != nil {
			if err := s.described(ctx, r.message); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// Rewrite is park.Source's.
func (s *stream) Rewrite(ctx context.Context, collection string, kind park.Kind, record []byte) error {
	err := s.rewrite(ctx, kind, record)
	var bad *malformedError
	if errors.As(err, &bad) {
		return &connectors.Fault{
			Problem: fmt.Sprintf("what waits of table %s cannot be decoded, in the transaction that committed at %s", collection, lsn(s.kept.tx.commit)),
			Err:     bad.err, Collection: collection,
			Remedy: "report this with the server's version; once a build can decode it, unpark the table again, or load it again with --reload",
		}
	}
	return err
}

var errKeptForm = errors.New("it is of another version of Rowtrail")

func (s *stream) rewrite(ctx context.Context, kind park.Kind, record []byte) error {
	r := fields.Read(record)
	switch kind {
	case park.KindTransaction:
		if r.Byte() != keptVersion {
			return malformed(errKeptForm)
		}
		if s.kept.tx.parse(&r); !r.Done() {
			return malformed(errTruncated)
		}
		return nil
	case park.KindContext:
		return s.rewriteContext(ctx, record)
	case park.KindChange:
	default:
		return malformed(errKeptForm)
	}
	t := &s.kept.tx
	at, message := r.Uvarint(), r.Byte()
	if !r.OK() {
		return malformed(errTruncated)
	}
	s.Meta = event.Meta{
		TsMs: s.Meta.TsMs, SourceTsUs: t.timeUs, TxID: t.xid, LSN: at, LastCommit: t.last, Origin: t.name, OriginLSN: t.origin,
	}
	s.Pos.CommitTime = t.timeUs
	live := s.relations
	s.relations, s.kept.writing = s.kept.relations, true // as they were then
	defer func() { s.relations, s.kept.writing = live, false }()
	return s.change(ctx, message, record[len(record)-r.Len():])
}

// rewriteContext describes a table as it was then, for what the configuration is now.
func (s *stream) rewriteContext(ctx context.Context, raw []byte) error {
	r := fields.Read(raw)
	if r.Byte() != keptVersion {
		return malformed(errKeptForm)
	}
	text := r.Bytes()
	var c keptContext
	if !r.OK() || json.Unmarshal(text, &c) != nil {
		return malformed(errTruncated)
	}
	m, err := parseRelation(raw[len(raw)-r.Len():])
	if err != nil {
		return malformed(err)
	}
	facts := make(map[typeRef]event.TypeFacts, len(c.Facts))
	for _, f := range c.Facts {
		facts[typeRef{f.OID, f.Modifier}] = f.Facts
	}
	described, err := s.config.describe(m, c.Table.table(&m), facts)
	if err != nil {
		return err
	}
	if err := s.Writer.EnsureTable(ctx, &described.Table); err != nil {
		return err
	}
	if s.kept.relations == nil {
		s.kept.relations = map[uint32]*relation{}
	}
	s.kept.relations[m.id] = described
	return nil
}

// park takes up what is parked, with the tables that turned out to be unfit.
func (r *run) park(ctx context.Context, unfit []connectors.Finding) error {
	var saved *park.Tables
	var loaded loads
	if r.resume != nil {
		saved, loaded = r.resume.Parked, r.resume.Loaded
	}
	r.isolation.Restore(saved)
	if err := r.isolation.Unfit(unfit, r.resume != nil); err != nil {
		return err
	}
	for _, f := range unfit {
		r.unfit[f.Collection()] = true
	}
	owed := func(name string) bool {
		_, ok := loaded[name]
		return r.config.Snapshot != SnapshotNoData && !ok
	}
	var err error
	r.parking, err = r.isolation.Begin(r.config.capturesName, owed, func() (*raw.Store, error) {
		return raw.Open(ctx, r.writer, r.config.Prefix, func(ctx context.Context) error { return r.stream.settle(ctx) })
	})
	if errors.Is(err, raw.ErrMissing) || errors.Is(err, raw.ErrPiece) {
		return &connectors.Fault{
			Problem: "what waits of parked tables, in topic " + r.config.Prefix + raw.Suffix + ", cannot be read", Err: err,
			Remedy: fmt.Sprintf("bring the topic back; or SELECT pg_drop_replication_slot(%s), delete topics %s.position and %s (`rowtrail topics delete`) and restart the connector: it loads its tables again",
				quoteLiteral(r.config.Slot), r.config.Prefix, r.config.Prefix+raw.Suffix),
		}
	}
	return err
}

// settle commits what was sent, between two source transactions.
func (s *stream) settle(ctx context.Context) error {
	if err := s.Mark(ctx, false); err != nil {
		return err
	}
	if err := s.Send(ctx); err != nil {
		return err
	}
	return s.Writer.Drain(ctx)
}

// fit are the tables that may be published: of others it would harm the source, or nothing could be captured.
func (r *run) fit() []*table {
	var list []*table
	for _, t := range r.in.tables {
		if !r.unfit[t.String()] {
			list = append(list, t)
		}
	}
	return list
}
