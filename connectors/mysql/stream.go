package mysql

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/park"
)

const (
	// idleEvery is how long the position may lag behind where nothing is captured.
	idleEvery = 5 * time.Second
	// maxRelations bounds the table versions that are remembered.
	maxRelations = 8192
)

// stream decodes the binlog into batches. It belongs to one goroutine.
type stream struct {
	connectors.Emitter
	run       *run
	config    *Config
	decoder   *binlog.Decoder
	loader    *loader
	relations map[*binlog.Table]*relation // nil: not captured
	charsets  charset.Decoders
	changes   *event.SchemaChangeEncoder // nil: no schema changes
	state     *completion
	repair    *repairer // nil: there is no gap to repair

	file  string // that is read
	end   uint64 // of the last event in it
	began place  // where the group begins
	group group
	point *point // of the last whole transaction
	mark  *point // of the last mark

	parking *park.Parking
	kept    kept

	txs      uint64
	markedAt time.Time
	seen     atomic.Uint64 // events, for the status
	since    atomic.Int64  // commit time of the first transaction after all was committed
	reached  atomic.Pointer[place]
}

// handle decodes one chunk.
func (s *stream) handle(ctx context.Context, c *chunk) error {
	if err := s.prefetch(ctx, c.events); err != nil {
		return err
	}
	for i, packet := range c.events {
		s.state.rest = c.events[i+1:]
		if err := s.packet(ctx, packet); err != nil {
			return err
		}
	}
	s.run.receiver.release(c)
	if err := s.boundary(ctx); err != nil {
		return err
	}
	s.seen.Store(s.Events)
	s.reached.Store(&place{s.file, s.end})
	return nil
}

// packet decodes one event, and those that are in it.
func (s *stream) packet(ctx context.Context, packet []byte) error {
	e, err := s.decoder.Decode(packet)
	for err == nil && e != nil {
		if err := s.event(ctx, e); err != nil {
			return s.place(ctx, e, err)
		}
		e, err = s.decoder.Next()
	}
	return s.undecodable(ctx, err)
}

// place adds where an event stands. What a restart would meet again needs a person (invariant 7).
func (s *stream) place(ctx context.Context, e *binlog.Event, err error) error {
	var undo *undoError
	var track *trackError
	var malformed *malformedError
	var column *binlog.ColumnError
	at := place{s.file, e.End}
	switch {
	case connectors.IsFault(err), errors.As(err, &undo), errors.As(err, &track), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &malformed):
		return &connectors.Fault{
			Problem: fmt.Sprintf("event %s that ends at %s cannot be decoded", e.Header.Type, at), Err: malformed.err,
			Remedy: "report this with the server's version; the connector goes on from there once it can decode it",
		}
	case errors.As(err, &column):
		return columnFault(fmt.Sprintf("a row that ends at %s", at), column)
	}
	if _, ok := errorOfBinlog(err); ok {
		return s.undecodable(ctx, err)
	}
	return fmt.Errorf("capture event %s that ends at %s: %w", e.Header.Type, at, err)
}

// columnFault is the Fault for a row of a table that cannot be decoded.
func columnFault(where string, column *binlog.ColumnError) error {
	f := &connectors.Fault{
		Problem: where + " cannot be decoded", Err: column, Collection: column.Table,
		Remedy: "leave table " + column.Table + " out with table.exclude.list, or report this with the server's version",
	}
	if column.Name != "" {
		f.Remedy = "column.exclude.list: " + column.Table + "." + column.Name + ", or report this with the server's version"
	}
	return f
}

func errorOfBinlog(err error) (*binlog.EventError, bool) {
	var e *binlog.EventError
	return e, errors.As(err, &e)
}

// undecodable judges an event that the decoder refused. A wrong checksum may be the network's: that is tried again.
func (s *stream) undecodable(ctx context.Context, err error) error {
	e, ok := errorOfBinlog(err)
	if !ok || errors.Is(err, binlog.ErrChecksum) {
		return err
	}
	at := place{s.file, e.Pos}
	switch {
	case errors.Is(err, binlog.ErrIncident) && s.passed(at): // MariaDB sends one that is outside of its transactions again
		return nil
	case errors.Is(err, binlog.ErrIncident) && s.config.Repair:
		return s.lostEvents(ctx, e)
	case errors.Is(err, binlog.ErrIncident): // M8
		return &connectors.Fault{
			Problem: fmt.Sprintf("the source lost changes at %s", at), Err: err,
			Remedy: "set on.gap: repair, which compares the tables with the log; or load the tables again: " + s.config.again(),
		}
	case errors.Is(err, binlog.ErrUnsupported):
		return &connectors.Fault{
			Problem: fmt.Sprintf("the binlog at %s cannot be decoded", at), Err: err,
			Remedy: "report this with the server's version; the connector goes on from there once it can decode it",
		}
	}
	return &connectors.Fault{
		Problem: fmt.Sprintf("the binlog at %s is damaged", at), Err: err,
		Remedy: "report this with the server's version if the server's own replicas read on there",
	}
}

// malformedError is an event that does not fit those before it.
type malformedError struct{ err error }

func (e *malformedError) Error() string { return e.err.Error() }
func (e *malformedError) Unwrap() error { return e.err }

func malformed(format string, args ...any) error { return &malformedError{fmt.Errorf(format, args...)} }

func (s *stream) event(ctx context.Context, e *binlog.Event) error {
	s.end = e.End
	if !s.group.open {
		s.began = place{s.file, e.End - min(e.End, uint64(e.Header.Size))}
	}
	switch e.Kind {
	case binlog.KindRows:
		return s.rows(ctx, e)
	case binlog.KindTable, binlog.KindNothing, binlog.KindPreviousGTIDs, binlog.KindPayload:
		return nil
	case binlog.KindGTID:
		return s.beginGTID(ctx, e)
	case binlog.KindBegin:
		return s.begin(e)
	case binlog.KindXID, binlog.KindCommit:
		return s.commit(ctx, e)
	case binlog.KindRollback:
		return s.rollback(ctx, e)
	case binlog.KindSavepoint:
		return s.savepoint(e)
	case binlog.KindXA:
		return s.xa(ctx, e)
	case binlog.KindXAPrepare:
		return s.xaPrepare(ctx, e)
	case binlog.KindQuery:
		return s.statement(ctx, e)
	case binlog.KindRowsQuery:
		if s.config.Query {
			s.Meta.Binlog.Query = string(e.Text)
		}
		return nil
	case binlog.KindRotate:
		s.file = string(e.Rotate.File)
		if e.Header.Flags&binlog.FlagArtificial == 0 && s.point.base == nil && s.point.seek == nil && !s.group.open {
			next := *s.point
			next.at = place{s.file, e.Rotate.Position}
			s.point = &next
		}
		return nil
	case binlog.KindFormat:
		clear(s.relations)
		return s.cut(ctx)
	case binlog.KindHeartbeat:
		return s.idle(ctx)
	}
	return malformed("an event of kind %d", e.Kind)
}

// placeMark places a mark after a whole transaction.
func (s *stream) placeMark(ctx context.Context, force bool) error {
	if err := s.keepHistory(ctx); err != nil {
		return err
	}
	if err := s.Room(ctx); err != nil {
		return err
	}
	if now := s.parking.Marked(); s.point.parked != now {
		next := *s.point
		next.parked = now
		s.point = &next
	}
	s.Batch.Mark(connectors.Mark{
		Order: s.point.commits, Confirm: s.point.commits, TimeUs: s.point.timeUs, Events: s.Events, Txs: s.txs, Resume: s.point, Force: force,
	})
	s.mark, s.markedAt = s.point, s.Now
	return nil
}

// idle takes a heartbeat of the source: the position of transactions that hold nothing captured goes into the log, too.
func (s *stream) idle(ctx context.Context) error {
	if s.group.open {
		return nil
	}
	s.sought(place{s.file, s.end}) // there is no more
	if s.mark == s.point {
		return nil
	}
	return s.placeMark(ctx, true)
}

// beat writes the heartbeat record.
func (s *stream) beat(ctx context.Context) error {
	if err := s.Heartbeat(ctx); err != nil {
		return err
	}
	if s.group.open {
		return nil
	}
	return s.placeMark(ctx, false)
}
