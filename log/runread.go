package log

import (
	"fmt"

	"github.com/rowtrail/rowtrail/log/record"
)

// readRuns reads batches from below the horizon. errSwapped: the same read has to be done again.
//
// Invariants 5 and 10: an aborted transaction leaves the list together with its marker, so batches and list belong together
// only if nothing was swapped in between.
func (p *Partition) readRuns(res *ReadResult, m *manifest, offset int64, maxBytes int, minOne bool, iso Isolation) error {
	size, base, last, found := 0, int64(0), int64(-1), false
	err := p.store.walkRuns(p.id, m, offset, func(it *runIterator) (bool, error) {
		found = true
		if !fits(size, int(it.meta.size), maxBytes, minOne) {
			return false, nil
		}
		if size == 0 {
			base = it.meta.base
		}
		size += int(it.meta.size)
		last = it.meta.last
		return size < maxBytes, nil
	})
	if err == nil && size > 0 {
		res.Batches = make([]byte, 0, size)
		err = p.store.walkRuns(p.id, m, offset, func(it *runIterator) (bool, error) {
			if it.meta.last > last {
				return false, nil
			}
			err := it.value(func(b []byte) error {
				res.Batches = append(res.Batches, b...)
				return nil
			})
			return it.meta.last < last, err
		})
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	switch {
	case p.runs.man != m:
		res.Batches = nil
		return errSwapped
	case err != nil:
		res.Batches = nil
		return fmt.Errorf("read group %d at offset %d: %w", p.id, offset, err)
	case !found: // the last batch of a round stays, whatever it holds
		return fmt.Errorf("read group %d: %w: no run holds offset %d or one behind it", p.id, ErrCorrupt, offset)
	}
	if iso == ReadCommitted && size > 0 {
		res.Aborted = p.fold.txns.overlapping(base, last+1)
	}
	return nil
}

// searchRuns looks for the first record of [start, end) that both filters pick, in the runs that run picks.
func (p *Partition) searchRuns(
	m *manifest, start, end int64, batch func(maxTs int64) bool, rec func(*record.Record, int32) bool,
) (*foundRecord, error) {
	var found *foundRecord
	r := p.store.readers.Get()
	defer p.store.readers.Put(r)
	for i := range m.runs {
		if m.runs[i].next <= start || !batch(m.runs[i].maxTs) {
			continue
		}
		one := &manifest{runs: m.runs[i : i+1]}
		err := p.store.walkRuns(p.id, one, start, func(it *runIterator) (bool, error) {
			if !batch(it.meta.maxTs) {
				return true, nil
			}
			err := it.value(func(b []byte) (err error) {
				found, err = findRecord(r, b, start, end, rec)
				return err
			})
			return found == nil, err
		})
		if err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil //nolint:nilnil // nothing found is no error
}

// findRecord looks for the first record of [start, end) in a batch that pick takes.
func findRecord(r *record.Reader, b []byte, start, end int64, pick func(*record.Record, int32) bool) (*foundRecord, error) {
	if err := r.Reset(b); err != nil {
		return nil, err
	}
	epoch := r.BatchHeader().LeaderEpoch
	for r.Next() {
		if c := r.Record(); c.Offset >= start && c.Offset < end && pick(c, epoch) {
			return &foundRecord{c.Offset, c.Timestamp, epoch}, nil
		}
	}
	return nil, r.Err()
}
