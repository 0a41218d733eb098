package keyindex

import (
	"encoding/binary"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Bounds of one transaction of a fold (invariant 9).
const (
	foldEntries = 4096
	foldBytes   = 512 << 10 // of keys and offsets
)

type limits struct{ entries, bytes int }

// Fold enters records into the index, in the order of their offsets. It is not safe for concurrent use.
//
// Invariant: a transaction holds, with the offset that it saves, all records put below that.
type Fold struct {
	x       *Index
	group   uint64
	begun   bool
	folded  int64 // what the index had when the fold began or last committed
	last    int64 // offset of the record put last; -1: none
	txn     *badger.Txn
	entries int
	buf     []byte // keys and values of txn
	err     error  // why the fold has ended; what follows would leave out what was lost
}

// NewFold begins a fold of a group's records, from the one at Folded on. It ends with Commit or Discard.
func (x *Index) NewFold(group uint64) *Fold { return &Fold{x: x, group: group, last: -1} }

// begin reads where the index is.
func (f *Fold) begin() error {
	if f.err != nil || f.begun {
		return f.err
	}
	folded, err := f.x.Folded(f.group)
	if err != nil {
		return err
	}
	f.folded, f.begun = folded, true
	return nil
}

// Put enters the record of a key. Offsets rise from call to call; records below Folded are passed over, as they are
// folded already.
func (f *Fold) Put(key []byte, offset int64) error {
	if err := f.begin(); err != nil {
		return err
	}
	if offset <= f.last || offset < 0 {
		return fmt.Errorf("%w: group %d: offset %d follows offset %d", ErrOrder, f.group, offset, f.last)
	}
	f.last = offset
	if offset < f.folded {
		return nil
	}
	if err := f.room(offset); err != nil {
		return err
	}
	start := len(f.buf)
	f.buf = appendKey(f.buf, f.group, key)
	end := len(f.buf)
	f.buf = binary.BigEndian.AppendUint64(f.buf, uint64(offset))
	// Badger keeps the slices until the commit; growing the buffer leaves the earlier ones where they are.
	return f.note(f.txn.Set(f.buf[start:end:end], f.buf[end:len(f.buf):len(f.buf)]))
}

// Forget removes a key whose last record is the one at offset, and which is gone from the log for good.
func (f *Fold) Forget(key []byte, offset int64) error {
	if err := f.begin(); err != nil {
		return err
	}
	if err := f.room(max(f.folded, f.last+1)); err != nil {
		return err
	}
	start := len(f.buf)
	f.buf = appendKey(f.buf, f.group, key)
	k := f.buf[start:len(f.buf):len(f.buf)]
	return f.note(f.x.use(func() error {
		latest, ok, err := read(f.txn, k)
		if err != nil || !ok || latest != offset {
			return err
		}
		return f.txn.Delete(k)
	}))
}

func (f *Fold) note(err error) error {
	f.entries++
	if err == nil {
		return nil
	}
	f.release()
	f.err = fmt.Errorf("write key index: %w", err)
	return f.err
}

// room sees to it that the transaction at hand takes one more entry. What was put so far are all records below next.
func (f *Fold) room(next int64) error {
	if f.entries >= f.x.fold.entries || len(f.buf) >= f.x.fold.bytes {
		if err := f.save(next); err != nil {
			return err
		}
	}
	if f.txn != nil {
		return nil
	}
	return f.x.use(func() error {
		f.txn = f.x.db.NewTransaction(true)
		return nil
	})
}

// Commit enters what was put, and that all records below next are folded. The fold may go on from there.
func (f *Fold) Commit(next int64) error {
	if err := f.begin(); err != nil {
		return err
	}
	if next <= f.last {
		return fmt.Errorf("%w: group %d: folded up to offset %d, but offset %d was put", ErrOrder, f.group, next, f.last)
	}
	if err := f.room(next); err != nil {
		return err
	}
	return f.save(next)
}

// save ends the transaction at hand. Folded never goes back.
func (f *Fold) save(next int64) error {
	next = max(next, f.folded)
	err := f.x.use(func() error {
		if err := f.txn.Set(foldedKey(f.group), binary.BigEndian.AppendUint64(nil, uint64(next))); err != nil {
			return err
		}
		return f.txn.Commit()
	})
	if err != nil {
		return f.note(err)
	}
	f.release()
	f.folded = next
	return nil
}

// Discard ends the fold without what is not in the index yet. What a long fold has entered stays, and Folded says how far
// it came.
func (f *Fold) Discard() {
	f.release()
	f.err = errEnded
}

func (f *Fold) release() {
	if f.txn != nil {
		f.txn.Discard()
		f.txn = nil
	}
	f.buf, f.entries = f.buf[:0], 0
}
