package raw

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors"
)

// readTimeout bounds how long reading waits for one piece.
const readTimeout = 2 * time.Minute

// Read gives what a holder has, in order. A change is valid until each returns, which may write into the Emitter's batches.
func (s *Store) Read(ctx context.Context, id ID, each func(change []byte) error) error {
	h := s.holders[id]
	if h == nil {
		return fmt.Errorf("%s holds nothing", id)
	}
	var a assembler
	if h.memory != nil {
		for _, payload := range h.memory {
			if err := a.add(payload, each); err != nil {
				return err
			}
		}
	} else if err := s.readBack(ctx, h, &a, each); err != nil {
		return err
	}
	for _, payload := range h.pending {
		if err := a.add(payload, each); err != nil {
			return err
		}
	}
	if a.open() || !h.whole && !h.touched {
		return s.missing(h, h.pieces)
	}
	return nil
}

// readBack reads the pieces that are written.
func (s *Store) readBack(ctx context.Context, h *holder, a *assembler, each func([]byte) error) error {
	if h.pieces == 0 {
		return nil
	}
	if !h.settled {
		if err := s.settle(ctx); err != nil {
			return err
		}
		h.settled = true
	}
	next := 0
	timed, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(readTimeout, func() { cancel(ErrMissing) })
	defer watch.Stop()
	err := s.log.ReadOwn(timed, s.topic, h.first, func(r *kgo.Record) (bool, error) {
		if r.Value == nil {
			return true, nil
		}
		id, number, err := parseKey(r.Key)
		if err != nil || id != h.id {
			return true, nil //nolint:nilerr // another's, or the mark of a session
		}
		p, err := parsePiece(r.Value)
		if err != nil {
			return false, s.at(r, err)
		}
		if p.generation != h.generation {
			return true, nil
		}
		if number != next || p.number != next {
			return false, s.missing(h, next)
		}
		next++
		watch.Stop()
		if err := a.add(p.payload, each); err != nil {
			return false, err
		}
		watch.Reset(readTimeout)
		return next < h.pieces, nil
	})
	if err != nil && context.Cause(timed) == ErrMissing && ctx.Err() == nil { //nolint:errorlint // it is the cause itself
		return s.missing(h, next)
	}
	return err
}

// Drop forgets a holder and all that it has.
func (s *Store) Drop(ctx context.Context, e *connectors.Emitter, id ID) error {
	h := s.holders[id]
	if h == nil {
		return nil
	}
	for number := range h.pieces { // all in one log transaction: scan relies on it
		if err := e.Room(ctx); err != nil {
			return err
		}
		buf := e.Batch.Buf()
		key := connectors.Span{From: len(buf)}
		buf = id.appendKey(buf, number)
		key.To = len(buf)
		e.Batch.Keep(buf)
		e.Batch.Record(s.topic, 0, key.Of(buf), nil, e.Now)
	}
	for _, payload := range h.pending {
		s.pending -= len(payload)
	}
	s.forget(h)
	delete(s.holders, id)
	s.touched = slices.DeleteFunc(s.touched, func(t *holder) bool { return t == h })
	return nil
}
