package mysql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/raw"
)

// hold is an XA transaction whose rows go into the raw store: they count when its XA COMMIT comes, if ever. MySQL tells at the end only that one is
// committed in one phase, so its rows are held, too, in memory if there are not very many.
type hold struct {
	id      raw.ID
	maps    map[*binlog.Table]bool // those that the store has
	query   string                 // the last statement that it has
	mixed   bool                   // there are rows of tables without transactions: they count at once, whatever becomes of the transaction
	refused bool                   // it cannot be held
	buf     []byte
}

// replay says which of the rows of a hold count.
type replay uint8

const (
	replayAll       replay = iota
	replayImmediate        // of tables without transactions
	replayWaiting          // of the others
)

// changeQuery is a statement among held changes, which else begin with the type of their event.
const changeQuery = 0

// beginHold begins an XA transaction.
func (s *stream) beginHold(ctx context.Context, xid string) error {
	if s.group.skip && s.point.seek == nil {
		return nil
	}
	h := &hold{id: raw.ID{Kind: raw.Transaction, Name: xid}, maps: map[*binlog.Table]bool{}}
	if err := s.supersede(ctx, h.id); err != nil {
		return err
	}
	s.group.hold = h
	return s.run.raw.Begin(ctx, &s.Emitter, h.id)
}

// supersede drops a transaction whose name comes again. The server takes no name twice, so it is over there, and the binlog does not tell how.
func (s *stream) supersede(ctx context.Context, id raw.ID) error {
	if !s.run.raw.Finished(id) {
		return nil
	}
	if s.point.seek == nil {
		s.run.warn(fmt.Sprintf("XA transaction %s is prepared again at %s, and how the one before ended is not in the binlog (sql_log_bin = 0, or the server crashed): its changes are left out",
			id.Name, place{s.file, s.end}))
	}
	return s.run.raw.Drop(ctx, &s.Emitter, id)
}

// waits tells whether a table's rows do not count yet.
func (s *stream) waits(ctx context.Context, r *relation) (bool, error) {
	h := s.group.hold
	if h == nil && s.group.replay == replayAll {
		return false, nil
	}
	transactional, err := s.run.engine(ctx, r)
	if err != nil {
		return false, err
	}
	if h == nil {
		return false, nil
	}
	h.mixed = h.mixed || transactional != nil && !*transactional
	return true, nil
}

// counts tells whether a table's rows are among those that are replayed. That of a table which is gone was one with transactions: what it
// was cannot be asked any more.
func (s *stream) counts(r *relation) bool {
	immediate := r.transactional != nil && !*r.transactional
	return s.group.replay == replayAll || immediate == (s.group.replay == replayImmediate)
}

// holdRows keeps an event of rows as it came.
func (s *stream) holdRows(ctx context.Context, e *binlog.Event) error {
	h := s.group.hold
	if q := s.Meta.Binlog.Query; q != h.query {
		h.query = q
		if err := s.holdChange(ctx, append(append(h.buf[:0], changeQuery), q...)); err != nil {
			return err
		}
	}
	if t := e.Rows.Table; !h.maps[t] {
		h.maps[t] = true
		if err := s.holdChange(ctx, t.AppendRaw(h.buf[:0])); err != nil {
			return err
		}
	}
	return s.holdChange(ctx, e.AppendRaw(h.buf[:0]))
}

func (s *stream) holdChange(ctx context.Context, change []byte) error {
	s.group.hold.buf = change
	return s.run.raw.Append(ctx, &s.Emitter, s.group.hold.id, change)
}

// xa is XA START, END, COMMIT and ROLLBACK.
func (s *stream) xa(ctx context.Context, e *binlog.Event) error {
	verb, xid, err := xaStatement(e.Query.Text)
	if err != nil {
		return err
	}
	switch verb {
	case "START", "BEGIN":
		if err := s.begin(e); err != nil {
			return err
		}
		return s.beginHold(ctx, xid)
	case "END":
		return nil
	}
	if !s.group.open {
		s.open(e)
	}
	id := raw.ID{Kind: raw.Transaction, Name: xid}
	switch {
	case s.group.skip && s.point.seek == nil:
	case verb == "ROLLBACK" || s.group.skip:
		if err := s.run.raw.Drop(ctx, &s.Emitter, id); err != nil {
			return err
		}
	case !s.run.raw.Has(id):
		return s.unknown(xid)
	default:
		s.Meta.Binlog.Pos = e.End - min(e.End, uint64(e.Header.Size))
		s.Meta.Binlog.Thread = uint64(e.Query.Thread)
		if err := s.release(ctx, id, replayWaiting); err != nil {
			return err
		}
		if err := s.run.raw.Drop(ctx, &s.Emitter, id); err != nil {
			return err
		}
	}
	return s.finish(ctx, e)
}

// xaStatement takes apart XA COMMIT X'6162',X'63',1, as the servers write it.
func xaStatement(text []byte) (verb, xid string, err error) {
	words := bytes.Fields(bytes.TrimRight(text, " \t\r\n;\x00"))
	if len(words) < 3 {
		return "", "", malformed("statement %q", text)
	}
	verb, xid = string(bytes.ToUpper(words[1])), string(words[2])
	known := verb == "START" || verb == "BEGIN" || verb == "END" || verb == "COMMIT" || verb == "ROLLBACK"
	if !known || !strings.HasPrefix(xid, "X'") || strings.Count(xid, ",") != 2 {
		return "", "", malformed("statement %q", text)
	}
	return verb, xid, nil
}

// xaPrepare ends the group of an XA transaction: it is committed later, or never, or at once.
func (s *stream) xaPrepare(ctx context.Context, e *binlog.Event) error {
	if !s.group.open {
		return malformed("XA PREPARE outside of a transaction")
	}
	h := s.group.hold
	switch {
	case h == nil:
	case string(e.XA.XID) != h.id.Name:
		return malformed("XA PREPARE of %s in transaction %s", e.XA.XID, h.id.Name)
	case h.refused:
		if err := s.run.raw.Drop(ctx, &s.Emitter, h.id); err != nil {
			return err
		}
	case e.XA.OnePhase:
		if err := s.endHold(ctx); err != nil {
			return err
		}
	case s.group.skip:
		if err := s.run.raw.End(ctx, &s.Emitter); err != nil {
			return err
		}
	case h.mixed:
		if err := s.release(ctx, h.id, replayImmediate); err != nil {
			return err
		}
	}
	s.group.hold = nil
	return s.finish(ctx, e)
}

// endHold ends a group that held its rows without XA PREPARE: they count.
func (s *stream) endHold(ctx context.Context) error {
	h := s.group.hold
	if h == nil {
		return nil
	}
	if !s.group.skip {
		if err := s.release(ctx, h.id, replayAll); err != nil {
			return err
		}
	}
	return s.run.raw.Drop(ctx, &s.Emitter, h.id)
}

// release writes what a transaction held as changes of the open group, whose place and GTID they have.
func (s *stream) release(ctx context.Context, id raw.ID, which replay) error {
	s.group.hold, s.group.replay = nil, which
	defer func() { s.group.replay = replayAll }()
	err := s.run.raw.Read(ctx, id, func(change []byte) error {
		if len(change) > 0 && change[0] == changeQuery {
			s.Meta.Binlog.Query = string(change[1:])
			return nil
		}
		e, err := s.decoder.Replay(change)
		if err != nil || e.Kind != binlog.KindRows {
			return err
		}
		return s.rows(ctx, e)
	})
	if errors.Is(err, raw.ErrMissing) || errors.Is(err, raw.ErrPiece) {
		return s.config.damaged(err)
	}
	if err != nil {
		return fmt.Errorf("changes of XA transaction %s: %w", id.Name, err)
	}
	return nil
}

// settle commits what was sent, up to the last whole source transaction. Of the open one it has nothing but what is in the raw store.
func (s *stream) settle(ctx context.Context) error {
	if err := s.placeMark(ctx, true); err != nil {
		return err
	}
	return s.flush(ctx)
}

// unknown is the Fault for a commit whose rows are not known. Which tables they are of is not known either: only the XA PREPARE tells.
// Invariant 7: it is not passed over.
func (s *stream) unknown(xid string) error {
	return &connectors.Fault{
		Problem: fmt.Sprintf("transaction %s commits XA transaction %s, which was prepared before the capture began: its changes are not known", s.group.name, xid),
		Remedy:  "begin anew, now that it is committed: " + s.config.again(),
	}
}

func (c *Config) damaged(err error) error {
	return &connectors.Fault{
		Problem: "changes that were held in topic " + c.Prefix + raw.Suffix + " cannot be read", Err: err,
		Remedy: "bring the topic back; or delete it (`rowtrail topics delete`), too, and " + c.again(),
	}
}

// openRaw finds what former runs hold.
func (r *run) openRaw(ctx context.Context, w *connectors.Writer) (*raw.Store, error) {
	store, err := raw.Open(ctx, w, r.config.Prefix, func(ctx context.Context) error { return r.stream.settle(ctx) })
	if errors.Is(err, raw.ErrMissing) || errors.Is(err, raw.ErrPiece) {
		return nil, r.config.damaged(err)
	}
	return store, err
}

// clearRaw forgets what a former life of the connector held, in the log transaction of its first resume point.
func (r *run) clearRaw(ctx context.Context, e *connectors.Emitter) error {
	var ids []raw.ID
	for h := range r.raw.All() {
		ids = append(ids, h.ID)
	}
	for _, id := range ids {
		if err := r.raw.Drop(ctx, e, id); err != nil {
			return err
		}
	}
	return nil
}
