package log

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/rowtrail/rowtrail/log/record"
)

// logIterator walks one group's log keys in index order. Values are read only where asked for.
type logIterator struct {
	id    GroupID
	it    *badger.Iterator
	marks marks
	meta  entryMeta // of the current entry
}

// iterate walks a partition's log; what a truncation deleted is passed over, whether it is back or not.
func (p *Partition) iterate(txn *badger.Txn) logIterator {
	it := newRawIterator(txn, p.id)
	p.mu.RLock()
	it.marks = p.marks
	p.mu.RUnlock()
	return it
}

// newRawIterator walks all that is stored of a group.
func newRawIterator(txn *badger.Txn, id GroupID) logIterator {
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false
	opt.Prefix = groupKey(spaceLog, id)
	return logIterator{id: id, it: txn.NewIterator(opt)}
}

func (l *logIterator) close() { l.it.Close() }

// seek moves to the first entry at or above index; false at the end.
func (l *logIterator) seek(index uint64) (bool, error) {
	l.it.Seek(logSeekKey(l.id, index))
	return l.current()
}

func (l *logIterator) next() (bool, error) {
	l.it.Next()
	return l.current()
}

func (l *logIterator) current() (bool, error) {
	for ; l.it.Valid(); l.it.Next() {
		var err error
		if l.meta, err = parseLogKey(l.it.Item().Key()); err != nil {
			return false, err
		}
		if len(l.marks) == 0 || !l.marks.ghost(l.meta.index, l.it.Item().Version()) {
			return true, nil
		}
	}
	return false, nil
}

func (l *logIterator) value(f func([]byte) error) error {
	m := &l.meta
	called := false
	err := l.it.Item().Value(func(b []byte) error {
		called = true
		if len(b) != int(m.size) {
			return fmt.Errorf("%w: entry %d at offset %d has %d bytes, its key says %d", ErrCorrupt, m.index, m.base, len(b), m.size)
		}
		if err := m.check(b); err != nil {
			return err
		}
		return f(b)
	})
	if err != nil && !called {
		err = fmt.Errorf("%w: entry %d at offset %d is not readable: %w", ErrCorrupt, m.index, m.base, err)
	}
	return err
}

// check compares a stored batch with its key and its checksum. A batch with a changed byte is never passed on.
func (m *entryMeta) check(b []byte) error {
	if m.typ != EntryBatch {
		return nil
	}
	h, err := record.Validate(b, record.Checks{AllowControl: true, AllowGaps: true})
	if err == nil && (h.BaseOffset != m.base || h.LastOffsetDelta != m.lastDelta || h.LeaderEpoch != epochOf(m.term)) {
		err = fmt.Errorf("%w: the header has offset %d, last delta %d and epoch %d, the key %d, %d and %d",
			ErrCorrupt, h.BaseOffset, h.LastOffsetDelta, h.LeaderEpoch, m.base, m.lastDelta, epochOf(m.term))
	}
	if err != nil {
		return fmt.Errorf("entry %d at offset %d: %w", m.index, m.base, err)
	}
	return nil
}

// linearFrom is how short a range of indexes must be for walking it to be cheaper than more seeks.
const linearFrom = 16

// find moves to the batch that holds offset, whose index lies in [lo, hi]; false when there is none.
func (l *logIterator) find(offset int64, lo, hi uint64) (bool, error) {
	for hi > lo && hi-lo > linearFrom {
		mid := lo + (hi-lo)/2
		ok, err := l.seek(mid)
		switch {
		case err != nil:
			return false, err
		case ok && l.meta.index <= hi && l.meta.base <= offset:
			lo = l.meta.index
			if l.meta.next() > offset {
				return true, nil
			}
		default:
			hi = mid - 1
		}
	}
	ok, err := l.seek(lo)
	for ; ok && err == nil; ok, err = l.next() {
		if l.meta.next() > offset {
			return true, nil
		}
	}
	return false, err
}

// scan calls f for the keys of the partition's entries from index on, until f returns false.
func (p *Partition) scan(from uint64, f func(m *entryMeta) bool) error {
	return p.store.view(func(txn *badger.Txn) error {
		it := p.iterate(txn)
		defer it.close()
		ok, err := it.seek(from)
		for ; ok && err == nil; ok, err = it.next() {
			if !f(&it.meta) {
				return nil
			}
		}
		return err
	})
}

// storedEntries reads entries of [lo, hi) from the database.
func (p *Partition) storedEntries(lo, hi, maxBytes uint64) ([]Entry, error) {
	var out []Entry
	var size uint64
	err := p.store.view(func(txn *badger.Txn) error {
		it := p.iterate(txn)
		defer it.close()
		ok, err := it.seek(lo)
		for ; ok && err == nil && it.meta.index < hi; ok, err = it.next() {
			m := &it.meta
			if m.index != lo+uint64(len(out)) {
				return fmt.Errorf("%w %d: it was deleted", ErrCompacted, lo+uint64(len(out)))
			}
			size += uint64(m.size)
			if len(out) > 0 && size > maxBytes {
				return nil
			}
			e := Entry{Index: m.index, Term: m.term, Type: m.typ}
			if err := it.value(func(b []byte) error {
				e.Data = append(make([]byte, 0, len(b)), b...)
				return nil
			}); err != nil {
				return err
			}
			out = append(out, e)
		}
		return err
	})
	if err == nil && len(out) == 0 && lo < hi {
		err = fmt.Errorf("%w %d: it was deleted", ErrCompacted, lo)
	}
	if err != nil {
		return nil, fmt.Errorf("read entries of group %d from %d: %w", p.id, lo, err)
	}
	return out, nil
}
