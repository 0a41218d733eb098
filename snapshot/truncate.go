package snapshot

import "github.com/dgraph-io/badger/v4"

// A truncate has no key and stands in every partition of its topic. It is entered in each under a form of its own, and
// a query that finds a key's record before it answers with the truncate instead.

// truncates opens an iterator on a partition's truncates, latest first.
func (p *partition) truncates(txn *badger.Txn) *badger.Iterator {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: appendTruncate(entryPrefix(nil, p.id))})
	it.Rewind()
	return it
}

func hasTruncate(txn *badger.Txn, p *partition) bool {
	it := p.truncates(txn)
	defer it.Close()
	return it.Valid()
}

// findTruncates reads the truncates that a cut shows.
func (c *cursor) findTruncates(txn *badger.Txn, at *At) error {
	c.part.mu.Lock()
	may := c.part.truncated
	c.part.mu.Unlock()
	if !may {
		return nil
	}
	it := c.part.truncates(txn)
	defer it.Close()
	for ; it.Valid(); it.Next() {
		h, err := c.part.hit(it.Item())
		if err != nil {
			return err
		}
		if h.offset < c.start {
			return nil
		}
		ok, err := h.within(at)
		if err != nil {
			return err
		}
		if ok {
			h.tombstone, h.truncate = true, true
			c.emptied = append(c.emptied, h)
		}
	}
	return nil
}
