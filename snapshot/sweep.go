package snapshot

import (
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// sweeper deletes entries of records that retention or compaction took, one bounded piece at a time. A pass goes over the
// entries of a partition, and once more when there is something of compaction to delete: only then is it known which cuts lose
// something by it.
type sweeper struct {
	p     *partition
	from  []byte // where the next piece begins
	start int64  // the log start that this pass deletes below
	whole int64  // the offset that compaction has come to in this pass
	trim  trim
}

// takes tells whether p has a pass to make or to go on with. One pass is under way at a time.
func (s *sweeper) takes(p *partition) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.dropped || !p.verified:
		return false
	case s.p == p:
		return true
	case s.p != nil && !s.stale():
		return false
	}
	return s.begin(p)
}

// step makes the next piece of the pass over p.
func (s *sweeper) step(db *badger.DB, p *partition) (worked bool, err error) {
	if !s.takes(p) {
		return false, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropped {
		return false, nil
	}
	done, err := s.piece(db)
	if err != nil {
		*s = sweeper{}
		return false, err
	}
	if done && s.trim.found > 0 && !s.trim.deletes {
		s.from, s.trim.key, s.trim.deletes = entryPrefix(nil, p.id), nil, true
		done = false
	}
	if done {
		p.swept, p.trimmed = s.start, s.whole
		*s = sweeper{}
	}
	return true, nil
}

// begin starts a pass over p, when enough of its entries are gone from the log for looking at all of them.
func (s *sweeper) begin(p *partition) bool {
	start := p.src.Marks().LogStart
	whole := max(start, min(p.src.Whole(), p.state.next))
	enough := func(gone int64) bool { return gone > 0 && gone >= (p.state.next-start)/sweepShare }
	if !enough(start-p.swept) && !enough(whole-max(p.trimmed, start)) {
		return false
	}
	*s = sweeper{p: p, from: entryPrefix(nil, p.id), start: start, whole: whole}
	return true
}

// stale: the partition of the pass is no longer there to go on with.
func (s *sweeper) stale() bool {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.p.dropped
}

func (s *sweeper) piece(db *badger.DB) (done bool, err error) {
	txn := db.NewTransaction(true)
	defer txn.Discard()
	prefix := entryPrefix(nil, s.p.id)
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	var gone [][]byte
	size, seen := 0, 0
	s.trim.reads = 0
	for it.Seek(s.from); it.Valid() && seen < sweepEntries && size < sweepKeys && s.trim.reads < goneReads; {
		seen++
		k := it.Item().KeyCopy(nil)
		s.from = append(append(s.from[:0], k...), 0)
		dies, err := s.dies(it, k)
		if err != nil {
			return false, err
		}
		if dies {
			gone = append(gone, k)
			size += len(k)
		}
	}
	done = !it.Valid()
	it.Close()
	if !s.trim.deletes || len(gone) == 0 {
		return done, deleteAll(txn, gone)
	}
	// What is deleted is said to be missing in the same transaction.
	st := s.trim.after(s.p.state, s.whole)
	if err := txn.Set(stateKey(s.p.id), st.encode()); err != nil {
		return false, fmt.Errorf("delete from view: %w", err)
	}
	if err := deleteAll(txn, gone); err != nil {
		return false, err
	}
	s.p.state = st
	return done, nil
}

// dies tells whether the entry under k, which the iterator stands on, is to be deleted, and moves the iterator on.
func (s *sweeper) dies(it *badger.Iterator, k []byte) (bool, error) {
	keyPart, offset := splitEntryKey(k)
	if offset < s.start || offset >= s.whole || isTruncateKey(keyPart[prefixLen:]) {
		it.Next()
		return offset < s.start, nil
	}
	h, err := s.p.hit(it.Item())
	if err != nil {
		return false, err
	}
	superseded := s.trim.superseded(keyPart, &h)
	it.Next()
	switch {
	case !s.trim.deletes:
		return false, nil
	case superseded:
		return true, nil
	case h.tombstone && !it.ValidForPrefix(keyPart):
		return s.trim.forgotten(&h) // the last entry of its key: when the log has forgotten it, the view may
	}
	return false, nil
}

func deleteAll(txn *badger.Txn, keys [][]byte) error {
	for _, k := range keys {
		if err := txn.Delete(k); err != nil {
			return fmt.Errorf("delete from view: %w", err)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	if err := txn.Commit(); err != nil {
		return fmt.Errorf("delete from view: %w", err)
	}
	return nil
}

// bury deletes one bounded piece of a fold that is no more.
func (v *Views) bury(id uint32) error {
	txn := v.db.NewTransaction(true)
	defer txn.Discard()
	var keys [][]byte
	size, all := 0, true
	for _, space := range []byte{spaceEntry, spaceState} {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: foldPrefix(space, id)})
		for it.Rewind(); it.Valid() && len(keys) < sweepEntries && size < sweepKeys; it.Next() {
			keys = append(keys, it.Item().KeyCopy(nil))
			size += len(it.Item().Key())
		}
		all = all && !it.Valid()
		it.Close()
	}
	if all {
		keys = append(keys, deadKey(id))
	}
	if err := deleteAll(txn, keys); err != nil || !all {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dead = slices.DeleteFunc(v.dead, func(other uint32) bool { return other == id })
	return nil
}

// nextDead is a fold that is to be buried.
func (v *Views) nextDead() (id uint32, found bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.dead) == 0 {
		return 0, false
	}
	return v.dead[0], true
}
