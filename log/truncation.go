package log

import (
	"encoding/binary"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// cutMark says that the log was once cut at index from. Badger gives every write a version that rises with each transaction, and keeps it when
// its garbage collection moves a value; so an entry at or above from with an older version was deleted, and is back.
type cutMark struct {
	from    uint64
	version uint64
}

// marks are what a partition knows of its cuts; both fields rise along the list, since a cut replaces the marks at and above it.
//
// Invariant: an entry that is part of the log has, for every mark at or below its index, at least the mark's version: what stands above a
// cut was written in or after the transaction of the cut.
type marks []cutMark

// ghost reports that an entry was deleted by a cut and is not part of the log.
func (m marks) ghost(index, version uint64) bool {
	for i := len(m) - 1; i >= 0; i-- {
		if m[i].from <= index {
			return version < m[i].version // the versions before are lower
		}
	}
	return false
}

// with is the list behind another cut.
func (m marks) with(x cutMark) marks {
	n := 0
	for n < len(m) && m[n].from < x.from {
		n++
	}
	return append(m[:n:n], x)
}

// collapse joins the marks that lie below first, since nothing is asked of what is below it: the newest of them says all.
func (m marks) collapse(first uint64) marks {
	n := 0
	for n+1 < len(m) && m[n+1].from <= first {
		n++
	}
	return m[n:]
}

const markKeyLen = groupKeyLen + 8

func markKey(id GroupID, from uint64) []byte {
	k := make([]byte, 0, markKeyLen)
	return binary.BigEndian.AppendUint64(append(k, groupKey(spaceMark, id)...), from)
}

// loadMarks reads a partition's marks. Those that a later cut replaced may still be there; they say nothing wrong.
func (p *Partition) loadMarks(txn *badger.Txn) error {
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false
	opt.Prefix = groupKey(spaceMark, p.id)
	it := txn.NewIterator(opt)
	defer it.Close()
	var all marks
	for it.Rewind(); it.Valid(); it.Next() {
		k := it.Item().Key()
		if len(k) != markKeyLen {
			return fmt.Errorf("%w: %x is not a mark's key", ErrFormat, k)
		}
		x := cutMark{from: binary.BigEndian.Uint64(k[groupKeyLen:]), version: it.Item().Version()}
		if n := len(all); n == 0 || all[n-1].version < x.version {
			all = append(all, x) // else a later cut, further down, says more
		}
	}
	p.marks = all.collapse(p.fold.horizon.first)
	return nil
}

// markCut makes a truncation known for as long as what it deletes may come back.
func (c *commit) markCut(v *view, from uint64) error {
	key := markKey(v.p.id, from)
	if err := c.reserve(writeCost(key, nil)); err != nil {
		return err
	}
	return c.set(key, nil)
}

// installMark takes over a durable mark with the version that Badger gave it.
func (s *Store) installMark(p *Partition, from uint64) {
	err := s.view(func(txn *badger.Txn) error {
		item, err := txn.Get(markKey(p.id, from))
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.marks = p.marks.with(cutMark{from, item.Version()}).collapse(p.fold.horizon.first)
		p.mu.Unlock()
		return nil
	})
	if err != nil {
		s.fatal(fmt.Errorf("read back the mark of a truncation in group %d: %w", p.id, err))
	}
}

// oldMarks deletes, with the horizon's move, the marks that say nothing any more.
func (c *commit) oldMarks(p *Partition) error {
	p.mu.Lock()
	before := p.marks
	p.marks = before.collapse(p.fold.horizon.first)
	gone := before[:len(before)-len(p.marks)]
	p.mu.Unlock()
	for _, x := range gone {
		if err := c.delete(markKey(p.id, x.from)); err != nil {
			return err
		}
	}
	return nil
}

// deleteMarks deletes the marks of a dropped group, as many as fit.
func (c *commit) deleteMarks(id GroupID) error {
	return c.s.view(func(txn *badger.Txn) error {
		opt := badger.DefaultIteratorOptions
		opt.PrefetchValues = false
		opt.Prefix = groupKey(spaceMark, id)
		it := txn.NewIterator(opt)
		defer it.Close()
		for it.Rewind(); it.Valid() && c.fits(deleteCost); it.Next() {
			if err := c.delete(it.Item().KeyCopy(nil)); err != nil {
				return err
			}
		}
		return nil
	})
}
