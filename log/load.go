package log

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/rowtrail/rowtrail/log/fields"
)

// load reads a partition's state: hard state, horizon and checkpoint, then the entries behind the checkpoint. What
// Raft's hard state says is committed is applied here; the rest waits for Raft to deliver it again.
func (s *Store) load(id GroupID) (*Partition, error) {
	p := &Partition{id: id, store: s}
	err := s.view(func(txn *badger.Txn) error {
		if err := p.loadState(txn); err != nil {
			return err
		}
		return p.loadTail(txn)
	})
	if err != nil {
		return nil, fmt.Errorf("open group %d: %w", id, err)
	}
	s.tail.Add(p.checkpoint.entries)
	p.retire.to = p.fold.horizon.first
	p.retire.from = p.retire.to
	p.retire.trimmed = p.fold.horizon.logStart > p.fold.horizon.base
	if p.retire.to > 1 {
		// A crash may have left entries below the horizon.
		p.retire.from = 1
	}
	if p.retire.to > 1 || p.runs.sweep.pending() {
		s.markDue(p)
	}
	p.runs.clean.opened = p.stored.next
	return p, nil
}

func (p *Partition) loadState(txn *badger.Txn) error {
	err := viewValue(txn, groupKey(spaceHardState, p.id), func(b []byte) error {
		var err error
		p.hard, err = decodeHardState(b)
		return err
	})
	if err != nil {
		return err
	}
	p.fold = newFold()
	err = viewValue(txn, groupKey(spaceHorizon, p.id), func(b []byte) error {
		var err error
		p.fold, err = decodeFold(b)
		return err
	})
	if err != nil {
		return fmt.Errorf("read horizon: %w", err)
	}
	if err := p.loadRuns(txn); err != nil {
		return err
	}
	if err := p.loadIncoming(txn); err != nil {
		return err
	}
	return viewValue(txn, groupKey(spaceCheckpoint, p.id), func(b []byte) error {
		c, err := decodeFold(b)
		if err != nil || c.horizon != p.fold.horizon {
			// Invariant 8: without its checkpoint the fold is rebuilt from the horizon, only slower.
			p.store.log.Warn("checkpoint is not usable, rebuilding it", "group", p.id, "error", err)
			return nil
		}
		p.fold = c
		p.checkpoint.size = int64(len(b))
		return nil
	})
}

// loadTail reads the entries behind the loaded fold.
func (p *Partition) loadTail(txn *badger.Txn) error {
	for _, e := range p.fold.epochs {
		p.stored.terms = append(p.stored.terms, termStart{term: e.term, index: e.index})
	}
	p.stored.trim(p.fold.horizon.first)
	p.stored.last, p.stored.next = p.fold.applied, p.fold.hwm
	p.staging = newStaging(p.fold.hwm)
	if err := p.loadMarks(txn); err != nil {
		return err
	}
	it := p.iterate(txn)
	defer it.close()
	for ok, err := it.seek(p.fold.applied + 1); ; ok, err = it.next() {
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		if it.meta.index != p.stored.last+1 || it.meta.base != p.stored.next {
			return fmt.Errorf("%w: entry %d at offset %d follows entry %d and offset %d",
				ErrCorrupt, it.meta.index, it.meta.base, p.stored.last, p.stored.next)
		}
		if err := p.loadEntry(&it); err != nil {
			return fmt.Errorf("read entry %d: %w", it.meta.index, err)
		}
	}
}

func (p *Partition) loadEntry(it *logIterator) error {
	m := it.meta
	f := noFacts()
	if m.typ == EntryBatch || m.size > 0 {
		err := it.value(func(b []byte) error {
			var err error
			if m.typ == EntryBatch {
				f, err = factsOf(b)
			} else {
				f, err = p.store.metaFacts(&m, b)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	p.stored.push(&m)
	if m.index <= p.hard.Commit {
		p.applyEntryLocked(&m, &f)
		p.staging.applied(m.index, p.fold.hwm)
		p.checkpoint.note(int64(m.size))
		return nil
	}
	p.staging.push(p.fold.producers, stagedEntry{index: m.index, term: m.term, meta: m.typ != EntryBatch, facts: f})
	return nil
}

// push records a stored entry.
func (s *storedLog) push(m *entryMeta) {
	if n := len(s.terms); n == 0 || s.terms[n-1].term != m.term {
		s.terms = append(s.terms, termStart{term: m.term, index: m.index})
	}
	s.last, s.next = m.index, m.next()
}

// truncate makes the entry before index, which ends at offset next, the last one.
func (s *storedLog) truncate(index uint64, next int64) {
	for n := len(s.terms); n > 0 && s.terms[n-1].index >= index; n-- {
		s.terms = s.terms[:n-1]
	}
	s.last, s.next = index-1, next
}

// trim drops the terms that ended below first.
func (s *storedLog) trim(first uint64) {
	n := 0
	for n+1 < len(s.terms) && s.terms[n+1].index <= first {
		n++
	}
	s.terms = append(s.terms[:0], s.terms[n:]...)
	if len(s.terms) > 0 {
		s.terms[0].index = max(s.terms[0].index, first)
	}
}

func viewValue(txn *badger.Txn, key []byte, f func([]byte) error) error {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return item.Value(f)
}

const hardStateLen = 3 * binary.MaxVarintLen64

func encodeHardState(h HardState) []byte {
	e := encoder{make([]byte, 0, hardStateLen)}
	e.u(h.Term, h.Vote, h.Commit)
	return e.b
}

func decodeHardState(b []byte) (HardState, error) {
	d := fields.Read(b)
	h := HardState{Term: d.Uvarint(), Vote: d.Uvarint(), Commit: d.Uvarint()}
	if !d.Done() {
		return HardState{}, fmt.Errorf("%w: hard state of %d bytes", ErrFormat, len(b))
	}
	return h, nil
}
