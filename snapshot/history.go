package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
)

// History calls fn for every record of a key that the log still holds, oldest first; a truncate that the key was alive at is
// told as a record without a value. A key that lies in several partitions is told partition by partition, beginning with the
// one that had it first. A Row's slices are valid until fn returns.
//
// What compaction has taken is left out: Row.WholeFrom tells from which offset on nothing is.
func (v *Views) History(ctx context.Context, topic string, key []byte, fn func(Row) error) error {
	return v.HistoryIn(ctx, topic, nil, key, func(Row) error { return nil }, fn)
}

// HistoryIn is History of some partitions. begins is called before what is told of each, with the record that the partition had first (Row's order of
// it is known, and nothing else): of several answers, what begins first is told first.
func (v *Views) HistoryIn(ctx context.Context, topic string, partitions []int32, key []byte, begins, fn func(Row) error) error {
	w, err := v.open(ctx, topic, partitions...)
	if err != nil {
		return err
	}
	defer w.close()
	parts, err := w.lives(key)
	if err != nil {
		return fmt.Errorf("history in %s: %w", topic, err)
	}
	reader := v.rowReader(topic)
	defer v.release(reader)
	win := newWindow(reader, func(r Row) error {
		switch {
		case keyOfNoRow(r.Key): // a truncate
			r.Key = key
		case !bytes.Equal(r.Key, key):
			return nil // another key of the same hash
		}
		r.WholeFrom = w.wholeFrom(r.Partition)
		return fn(r)
	})
	win.skip = true
	for _, p := range parts {
		err := begins(reader.row(&p.first))
		if err == nil {
			err = p.tell(ctx, win)
		}
		if err == nil {
			err = win.flush(ctx)
		}
		if err != nil {
			return fmt.Errorf("history in %s: %w", topic, err)
		}
	}
	return nil
}

// wholeFrom is asked for after records were looked for, so that none is missing above it.
func (w *view) wholeFrom(partition int32) int64 {
	c := w.cursors[slices.IndexFunc(w.cursors, func(c *cursor) bool { return c.part.number == partition })]
	if whole := max(c.state.whole, c.part.src.Whole()); whole > c.part.src.Marks().LogStart {
		return whole
	}
	return 0
}

// life is what one partition has of a key.
type life struct {
	c     *cursor
	first hit
}

// lives finds the partitions that have a key, in the order in which they had it first; their cursors stand on its
// oldest record.
func (w *view) lives(key []byte) ([]life, error) {
	if err := w.seek(appendKey(nil, key), true, &At{Now: true}); err != nil {
		return nil, err
	}
	var parts []life
	for _, c := range w.cursors {
		for c.it.Valid() {
			h, err := c.hit()
			if err != nil {
				return nil, err
			}
			if h.offset >= c.start {
				parts = append(parts, life{c, h})
				break
			}
			c.it.Next()
		}
	}
	slices.SortStableFunc(parts, func(a, b life) int {
		if a.first.newer(&b.first) {
			return 1
		}
		return -1
	})
	return parts, nil
}

// tell hands out a key's records of one partition, and between them the truncates that ended a life of it.
func (l *life) tell(ctx context.Context, win *window) error {
	truncates := l.c.emptied // latest first
	alive := false
	end := func(before int64) error {
		for n := len(truncates); n > 0 && truncates[n-1].offset < before; n = len(truncates) {
			if alive {
				if err := win.add(ctx, truncates[n-1]); err != nil {
					return err
				}
			}
			alive, truncates = false, truncates[:n-1]
		}
		return nil
	}
	for ; l.c.it.Valid(); l.c.it.Next() {
		h, err := l.c.hit()
		if err == nil {
			err = end(h.offset)
		}
		if err == nil {
			err = win.add(ctx, h)
		}
		if err != nil {
			return err
		}
		alive = !h.tombstone
	}
	return end(math.MaxInt64)
}
