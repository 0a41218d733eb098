package snapshot

import (
	"encoding/binary"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// sweeper deletes entries of records that retention took, one bounded piece at a time.
type sweeper struct {
	p     *partition
	from  []byte // where the next piece begins
	start int64  // the log start that this pass deletes below
}

// step works on p when it has a pass to make or to go on with. One pass is under way at a time.
func (s *sweeper) step(db *badger.DB, p *partition) (worked bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropped || !p.verified {
		return false, nil
	}
	if s.p != nil && s.p != p && !s.stale() {
		return false, nil
	}
	if s.p != p {
		start := p.src.Marks().LogStart
		// Looking at all entries is worth it when enough of them are gone.
		if retired := start - p.swept; retired <= 0 || retired < (p.state.next-start)/sweepShare {
			return false, nil
		}
		*s = sweeper{p: p, from: entryPrefix(nil, p.topic, p.number), start: start}
	}
	done, err := s.piece(db)
	if err != nil {
		*s = sweeper{}
		return false, err
	}
	if done {
		p.swept = s.start
		*s = sweeper{}
	}
	return true, nil
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
	prefix := entryPrefix(nil, s.p.topic, s.p.number)
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	var gone [][]byte
	size, seen := 0, 0
	for it.Seek(s.from); it.Valid() && seen < sweepEntries && size < sweepKeys; it.Next() {
		seen++
		k := it.Item().KeyCopy(nil)
		s.from = append(append(s.from[:0], k...), 0)
		if _, offset := splitEntryKey(k); offset < s.start {
			gone = append(gone, k)
			size += len(k)
		}
	}
	done = !it.Valid()
	it.Close()
	return done, deleteAll(txn, gone)
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

// bury deletes one bounded piece of the topics that are no more. more: there is more to do.
func (v *Views) bury() (more bool, err error) {
	txn := v.db.NewTransaction(true)
	defer txn.Discard()
	id, found := firstDead(txn)
	if !found {
		return false, nil
	}
	var keys [][]byte
	size, all := 0, true
	for _, space := range []byte{spaceEntry, spaceState} {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: topicPrefix(space, id)})
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
	return true, deleteAll(txn, keys)
}

func firstDead(txn *badger.Txn) (id uint32, found bool) {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceDead}})
	defer it.Close()
	it.Rewind()
	if !it.Valid() {
		return 0, false
	}
	return binary.BigEndian.Uint32(it.Item().Key()[1:]), true
}
