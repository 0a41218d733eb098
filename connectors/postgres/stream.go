package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

// sendGap is the least time between two batches that are not full, and so between two small commits.
const sendGap = 2 * time.Millisecond

// errNewTable ends a run so that the next one loads a table that the stream has begun to deliver.
var errNewTable = errors.New("a table is new: it is loaded first")

// stream decodes the replication stream into batches. It belongs to one goroutine.
type stream struct {
	emitter
	side      func(context.Context) (*pgconn.PgConn, error) // catalog lookups
	relations map[uint32]*relation
	loaded    loads
	needLoad  bool // a captured table must be in loaded
	resume    lsn  // transactions that committed before it are in the log

	// The open source transaction.
	open     bool
	skip     bool // it is in the log already
	began    bool // its BEGIN record is written
	begin    beginMessage
	id       []byte
	serial   uint64
	touched  []*relation
	counts   []event.CollectionCount
	previous lsn // commit LSN of the last transaction, for source.sequence

	events, txs uint64
	seen        atomic.Uint64 // events, for the status
	since       atomic.Int64  // commit time of the first transaction after all was committed
	committed   func() uint64 // events that are committed
	marked      lsn           // confirm position of the last mark
	markedAt    time.Time
	idleEvery   time.Duration
	messages    *event.MessageEncoder
}

// run decodes chunks until ctx ends or something cannot be decoded.
func (s *stream) run(ctx context.Context, in *receiver) error {
	var beat <-chan time.Time
	if s.config.HeartbeatInterval > 0 {
		ticker := time.NewTicker(s.config.HeartbeatInterval)
		defer ticker.Stop()
		beat = ticker.C
	}
	pace := time.NewTimer(sendGap)
	defer pace.Stop()
	var sent time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pace.C:
		case <-s.writer.Ready():
		case <-beat:
			if err := s.heartbeat(ctx); err != nil {
				return err
			}
		case chunk := <-in.chunks:
			s.touch()
			if err := s.chunk(ctx, chunk); err != nil {
				return err
			}
			in.release(chunk)
			s.seen.Store(s.events)
		}
		// With nothing more to read, what there is goes out as soon as the writer has time for it: at once after a quiet
		// moment, together with what follows in a dense stream.
		if s.batch == nil || len(in.chunks) > 0 || s.writer.Busy() {
			continue
		}
		if wait := sendGap - time.Since(sent); wait > 0 {
			pace.Reset(wait)
			continue
		}
		sent = time.Now()
		if err := s.send(ctx); err != nil {
			return err
		}
	}
}

func (s *stream) chunk(ctx context.Context, chunk []byte) error {
	for at := 0; at < len(chunk); {
		size := 1 + int(binary.BigEndian.Uint32(chunk[at+1:]))
		body := chunk[at+frameHead : at+size]
		if chunk[at] == 'd' && len(body) > 0 {
			if err := s.frame(ctx, body); err != nil {
				return err
			}
		}
		at += size
	}
	return nil
}

func (s *stream) frame(ctx context.Context, body []byte) error {
	switch body[0] {
	case 'w':
		if len(body) <= xlogHead {
			return fmt.Errorf("read replication stream: WAL message of %d bytes", len(body))
		}
		at := lsn(binary.BigEndian.Uint64(body[1:]))
		if err := s.message(ctx, at, body[xlogHead:]); err != nil {
			return s.place(at, body[xlogHead], err)
		}
		return nil
	case 'k':
		if len(body) != 18 {
			return fmt.Errorf("read replication stream: keepalive of %d bytes", len(body))
		}
		return s.idle(ctx, lsn(binary.BigEndian.Uint64(body[1:])))
	}
	return &connectors.Fault{Problem: fmt.Sprintf("the server sent unknown replication message %q", body[0]), Remedy: "report this with the server's version"}
}

// place adds where a message stands. What a restart would meet again needs a person (invariant 7).
func (s *stream) place(at lsn, kind byte, err error) error {
	if connectors.IsFault(err) || errors.Is(err, errNewTable) || errors.Is(err, context.Canceled) {
		return err
	}
	var malformed *malformedError
	if errors.As(err, &malformed) {
		return &connectors.Fault{
			Problem: fmt.Sprintf("message %q at %s cannot be decoded", kind, at), Err: malformed.err,
			Remedy: "report this with the server's version; the connector goes on from there once it can decode it",
		}
	}
	return fmt.Errorf("capture message %q at %s: %w", kind, at, err)
}

// malformedError is a message that does not follow the protocol.
type malformedError struct{ err error }

func (e *malformedError) Error() string { return e.err.Error() }
func (e *malformedError) Unwrap() error { return e.err }

func malformed(err error) error {
	if err == nil {
		return nil
	}
	return &malformedError{err}
}

func (s *stream) message(ctx context.Context, at lsn, b []byte) error {
	kind, b := b[0], b[1:]
	switch kind {
	case 'I', 'U', 'D', 'T':
		if !s.open {
			return malformed(errors.New("change outside a transaction"))
		}
		if s.skip {
			return nil
		}
		s.meta.LSN = uint64(at)
		switch kind {
		case 'I':
			return s.insert(ctx, b)
		case 'U':
			return s.update(ctx, b)
		case 'D':
			return s.delete(ctx, b)
		}
		return s.truncated(ctx, b)
	case 'B':
		return s.beginTransaction(b)
	case 'C':
		return s.commitTransaction(ctx, b)
	case 'R':
		return s.relation(ctx, b)
	case 'O':
		m, err := parseOrigin(b)
		s.meta.Origin, s.meta.OriginLSN = m.name, uint64(m.commit)
		return malformed(err)
	case 'Y': // types are read from the catalog
		return nil
	case 'A': // Postgres 18 sends a stray abort for what protocol 1 never began to stream (P13)
		return nil
	case 'M':
		return s.logical(ctx, at, b)
	}
	return malformed(errors.New("unknown message type"))
}

func (s *stream) beginTransaction(b []byte) error {
	m, err := parseBegin(b)
	if err != nil {
		return malformed(err)
	}
	if s.open {
		return malformed(errors.New("transaction begins inside another"))
	}
	// P1: only the commit record's place decides; LSNs of changes overlap between transactions.
	s.open, s.skip, s.began = true, m.commit < s.resume, false
	s.begin = m
	s.serial++
	s.touched = s.touched[:0]
	if s.committed() == s.events {
		s.since.Store(m.timeUs)
	}
	s.meta = event.Meta{TsMs: s.meta.TsMs, SourceTsUs: m.timeUs, TxID: m.xid, LastCommit: uint64(s.previous)}
	s.pos = event.Position{Commit: uint64(m.commit), CommitTime: m.timeUs}
	s.id = event.AppendTransactionID(s.id[:0], m.xid, uint64(m.commit))
	return nil
}

func (s *stream) commitTransaction(ctx context.Context, b []byte) error {
	m, err := parseCommit(b)
	if err != nil {
		return malformed(err)
	}
	if !s.open || m.commit != s.begin.commit {
		return malformed(fmt.Errorf("commit of %s inside the transaction of %s", m.commit, s.begin.commit))
	}
	s.open = false
	if s.skip {
		return nil
	}
	if s.pos.Order > 0 {
		if err := s.transactionRecord(ctx, event.TransactionEndMark); err != nil {
			return err
		}
		s.txs++
	}
	s.previous = m.commit
	if err := s.room(ctx); err != nil {
		return err
	}
	s.mark(m.end, m.timeUs, false)
	return nil
}

// mark places a mark after a whole transaction.
func (s *stream) mark(confirm lsn, timeUs int64, force bool) {
	s.batch.Mark(connectors.Mark{
		Order: uint64(s.previous), Confirm: uint64(confirm), TimeUs: timeUs, Events: s.events, Txs: s.txs,
		Resume: s.loaded, Force: force,
	})
	s.marked, s.markedAt = confirm, s.now
}

// transactionRecord writes BEGIN or END (invariant 5: by END a reader knows that it has all).
func (s *stream) transactionRecord(ctx context.Context, status string) error {
	if err := s.room(ctx); err != nil {
		return err
	}
	t := event.TransactionEnd{Status: status, ID: string(s.id), TsMs: s.begin.timeUs / 1000}
	if status == event.TransactionEndMark {
		s.counts = s.counts[:0]
		for _, r := range s.touched {
			s.counts = append(s.counts, event.CollectionCount{Collection: r.collection, Count: int64(r.count)})
		}
		t.EventCount, t.Collections = int64(s.pos.Order), s.counts
	}
	buf := s.batch.Buf()
	key := span{from: len(buf)}
	buf = t.AppendKey(buf, s.config.Event.SchemasEnable)
	key.to = len(buf)
	value := span{from: len(buf)}
	buf = t.AppendValue(buf, s.config.Event.SchemasEnable)
	value.to = len(buf)
	head := span{from: len(buf)}
	buf = event.Position{Commit: s.pos.Commit, CommitTime: s.pos.CommitTime}.Append(buf)
	head.to = len(buf)
	s.batch.Keep(buf)
	s.batch.Header(event.PositionHeader, head.of(buf))
	s.batch.Record(s.config.Prefix+".transaction", 0, key.of(buf), value.of(buf), s.now)
	return nil
}

// idle takes a keepalive: with nothing open, all that committed below the server's WAL end has been read, so the slot of a
// quiet database can advance past other databases' WAL (P10). The new position goes through the log like any other.
func (s *stream) idle(ctx context.Context, end lsn) error {
	if s.open || end <= s.marked || s.now.Sub(s.markedAt) < s.idleEvery {
		return nil
	}
	if err := s.room(ctx); err != nil {
		return err
	}
	s.mark(end, s.now.UnixMicro(), true)
	return nil
}

// next numbers the event that follows.
func (s *stream) next(r *relation) {
	if r.transaction != s.serial {
		r.transaction, r.count = s.serial, 0
		s.touched = append(s.touched, r)
	}
	r.count++
	s.pos.Order++
	s.pos.CollectionOrder = r.count
	s.events++
	if s.config.TransactionMetadata {
		s.meta.Transaction = &event.Transaction{ID: string(s.id), TotalOrder: s.pos.Order, CollectionOrder: r.count}
	}
}

// table finds the relation of a change; nil means that the change is not captured.
func (s *stream) table(ctx context.Context, id uint32, skipped bool) (*relation, error) {
	r, ok := s.relations[id]
	if !ok {
		return nil, malformed(fmt.Errorf("change of relation %d, which was not described", id))
	}
	if skipped || !r.captured || s.begin.commit < r.point {
		return nil, nil
	}
	if s.config.TransactionMetadata && !s.began {
		s.began = true
		if err := s.transactionRecord(ctx, event.TransactionBegin); err != nil {
			return nil, err
		}
	}
	if err := s.schemaOnce(ctx, r); err != nil {
		return nil, err
	}
	return r, s.room(ctx)
}

func (s *stream) insert(ctx context.Context, b []byte) error {
	in := reader{b: b}
	r, err := s.table(ctx, in.uint32(), s.config.SkipCreate)
	if r == nil || err != nil {
		return err
	}
	if kind := in.uint8(); kind != 'N' {
		return malformed(fmt.Errorf("insert with %q instead of a new row", kind))
	}
	if err := parseTuple(&in, r.pick, r.row, nil); err != nil {
		return malformed(err)
	}
	if err := in.done(); err != nil {
		return malformed(err)
	}
	s.next(r)
	return s.change(r, event.OpCreate, nil, r.row, r.row, r.absentColumns())
}

func (s *stream) update(ctx context.Context, b []byte) error {
	in := reader{b: b}
	r, err := s.table(ctx, in.uint32(), s.config.SkipUpdate)
	if r == nil || err != nil {
		return err
	}
	kind := in.uint8()
	before, err := s.oldRow(&in, r, kind)
	if err != nil {
		return err
	}
	if before {
		kind = in.uint8()
	}
	if kind != 'N' {
		return malformed(fmt.Errorf("update with %q instead of a new row", kind))
	}
	if err := parseTuple(&in, r.pick, r.row, nil); err != nil {
		return malformed(err)
	}
	if err := in.done(); err != nil {
		return malformed(err)
	}
	if !before {
		s.next(r)
		return s.change(r, event.OpUpdate, nil, r.row, r.row, r.absentColumns())
	}
	r.fill()
	if r.keyChanged() {
		s.next(r)
		return s.rekey(r, func() { s.next(r) })
	}
	s.next(r)
	old := r.old
	if r.message.identity != identityFull {
		old = nil // P8: a bare key is not the row as it was
	}
	return s.change(r, event.OpUpdate, old, r.row, r.row, r.absentColumns())
}

// oldRow reads the row before the change, if there is one.
func (s *stream) oldRow(in *reader, r *relation, kind byte) (bool, error) {
	switch kind {
	case 'O':
		return true, malformed(parseTuple(in, r.pick, r.old, nil))
	case 'K':
		return true, malformed(parseTuple(in, r.pick, r.old, r.oldKey))
	}
	return false, nil
}

func (s *stream) delete(ctx context.Context, b []byte) error {
	in := reader{b: b}
	r, err := s.table(ctx, in.uint32(), s.config.SkipDelete)
	if r == nil || err != nil {
		return err
	}
	kind := in.uint8()
	before, err := s.oldRow(&in, r, kind)
	if err != nil {
		return err
	}
	if !before {
		return malformed(fmt.Errorf("delete with %q instead of an old row", kind))
	}
	if err := in.done(); err != nil {
		return malformed(err)
	}
	s.next(r)
	return s.change(r, event.OpDelete, r.old, nil, r.old, nil)
}

func (s *stream) truncated(ctx context.Context, b []byte) error {
	ids, err := parseTruncate(b)
	if err != nil {
		return malformed(err)
	}
	for _, id := range ids {
		r, err := s.table(ctx, id, s.config.SkipTruncate)
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		s.next(r)
		if err := s.truncate(r); err != nil {
			return err
		}
	}
	return nil
}

// relation takes a table's description, which precedes its first change and every change of its shape.
func (s *stream) relation(ctx context.Context, b []byte) error {
	m, err := parseRelation(b)
	if err != nil {
		return malformed(err)
	}
	if !s.config.captures(m.schema, m.name) {
		s.relations[m.id] = &relation{message: m}
		return nil
	}
	conn, err := s.side(ctx)
	if err != nil {
		return err
	}
	tables, err := s.config.captured(ctx, conn, m.id)
	if err != nil {
		return err
	}
	var now *table
	if len(tables) > 0 {
		now = tables[0]
	}
	name := m.schema + "." + m.name
	if s.needLoad && now != nil && now.String() == name && !s.loaded.has(name, m.id) {
		return fmt.Errorf("table %s: %w", name, errNewTable)
	}
	r, err := s.config.describe(ctx, conn, m, now)
	if err != nil {
		return err
	}
	r.point = s.loaded[name].at // also of changes to a table that another one of its name has replaced
	old := s.relations[m.id]
	if old != nil {
		r.transaction, r.count = old.transaction, old.count
		for i, t := range s.touched {
			if t == old {
				s.touched[i] = r
			}
		}
	}
	if r.partitions, err = s.writer.EnsureTopic(ctx, r.topic, connectors.TopicData); err != nil {
		return err
	}
	s.relations[m.id] = r
	return nil
}

// statusInterval keeps well inside the server's timeout (P12).
func statusInterval(configured time.Duration, walSenderTimeoutMs int) time.Duration {
	limit := time.Duration(math.MaxInt64)
	if walSenderTimeoutMs > 0 {
		limit = time.Duration(walSenderTimeoutMs) * time.Millisecond / 4
	}
	return max(min(configured, limit), 10*time.Millisecond)
}
