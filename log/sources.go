package log

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

const (
	// chunkBytes and chunkBatches bound what a round reads at a time. No snapshot of the database is held between two chunks, so that
	// value-log garbage collection can go on.
	chunkBytes   = 1 << 20
	chunkBatches = 4096
)

// storedBatch is one batch that a round reads.
type storedBatch struct {
	meta  runMeta
	index uint64 // in the tail
	data  []byte
}

// chunk is a stretch of batches, read at once. Its buffers are used again for the next one.
type chunk struct {
	batches []storedBatch
	buf     []byte
	ends    []int
	more    bool // there is something behind it
}

func (c *chunk) reset() {
	c.batches, c.buf, c.ends, c.more = c.batches[:0], c.buf[:0], c.ends[:0], false
}

func (c *chunk) full() bool { return len(c.buf) >= chunkBytes || len(c.batches) >= chunkBatches }

func (c *chunk) add(m runMeta, index uint64, b []byte) {
	c.buf = append(c.buf, b...)
	c.batches = append(c.batches, storedBatch{meta: m, index: index})
	c.ends = append(c.ends, len(c.buf))
}

// seal cuts the buffer, which does not move any more.
func (c *chunk) seal() {
	from := 0
	for i, end := range c.ends {
		c.batches[i].data = c.buf[from:end:end]
		from = end
	}
}

// readRun reads batches of a run from the one that holds offset on, all of them or those that pick takes.
func (s *Store) readRun(id GroupID, run uint64, offset int64, pick func(*runMeta) bool, c *chunk) error {
	c.reset()
	err := s.view(func(txn *badger.Txn) error {
		it := newRunIterator(txn, id)
		defer it.close()
		ok, err := it.seek(run, offset)
		for ; ok && err == nil; ok, err = it.next() {
			if pick != nil && !pick(&it.meta) {
				continue
			}
			if c.full() {
				c.more = true
				return nil
			}
			m := it.meta
			if err := it.value(func(b []byte) error {
				c.add(m, 0, b)
				return nil
			}); err != nil {
				return err
			}
		}
		return err
	})
	c.seal()
	return err
}

// readTail reads batches of the tail, the entries of [from, to]. A gap ends the chunk with an error.
func (p *Partition) readTail(from, to uint64, c *chunk) error {
	c.reset()
	want := from
	err := p.store.view(func(txn *badger.Txn) error {
		it := p.iterate(txn)
		defer it.close()
		ok, err := it.seek(from)
		for ; ok && err == nil && it.meta.index <= to; ok, err = it.next() {
			if c.full() {
				c.more = true
				return nil
			}
			m := it.meta
			if m.index != want {
				return fmt.Errorf("%w: entry %d is missing before offset %d", ErrCorrupt, want, m.base)
			}
			want++
			if m.typ != EntryBatch {
				continue
			}
			if err := it.value(func(b []byte) error {
				c.add(runMeta{last: m.next() - 1, base: m.base, epoch: epochOf(m.term), maxTs: m.maxTs, size: m.size}, m.index, b)
				return nil
			}); err != nil {
				return err
			}
		}
		if err == nil && want <= to {
			err = fmt.Errorf("%w: entry %d is missing", ErrCorrupt, want)
		}
		return err
	})
	c.seal()
	return err
}
