package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/park"
)

// errNewTable ends a run so that the next one loads a table that the stream has begun to deliver.
var errNewTable = errors.New("a table is new: it is loaded first")

// stream decodes the replication stream into batches. It belongs to one goroutine.
type stream struct {
	connectors.Emitter
	config    *Config
	side      *sideConn // catalog lookups
	relations map[uint32]*relation
	loaded    loads
	encoded   *encodedLoads // of loaded, for marks
	marks     *streamed
	needLoad  bool // a captured table must be in loaded
	resume    lsn  // transactions that committed before it are in the log

	// The open source transaction.
	open     bool
	skip     bool // it is in the log already
	begin    beginMessage
	previous lsn // commit LSN of the last transaction
	ended    lsn // where what source.sequence names last ends: that one's commit record, or a message of no transaction; 0: there was none

	txs       uint64
	seen      atomic.Uint64 // events, for the status
	quiet     atomic.Uint64 // WAL end below which nothing is pending once all seen events are committed
	since     atomic.Int64  // commit time of the first transaction after all was committed
	committed func() uint64 // events that are committed
	marked    lsn           // confirm position of the last mark
	markedAt  time.Time
	idleEvery time.Duration
	messages  *event.MessageEncoder
	emptied   *sync.Map // names of truncated tables
	parking   *park.Parking
	kept      kept
}

// run decodes chunks until ctx ends or something cannot be decoded.
func (s *stream) run(ctx context.Context, in *receiver) error {
	if err := s.parking.Start(ctx, &s.Emitter, s, in.nudge); err != nil {
		return err
	}
	defer s.parking.Close()
	return connectors.Pump(ctx, &s.Emitter, in.chunks, func(ctx context.Context, chunk []byte) error {
		if err := s.chunk(ctx, chunk); err != nil {
			return err
		}
		in.release(chunk)
		s.seen.Store(s.Events)
		return s.boundary(ctx)
	}, s.heartbeat)
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
			return s.place(at, body[xlogHead:], err)
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
func (s *stream) place(at lsn, b []byte, err error) error {
	kind := b[0]
	if connectors.IsFault(err) || errors.Is(err, errNewTable) || errors.Is(err, context.Canceled) {
		return err
	}
	var malformed *malformedError
	if errors.As(err, &malformed) {
		return &connectors.Fault{
			Problem: fmt.Sprintf("message %q at %s cannot be decoded", kind, at), Err: malformed.err, Collection: s.collectionOf(b),
			Remedy: "report this with the server's version; the connector goes on from there once it can decode it",
		}
	}
	return fmt.Errorf("capture message %q at %s: %w", kind, at, err)
}

// collectionOf is the table that a message tells a row of, "" if it does not.
func (s *stream) collectionOf(b []byte) string {
	switch b[0] {
	case 'I', 'U', 'D':
		if len(b) < 5 {
			return ""
		}
		if r := s.relations[binary.BigEndian.Uint32(b[1:])]; r != nil && r.captured {
			return r.Collection
		}
	}
	return ""
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
		s.Meta.LSN = uint64(at)
		if kind != 'T' {
			if r := s.parkedRelation(b); r != nil {
				return s.keep(ctx, r, kind, at, b)
			}
		}
		return s.change(ctx, kind, b)
	case 'B':
		return s.beginTransaction(b)
	case 'C':
		return s.commitTransaction(ctx, b)
	case 'R':
		return s.relation(ctx, b)
	case 'O':
		m, err := parseOrigin(b)
		s.Meta.Origin, s.Meta.OriginLSN = m.name, uint64(m.commit)
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

// change takes a change of rows.
func (s *stream) change(ctx context.Context, kind byte, b []byte) error {
	switch kind {
	case 'I':
		return s.insert(ctx, b)
	case 'U':
		return s.update(ctx, b)
	case 'D':
		return s.delete(ctx, b)
	case 'T':
		return s.truncated(ctx, b)
	}
	return malformed(fmt.Errorf("change of unknown kind %q", kind))
}
