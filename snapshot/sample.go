package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// AnyKey returns a key that the topic has or had, to learn from what its keys look like; found is false when there is none.
// Unlike a scan it need not read the log.
func (v *Views) AnyKey(ctx context.Context, topic string) (key []byte, found bool, err error) {
	return v.AnyKeyIn(ctx, topic, nil)
}

// AnyKeyIn is AnyKey of some partitions.
func (v *Views) AnyKeyIn(ctx context.Context, topic string, partitions []int32) (key []byte, found bool, err error) {
	w, err := v.open(ctx, topic, partitions...)
	if err != nil {
		return nil, false, err
	}
	defer w.close()
	if err := w.seek(nil, false, &At{Now: true}); err != nil {
		return nil, false, fmt.Errorf("look for a key in %s: %w", topic, err)
	}
	for _, c := range w.cursors {
		for ; c.it.Valid(); c.it.Next() {
			keyPart, offset := splitEntryKey(c.it.Item().Key())
			form := keyPart[prefixLen:]
			if offset < c.start || isTruncateKey(form) {
				continue
			}
			if key, ok := inlineKey(form); ok {
				return bytes.Clone(key), true, nil
			}
			h, err := c.hit()
			if err != nil {
				return nil, false, fmt.Errorf("look for a key in %s: %w", topic, err)
			}
			r := v.rowReader(topic)
			row, ok, err := r.read(&h)
			key = bytes.Clone(row.Key)
			v.release(r)
			if errors.Is(err, ErrCompacted) {
				continue
			}
			if ok || err != nil {
				return key, ok, err
			}
		}
	}
	return nil, false, nil
}
