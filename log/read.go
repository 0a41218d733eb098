package log

import (
	"errors"
	"fmt"
	"sync"

	"github.com/dgraph-io/badger/v4"
)

// readHints remember where reads ended, so that a sequential reader behind the tail needs no search.
type readHints struct {
	mu   sync.Mutex
	at   [8]readHint
	next int
}

// readHint says that the entry which holds offset has an index at or above index.
type readHint struct {
	offset int64
	index  uint64
}

func (h *readHints) find(offset int64) (uint64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.at {
		if x.offset == offset && x.index > 0 {
			return x.index, true
		}
	}
	return 0, false
}

// moved replaces the hint that a reader used, or the oldest one.
func (h *readHints) moved(from int64, to readHint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, x := range h.at {
		if x.index > 0 && x.offset == from {
			h.at[i] = to
			return
		}
	}
	h.at[h.next] = to
	h.next = (h.next + 1) % len(h.at)
}

func (p *Partition) endLocked(iso Isolation, m *Marks) int64 {
	if iso == ReadCommitted {
		return m.LastStable
	}
	return m.HighWatermark
}

// Read returns whole batches from the one that holds offset on, or, where compaction has left a gap, from the next one on: up to
// maxBytes (but at least one batch when minOne), below the isolation's end. At the end it returns no batches and no error.
func (p *Partition) Read(offset int64, maxBytes int, minOne bool, iso Isolation) (ReadResult, error) {
	for {
		res, err := p.read(offset, maxBytes, minOne, iso)
		if errors.Is(err, errSwapped) {
			continue
		}
		if errors.Is(err, ErrCorrupt) {
			p.damaged.Do(func() {
				p.store.log.Error("stored records are damaged and are not served; restore the data directory from a backup, or "+
					"have readers go on behind them", "group", p.id, "offset", offset, "error", err)
			})
		}
		return res, err
	}
}

// read is one attempt of Read.
func (p *Partition) read(offset int64, maxBytes int, minOne bool, iso Isolation) (ReadResult, error) {
	p.mu.RLock()
	res := ReadResult{Marks: p.marksLocked()}
	if p.closed {
		p.mu.RUnlock()
		return res, ErrClosed
	}
	end := p.endLocked(iso, &res.Marks)
	if offset < res.Marks.LogStart || offset > res.Marks.End {
		p.mu.RUnlock()
		return res, fmt.Errorf("read %d: %w: the log holds %d to %d", offset, ErrOffsetOutOfRange, res.Marks.LogStart, res.Marks.End)
	}
	if offset >= end {
		p.mu.RUnlock()
		return res, nil
	}
	if offset < p.fold.horizon.base {
		// What memory still holds of these offsets is not looked at: it has records that were compacted away, and what
		// told the aborted ones of them may be gone.
		man := p.runs.man
		p.mu.RUnlock()
		return res, p.readRuns(&res, man, offset, maxBytes, minOne, iso)
	}
	if i, ok := p.recent.find(offset); ok {
		defer p.mu.RUnlock()
		p.readRecent(&res, i, end, maxBytes, minOne, iso)
		return res, nil
	}
	lo, hi := p.fold.index.bracket(offset, p.fold.applied)
	lo = max(lo, p.fold.horizon.first)
	p.mu.RUnlock()
	return res, p.readStored(&res, offset, end, lo, hi, maxBytes, minOne, iso)
}

// readRecent takes batches from memory: a single one as it is, several as a copy.
func (p *Partition) readRecent(res *ReadResult, from int, end int64, maxBytes int, minOne bool, iso Isolation) {
	live := p.recent.live()[from:]
	n, size := 0, 0
	for ; n < len(live) && live[n].meta.base < end; n++ {
		m := &live[n].meta
		if m.typ == EntryBatch {
			if !fits(size, int(m.size), maxBytes, minOne) {
				break
			}
			size += int(m.size)
		}
	}
	if size == 0 {
		return
	}
	for i := range live[:n] {
		switch data := live[i].data; {
		case live[i].meta.typ != EntryBatch:
		case len(data) == size: // the only one, which never changes
			res.Batches = data[:size:size]
		default:
			if res.Batches == nil {
				res.Batches = make([]byte, 0, size)
			}
			res.Batches = append(res.Batches, data...)
		}
	}
	if iso == ReadCommitted {
		res.Aborted = p.fold.txns.overlapping(live[0].meta.base, live[n-1].meta.next())
	}
}

func fits(have, size, maxBytes int, minOne bool) bool {
	return have+size <= maxBytes || have == 0 && minOne
}

// readStored reads batches from the database.
func (p *Partition) readStored(
	res *ReadResult, offset, end int64, lo, hi uint64, maxBytes int, minOne bool, iso Isolation,
) error {
	hinted := false
	if index, ok := p.hints.find(offset); ok && index >= lo {
		lo, hinted = index, true
	}
	var found storedRange
	missing := true
	err := p.store.view(func(txn *badger.Txn) error {
		it := p.iterate(txn)
		defer it.close()
		if hinted {
			hi = lo
		}
		ok, err := it.find(offset, lo, hi)
		if err != nil || !ok {
			return err
		}
		if missing = it.meta.base > offset; missing {
			return nil
		}
		if found, err = it.measure(end, maxBytes, minOne); err != nil || found.size == 0 {
			return err
		}
		res.Batches, err = it.appendBatches(make([]byte, 0, found.size), found)
		return err
	})
	if err != nil {
		return fmt.Errorf("read group %d at offset %d: %w", p.id, offset, err)
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if offset < p.fold.horizon.base {
		// Retention or compaction passed by, and with it may have gone what tells aborted from committed data.
		res.Batches, res.Marks = nil, p.marksLocked()
		if offset >= res.Marks.LogStart {
			return errSwapped
		}
		return fmt.Errorf("read %d: %w: the log starts at %d now", offset, ErrOffsetOutOfRange, res.Marks.LogStart)
	}
	if missing {
		return fmt.Errorf("read group %d: %w: the entry with offset %d is missing", p.id, ErrCorrupt, offset)
	}
	if found.size == 0 {
		return nil
	}
	if iso == ReadCommitted {
		res.Aborted = p.fold.txns.overlapping(found.base, found.next)
	}
	p.hints.moved(offset, readHint{offset: found.next, index: found.last + 1})
	return nil
}

// storedRange is what fits into one answer.
type storedRange struct {
	first, last uint64 // indexes
	base, next  int64  // offsets [base, next)
	size        int
}

// measure walks keys from the current entry on, as far as batches fit and lie below end.
func (l *logIterator) measure(end int64, maxBytes int, minOne bool) (storedRange, error) {
	var r storedRange
	ok, err := true, error(nil)
	index, next := l.meta.index, l.meta.base
	for ; ok && err == nil && l.meta.base < end; ok, err = l.next() {
		m := &l.meta
		if m.index != index || m.base != next {
			break // Invariant 2
		}
		index, next = m.index+1, m.next()
		if m.typ != EntryBatch {
			continue
		}
		if !fits(r.size, int(m.size), maxBytes, minOne) {
			break
		}
		if r.size == 0 {
			r.first, r.base = m.index, m.base
		}
		r.last, r.next = m.index, m.next()
		r.size += int(m.size)
	}
	return r, err
}

// appendBatches appends the batches of a measured range.
func (l *logIterator) appendBatches(dst []byte, r storedRange) ([]byte, error) {
	ok, err := l.seek(r.first)
	for ; ok && err == nil && l.meta.index <= r.last; ok, err = l.next() {
		if l.meta.typ != EntryBatch {
			continue
		}
		if err := l.value(func(b []byte) error {
			dst = append(dst, b...)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return dst, err
}
