package mysql

import (
	"context"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/state"
)

// wanted are keys of a table's rows that are asked for together.
type wanted struct {
	keys [][]byte
	seen map[string]bool
}

// prefetch looks ahead into events and asks for all rows that they leave incomplete at once: the views answer for many keys in little
// more time than for one. Only tables whose rows are kept are looked at; what is missed here is asked for when it comes, and whatever goes wrong
// here is found again there.
func (s *stream) prefetch(ctx context.Context, packets [][]byte) error {
	if !s.state.tracksAny() {
		return nil
	}
	return s.lookAhead(ctx, packets, map[*relation]*wanted{}, 0)
}

// prefetchRest is prefetch when a table's rows begin to be kept, from the event on that is being decoded.
func (s *stream) prefetchRest(ctx context.Context, e *binlog.Event) error {
	want := map[*relation]*wanted{}
	rows := e.Rows
	rows.Diffs = nil // those of the row that is decoded stay
	return s.lookAhead(ctx, s.state.rest, want, s.note(&rows, want))
}

func (s *stream) lookAhead(ctx context.Context, packets [][]byte, want map[*relation]*wanted, size int) error {
	c := s.state
	c.kept.Committed(s.run.committedEvents())
	c.ahead = s.decoder.Fork(c.ahead)
	for _, packet := range packets {
		e, err := c.ahead.Decode(packet)
		for err == nil && e != nil {
			if e.Kind == binlog.KindRows && e.Rows.Table != nil && e.Rows.Op != event.OpCreate {
				size += s.note(&e.Rows, want)
			}
			e, err = c.ahead.Next()
		}
		if err != nil {
			break
		}
		if size > prefetchBytes {
			if err := s.askAll(ctx, want); err != nil {
				return err
			}
			clear(want)
			size = 0
		}
	}
	return s.askAll(ctx, want)
}

func (s *stream) askAll(ctx context.Context, want map[*relation]*wanted) error {
	for r, w := range want {
		if err := s.ask(ctx, &r.Table, w.keys); err != nil {
			return err
		}
	}
	return nil
}

func (c *completion) tracksAny() bool {
	for _, t := range c.tables {
		if t.on {
			return true
		}
	}
	return false
}

// note notes the rows of an event that are incomplete and not known, and says how many bytes their keys take.
func (s *stream) note(rows *binlog.Rows, want map[*relation]*wanted) int {
	r := s.relations[rows.Table] // one that is met first here is not ready yet
	if r == nil || r.tracked == nil || !r.tracked.on || rows.WholeBefore() {
		return 0
	}
	c, size, n := s.state, 0, len(r.Schema.Columns)
	if cap(c.before) < n {
		c.before, c.after = make(event.Row, n), make(event.Row, n)
	}
	before, after := c.before[:n], c.after[:n]
	for {
		more, err := rows.Next(r.layout, before, after)
		if err != nil || !more {
			return size
		}
		if !state.Incomplete(rows.Op, before) {
			continue
		}
		var keyed bool
		if c.key, keyed, err = r.Encoder.AppendKey(c.key[:0], before); err != nil || !keyed {
			continue
		}
		if _, found := c.kept.Get(r.Collection, c.key); found != state.Unknown {
			continue
		}
		w := want[r]
		if w == nil {
			w = &wanted{seen: map[string]bool{}}
			want[r] = w
		}
		if w.seen[string(c.key)] {
			continue
		}
		key := append([]byte{}, c.key...)
		w.keys = append(w.keys, key)
		w.seen[string(key)] = true
		size += len(key)
	}
}
