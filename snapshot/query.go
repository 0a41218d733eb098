package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// hit is a record that a view found.
type hit struct {
	entry
	part     *partition
	offset   int64
	truncate bool   // the record ends the life of every key before it in its partition
	form     []byte // of its key; of a scan of some partitions only
}

// newer orders hits of one key that lies in several partitions, as after partitions were added.
func (h *hit) newer(o *hit) bool { return h.rank().newer(o.rank()) }

func (h *hit) rank() rank {
	return rank{placed: h.place == placeKnown, commit: h.commit, timestamp: h.timestamp, partition: h.part.number}
}

// within tells whether a cut takes the record in. All records of a source transaction get the same answer for a time or
// a position (invariant 5).
func (h *hit) within(at *At) (bool, error) {
	switch {
	case at.Offset != nil:
		return h.offset <= *at.Offset, nil
	case at.Position != nil:
		if h.place != placeKnown {
			return false, fmt.Errorf("partition %d offset %d: %w", h.part.number, h.offset, ErrNoPosition)
		}
		return h.commit <= *at.Position, nil
	case at.Time != nil:
		switch h.place {
		case placeKnown:
			return h.commitTime <= at.Time.UnixMicro(), nil
		case placeNone:
			return h.timestamp <= at.Time.UnixMilli(), nil
		default:
			return false, fmt.Errorf("partition %d offset %d: %w", h.part.number, h.offset, ErrNoPosition)
		}
	}
	return true, nil
}

// cursor walks one partition's entries.
type cursor struct {
	part    *partition
	start   int64 // the log start: what is below it is gone
	state   state // of the fold, as the query sees it
	it      *badger.Iterator
	keyPart []byte // scratch
	any     bool   // the query met an entry of its key
	// emptied are the truncates that the query sees, latest first. Before the latest, no key lives.
	emptied []hit
}

// view is one consistent reading of partitions of a topic. It keeps the database open until it is closed.
type view struct {
	views   *Views
	parts   []*partition
	txn     *badger.Txn
	whole   map[*partition]int64 // where compaction had come to before the folds had caught up
	cursors []*cursor
	least   []byte // the key that a scan has come to
}

// open catches up and fixes what the query will see of partitions of a topic, none named: of all. A fold that was dropped meanwhile may miss
// entries, so it is looked for again.
func (v *Views) open(ctx context.Context, name string, numbers ...int32) (*view, error) {
	if err := v.enter(); err != nil {
		return nil, err
	}
	for {
		parts, err := v.current(ctx, name, numbers...)
		if err != nil {
			v.leave()
			return nil, err
		}
		whole := make(map[*partition]int64, len(parts))
		for _, p := range parts {
			whole[p] = p.src.Whole()
		}
		if parts, err = v.current(ctx, name, numbers...); err != nil {
			v.leave()
			return nil, err
		}
		txn := v.db.NewTransaction(false)
		if !slices.ContainsFunc(parts, (*partition).isDropped) {
			return &view{views: v, parts: parts, txn: txn, whole: whole}, nil
		}
		txn.Discard()
	}
}

// deleted tells of the latest entry of a key in a cut, whose record compaction has taken, that the key is deleted there. As long as compaction has
// come no further than before the fold had caught up, the fold knows of every record that is left. What superseded the record lies below what
// compaction has come to; where the cut takes in all of that and has no later entry of the key, it was a delete, whose tombstone went before it
// was folded.
func (w *view) deleted(h *hit, at *At) bool {
	whole, known := w.whole[h.part]
	if !known || h.part.src.Whole() != whole {
		return false
	}
	return at.now() || at.Offset != nil && *at.Offset >= whole-1
}

// covers tells whether a cut takes in all that is missing of a partition. In one that does not, a key may have lived again after a tombstone that is
// gone, with neither its record nor the next tombstone left to tell of it.
func (w *view) covers(p *partition, at *At) bool {
	i := slices.IndexFunc(w.cursors, func(c *cursor) bool { return c.part == p })
	return w.cursors[i].state.covers(at, w.cursors[i].start)
}

func (w *view) close() {
	for _, c := range w.cursors {
		c.it.Close()
	}
	w.txn.Discard()
	w.views.leave()
}

// seek opens a cursor on each partition for what starts with its prefix and suffix.
func (w *view) seek(suffix []byte, reverse bool, at *At) error {
	for _, p := range w.parts {
		st, err := readState(w.txn, p.id)
		if err != nil {
			return err
		}
		c := &cursor{part: p, start: p.src.Marks().LogStart, state: st}
		prefix := append(entryPrefix(nil, p.id), suffix...)
		c.it = w.txn.NewIterator(badger.IteratorOptions{Prefix: prefix, Reverse: reverse})
		w.cursors = append(w.cursors, c)
		if reverse {
			c.it.Seek(append(slices.Clone(prefix), bytes.Repeat([]byte{0xff}, offsetLen)...))
		} else {
			c.it.Rewind()
		}
		if err := c.findTruncates(w.txn, at); err != nil {
			return err
		}
	}
	return nil
}

// hit reads the entry that the cursor stands on.
func (c *cursor) hit() (hit, error) { return c.part.hit(c.it.Item()) }

func (p *partition) hit(item *badger.Item) (h hit, err error) {
	_, offset := splitEntryKey(item.Key())
	h = hit{part: p, offset: offset}
	err = item.Value(func(b []byte) error {
		h.entry, err = parseEntry(b)
		return err
	})
	return h, err
}

// first walks the entries that start with keyPart, latest first, to the one that the cut shows. Below the point from which on
// entries are whole the last one of a key is surely there, so what a cut shows is known unless it leaves out one of these.
func (c *cursor) first(keyPart []byte, at *At) (h hit, found bool, err error) {
	for step := 0; c.it.ValidForPrefix(keyPart); step++ {
		if step == nextSteps && at.Offset != nil {
			c.it.Seek(appendOffset(slices.Clone(keyPart), max(*at.Offset, c.state.whole-1)))
			continue
		}
		if h, err = c.hit(); err != nil {
			return h, false, err
		}
		if h.offset < c.start {
			return h, false, nil
		}
		c.any = true
		ok, err := h.within(at)
		switch {
		case err != nil:
			return h, false, err
		case ok && len(c.emptied) > 0 && h.offset < c.emptied[0].offset:
			return c.emptied[0], true, nil
		case ok:
			return h, true, nil
		case h.offset < c.state.whole:
			return h, false, c.lost()
		}
		c.it.Next()
	}
	return h, false, nil
}

// lost is the error of a question that needs what compaction has taken.
func (c *cursor) lost() *CompactedError {
	return &CompactedError{Topic: c.part.topic, Partition: c.part.number, Whole: max(c.state.whole, c.part.src.Whole())}
}

// absent is called when no cursor found its key. That answers the question only where the cut takes in all that is missing:
// the key may have been deleted, and its tombstone forgotten.
func (w *view) absent(at *At) error {
	var unsure *cursor
	for _, c := range w.cursors {
		if !c.state.covers(at, c.start) && (unsure == nil || c.any) {
			unsure = c
		}
	}
	if unsure == nil {
		return nil
	}
	lost := unsure.lost()
	lost.Absent = true
	return lost
}

// nextSteps is how many entries a cursor walks before it seeks instead.
const nextSteps = 8

// leave moves the cursor behind all entries of keyPart.
func (c *cursor) leave(keyPart []byte) {
	for range nextSteps {
		if !c.it.ValidForPrefix(keyPart) {
			return
		}
		c.it.Next()
	}
	if c.it.ValidForPrefix(keyPart) {
		c.it.Seek(append(appendOffset(slices.Clone(keyPart), 0), 0))
	}
}

// Latest returns the last record of a key at a cut; found is false when there is none. The record of a deleted key is a
// tombstone, or the truncate that emptied its table: found, and Deleted.
//
// Where the topic was compacted, the answer is right or an ErrCompacted; now is always answered.
func (v *Views) Latest(ctx context.Context, topic string, key []byte, at At) (row Row, found bool, err error) {
	return v.LatestIn(ctx, topic, nil, key, at)
}

// LatestIn is Latest of some partitions; none: of all. A CompactedError that is Absent speaks for these partitions alone.
func (v *Views) LatestIn(ctx context.Context, topic string, partitions []int32, key []byte, at At) (row Row, found bool, err error) {
	if err := at.check(); err != nil {
		return Row{}, false, err
	}
	err = v.retry(topic, at, func() (again bool, err error) {
		row, found, err = v.latest(ctx, topic, partitions, key, at)
		return true, err
	})
	return row, found, err
}

// retry repeats a question about now when compaction took a record between the view's reading and the log's: there is a
// newer one by then.
func (v *Views) retry(topic string, at At, ask func() (again bool, err error)) error {
	for range retries {
		again, err := ask()
		if !at.now() || !errors.Is(err, ErrCompacted) {
			return err
		}
		if !again {
			break
		}
	}
	return fmt.Errorf("compaction of %s took records while they were read: %w", topic, ErrNotReady)
}

func (v *Views) latest(ctx context.Context, topic string, partitions []int32, key []byte, at At) (row Row, found bool, err error) {
	var best hit
	w, err := v.open(ctx, topic, partitions...)
	if err != nil {
		return Row{}, false, err
	}
	defer w.close()
	if err := w.seek(appendKey(nil, key), false, &at); err != nil {
		return Row{}, false, fmt.Errorf("look up key in %s: %w", topic, err)
	}
	for _, c := range w.cursors {
		h, ok, err := c.first(appendKey(entryPrefix(nil, c.part.id), key), &at)
		if err != nil {
			return Row{}, false, fmt.Errorf("look up key in %s: %w", topic, err)
		}
		if ok && (!found || h.newer(&best)) {
			best, found = h, true
		}
	}
	if !found {
		if err := w.absent(&at); err != nil {
			return Row{}, false, fmt.Errorf("look up key in %s: %w", topic, err)
		}
		return Row{}, false, nil
	}
	r := v.rowReader(topic)
	defer v.release(r)
	row, found, err = r.read(&best)
	switch {
	case errors.Is(err, ErrCompacted) && best.tombstone && w.covers(best.part, &at):
		row, found, err = r.row(&best), true, nil // all that there is to know of it is in the entry
		row.Key = key
	case errors.Is(err, ErrCompacted) && w.deleted(&best, &at):
		return Row{}, false, nil
	case err != nil || !found:
		return Row{}, false, err
	}
	if best.truncate {
		row.Key = key
	}
	if !bytes.Equal(row.Key, key) {
		return Row{}, false, fmt.Errorf("look up key in %s: another key of the same hash lies at partition %d offset %d",
			topic, row.Partition, row.Offset)
	}
	row.Key, row.Value = bytes.Clone(row.Key), bytes.Clone(row.Value)
	row.Place, row.OldKey = bytes.Clone(row.Place), bytes.Clone(row.OldKey)
	return row, true, nil
}

// Scan calls fn for the record of each key that lives at the cut, in order of the keys (shorter ones first). A Row's
// slices are valid until fn returns. An error of fn ends the scan and is returned.
//
// Where the topic was compacted, the rows are those of the cut or the scan ends with ErrCompacted, at the latest at the first
// row that is gone. A scan of now that compaction overtakes after its first rows ends with ErrNotReady: ask again.
func (v *Views) Scan(ctx context.Context, topic string, at At, fn func(Row) error) error {
	return v.scanAll(ctx, topic, nil, false, at, fn)
}

// ScanIn is Scan of some partitions. Since a key may lie in others, too, the last records of keys that are deleted in these partitions are told as
// well, as rows that are Deleted; of these, only what Row's order needs is sure to be known.
func (v *Views) ScanIn(ctx context.Context, topic string, partitions []int32, at At, fn func(Row) error) error {
	return v.scanAll(ctx, topic, partitions, true, at, fn)
}

func (v *Views) scanAll(ctx context.Context, topic string, partitions []int32, deleted bool, at At, fn func(Row) error) error {
	if err := at.check(); err != nil {
		return err
	}
	told := false
	return v.retry(topic, at, func() (again bool, err error) {
		err = v.scan(ctx, topic, partitions, deleted, at, func(r Row) error {
			told = true
			return fn(r)
		})
		return !told, err
	})
}

func (v *Views) scan(ctx context.Context, topic string, partitions []int32, deleted bool, at At, fn func(Row) error) error {
	w, err := v.open(ctx, topic, partitions...)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.seek(nil, false, &at); err != nil {
		return fmt.Errorf("scan %s: %w", topic, err)
	}
	if err := w.absent(&at); err != nil { // of some key that no entry tells of
		return fmt.Errorf("scan %s: %w", topic, err)
	}
	reader := v.rowReader(topic)
	defer v.release(reader)
	win := newWindow(reader, fn)
	win.gone = func(h *hit) bool { return w.deleted(h, &at) }
	for {
		if !w.leastKey() {
			return win.flush(ctx)
		}
		if isTruncateKey(w.least) {
			w.pass(w.least)
			continue
		}
		h, found, err := w.take(w.least, &at)
		if err != nil {
			return fmt.Errorf("scan %s: %w", topic, err)
		}
		if found && deleted {
			h.form = bytes.Clone(w.least)
		}
		if found && (deleted || !h.tombstone) {
			if err := win.add(ctx, h); err != nil {
				return err
			}
		}
	}
}

// leastKey finds the smallest record key, in its stored form, that any cursor stands on.
func (w *view) leastKey() bool {
	var least []byte
	for _, c := range w.cursors {
		if !c.it.Valid() {
			continue
		}
		keyPart, _ := splitEntryKey(c.it.Item().Key())
		if k := keyPart[prefixLen:]; least == nil || bytes.Compare(k, least) < 0 {
			least = k
		}
	}
	w.least = append(w.least[:0], least...)
	return least != nil
}

// take finds what the cut shows of a key and moves all cursors behind it.
func (w *view) take(key []byte, at *At) (best hit, found bool, err error) {
	for _, c := range w.cursors {
		keyPart := c.key(key)
		if !c.it.ValidForPrefix(keyPart) {
			continue
		}
		h, ok, err := c.first(keyPart, at)
		if err != nil {
			return best, false, err
		}
		if ok && (!found || h.newer(&best)) {
			best, found = h, true
		}
		c.leave(keyPart)
	}
	return best, found, nil
}

// pass moves all cursors behind a key.
func (w *view) pass(key []byte) {
	for _, c := range w.cursors {
		c.leave(c.key(key))
	}
}

// key is what the entries of a record key in its stored form start with in the cursor's partition.
func (c *cursor) key(form []byte) []byte {
	c.keyPart = append(entryPrefix(c.keyPart[:0], c.part.id), form...)
	return c.keyPart
}
