package log

import (
	"fmt"
	"math"

	"github.com/dgraph-io/badger/v4"

	"github.com/rowtrail/rowtrail/log/record"
)

// OffsetForTime returns the first readable offset whose timestamp is >= ts (ms), with that timestamp and
// leader epoch; ok is false when there is none.
func (p *Partition) OffsetForTime(ts int64, iso Isolation) (offset, timestamp int64, epoch int32, ok bool, err error) {
	for {
		p.mu.RLock()
		man := p.runs.man
		p.mu.RUnlock()
		found, err := p.offsetForTime(man, ts, iso)
		switch {
		case !p.sameRuns(man): // what was looked into may have been swapped away
		case err != nil:
			return -1, -1, -1, false, fmt.Errorf("find offset for time %d in group %d: %w", ts, p.id, err)
		case found == nil:
			return -1, -1, -1, false, nil
		default:
			return found.offset, found.timestamp, found.epoch, true, nil
		}
	}
}

func (p *Partition) offsetForTime(man *manifest, ts int64, iso Isolation) (*foundRecord, error) {
	p.mu.RLock()
	m := p.marksLocked()
	end := p.endLocked(iso, &m)
	stretches := p.stretchesLocked(func(x *point) bool { return x.maxTs >= ts && x.base < end })
	p.mu.RUnlock()
	late := func(maxTs int64) bool { return maxTs >= ts }
	pick := func(r *record.Record, _ int32) bool { return r.Timestamp >= ts }
	found, err := p.searchRuns(man, m.LogStart, end, late, pick)
	for i := 0; i < len(stretches) && found == nil && err == nil; i++ {
		found, err = p.searchStretch(stretches[i], m.LogStart, end, late, pick)
	}
	return found, err
}

// MaxTimestamp returns the offset and timestamp of the record with the largest timestamp; all -1 when there is none.
func (p *Partition) MaxTimestamp() (offset, timestamp int64, epoch int32, err error) {
	for {
		p.mu.RLock()
		man := p.runs.man
		p.mu.RUnlock()
		best, err := p.maxTimestamp(man)
		switch {
		case !p.sameRuns(man): // what was looked into may have been swapped away
		case err != nil:
			return -1, -1, -1, fmt.Errorf("find largest timestamp of group %d: %w", p.id, err)
		default:
			return best.offset, best.timestamp, best.epoch, nil
		}
	}
}

func (p *Partition) maxTimestamp(man *manifest) (foundRecord, error) {
	p.mu.RLock()
	m := p.marksLocked()
	most := int64(math.MinInt64)
	all := p.stretchesLocked(func(x *point) bool {
		most = max(most, x.maxTs)
		return true
	})
	p.mu.RUnlock()
	for i := range man.runs {
		most = max(most, man.runs[i].maxTs)
	}
	best := foundRecord{-1, -1, -1}
	look := func(r *record.Record, epoch int32) bool {
		if r.Timestamp > best.timestamp {
			best = foundRecord{r.Offset, r.Timestamp, epoch}
		}
		return false
	}
	// One pass that looks only into batches which claim the largest timestamp is enough, unless the records that
	// have it lie below the log start. Then every batch is looked into that could hold a larger one than found.
	for _, atLeast := range []func() int64{func() int64 { return most }, func() int64 { return best.timestamp + 1 }} {
		late := func(maxTs int64) bool { return maxTs >= atLeast() }
		if _, err := p.searchRuns(man, m.LogStart, m.HighWatermark, late, look); err != nil {
			return best, err
		}
		for _, x := range all {
			if x.maxTs < atLeast() {
				continue
			}
			if _, err := p.searchStretch(x, m.LogStart, m.HighWatermark, late, look); err != nil {
				return best, err
			}
		}
		if best.timestamp == most {
			break
		}
	}
	return best, nil
}

// stretch is a range of indexes [from, to).
type stretch struct {
	from, to uint64
	maxTs    int64
}

func (p *Partition) stretchesLocked(pick func(*point) bool) []stretch {
	var out []stretch
	points := p.fold.index.points
	for i := range points {
		if !pick(&points[i]) {
			continue
		}
		x := stretch{from: points[i].index, to: p.fold.applied + 1, maxTs: points[i].maxTs}
		if i+1 < len(points) {
			x.to = points[i+1].index
		}
		out = append(out, x)
	}
	return out
}

type foundRecord struct {
	offset, timestamp int64
	epoch             int32
}

// searchStretch looks for the first record of [start, end) that both filters pick.
func (p *Partition) searchStretch(
	x stretch, start, end int64, batch func(maxTs int64) bool, rec func(*record.Record, int32) bool,
) (*foundRecord, error) {
	r := p.store.readers.Get()
	defer p.store.readers.Put(r)
	var found *foundRecord
	err := p.store.view(func(txn *badger.Txn) error {
		it := p.iterate(txn)
		defer it.close()
		ok, err := it.seek(x.from)
		for ; ok && err == nil && found == nil && it.meta.index < x.to && it.meta.base < end; ok, err = it.next() {
			if it.meta.typ != EntryBatch || it.meta.next() <= start || !batch(it.meta.maxTs) {
				continue
			}
			err := it.value(func(b []byte) (err error) {
				found, err = findRecord(r, b, start, end, rec)
				return err
			})
			if err != nil {
				return err
			}
		}
		return err
	})
	return found, err
}
