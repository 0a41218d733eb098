package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
)

// maxMany bounds the keys that are looked up with one reading of a view.
const maxMany = scanRows

// ManyIn calls fn for each of some keys that has a record in a partition now, in any order; i is the key's place among them. Deleted
// rows have no value. It reads the log in its order, so that the many rows of a batch cost one reading of it; a row is valid until fn returns.
func (v *Views) ManyIn(ctx context.Context, topic string, partition int32, keys [][]byte, fn func(i int, r Row) error) error {
	for from := 0; from < len(keys); from += maxMany {
		part := keys[from:min(from+maxMany, len(keys))]
		if err := v.many(ctx, topic, partition, part, func(i int, r Row) error { return fn(from+i, r) }); err != nil {
			return err
		}
	}
	return nil
}

// found is a hit of one of many keys.
type found struct {
	hit
	key int
}

func (v *Views) many(ctx context.Context, topic string, partition int32, keys [][]byte, fn func(i int, r Row) error) error {
	hits, w, err := v.findMany(ctx, topic, partition, keys)
	if err != nil {
		return err
	}
	defer w.close()
	slices.SortFunc(hits, func(a, b found) int { return int(min(max(a.offset-b.offset, -1), 1)) })
	r := v.rowReader(topic)
	defer v.release(r)
	for i := range hits {
		h := &hits[i]
		if h.tombstone {
			row := r.row(&h.hit)
			row.Key = keys[h.key]
			if err := fn(h.key, row); err != nil {
				return err
			}
			continue
		}
		row, ok, err := r.read(&h.hit)
		if errors.Is(err, ErrCompacted) || err == nil && ok && !bytes.Equal(row.Key, keys[h.key]) { // a newer record, or another key of its hash
			row, ok, err = v.LatestIn(ctx, topic, []int32{partition}, keys[h.key], At{Now: true})
		}
		if err == nil && ok {
			err = fn(h.key, row)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// findMany looks keys up in the order in which the view has them.
func (v *Views) findMany(ctx context.Context, topic string, partition int32, keys [][]byte) ([]found, *view, error) {
	w, err := v.open(ctx, topic, partition)
	if err != nil {
		return nil, nil, err
	}
	at := At{Now: true}
	forms := make([][]byte, len(keys))
	order := make([]int, len(keys))
	for i, k := range keys {
		forms[i], order[i] = appendKey(nil, k), i
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(forms[a], forms[b]) })
	hits := make([]found, 0, len(keys))
	err = w.seek(nil, false, &at)
	for _, i := range order {
		if err != nil {
			break
		}
		c := w.cursors[0]
		keyPart := c.key(forms[i])
		c.it.Seek(keyPart)
		var h hit
		var ok bool
		if h, ok, err = c.first(keyPart, &at); err == nil && ok {
			hits = append(hits, found{h, i})
		}
	}
	if err != nil {
		w.close()
		return nil, nil, fmt.Errorf("look up keys in %s: %w", topic, err)
	}
	return hits, w, nil
}

// KeysIn lists keys that are not deleted in a partition now, in the order of a scan, at most limit, behind the key after; nil: from the
// first. Fewer than limit: there are no more.
func (v *Views) KeysIn(ctx context.Context, topic string, partition int32, after []byte, limit int) (keys [][]byte, err error) {
	at := At{Now: true}
	err = v.retry(topic, at, func() (bool, error) {
		keys, err = v.keysIn(ctx, topic, partition, after, limit, &at)
		return true, err
	})
	return keys, err
}

func (v *Views) keysIn(ctx context.Context, topic string, partition int32, after []byte, limit int, at *At) ([][]byte, error) {
	w, err := v.open(ctx, topic, partition)
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := w.seek(nil, false, at); err != nil {
		return nil, fmt.Errorf("list keys of %s: %w", topic, err)
	}
	c := w.cursors[0]
	if after != nil {
		form := appendKey(nil, after)
		c.it.Seek(c.key(form))
		c.leave(c.key(form))
	}
	r := v.rowReader(topic)
	defer v.release(r)
	var keys [][]byte
	for ; len(keys) < limit && c.it.Valid(); c.leave(c.key(w.least)) {
		keyPart, _ := splitEntryKey(c.it.Item().Key())
		w.least = append(w.least[:0], keyPart[prefixLen:]...)
		if isTruncateKey(w.least) {
			continue
		}
		h, ok, err := c.first(c.key(w.least), at)
		if err != nil {
			return nil, fmt.Errorf("list keys of %s: %w", topic, err)
		}
		if !ok || h.tombstone {
			continue
		}
		if key, inline := inlineKey(w.least); inline {
			keys = append(keys, bytes.Clone(key))
			continue
		}
		row, ok, err := r.read(&h)
		if errors.Is(err, ErrCompacted) && w.deleted(&h, at) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list keys of %s: %w", topic, err)
		}
		if ok {
			keys = append(keys, bytes.Clone(row.Key))
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return keys, nil
}
