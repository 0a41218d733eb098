package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
)

var (
	errDropped  = errors.New("partition is not followed any more")
	errOtherLog = errors.New("the log is another than the one that was folded")
)

// partition folds one partition's log.
type partition struct {
	id     uint32 // of the fold
	topic  string
	number int32
	src    Source

	mu       sync.Mutex
	dropped  bool // another fold has taken its place, or the partition is not here any more: nothing may be written
	verified bool // the log is the one that was folded
	// Invariant: the entries in the database are the fold of the log up to next, but for those below the log start
	// that a sweep has not reached.
	state state
	swept int64 // entries below this offset are gone from the database
	// trimmed: entries below this offset, of records that compaction has taken, are gone from it.
	trimmed int64
	// truncated: there may be entries of truncates. A topic that has none, as most, is not searched for them.
	truncated bool
	reader    *record.Reader
	aborts    aborts
	buf       []byte
}

func newPartition(id uint32, f fold, src Source, st state) *partition {
	p := &partition{
		id: id, topic: f.topic, number: f.partition, src: src, state: st, verified: st == state{}, reader: record.NewReader(maxBatchUnpacked),
	}
	if p.verified {
		p.state.log, p.state.installed = uint64(src.ID()), src.Installed()
	}
	return p
}

// catchUp folds up to target.
func (p *partition) catchUp(ctx context.Context, db *badger.DB, target int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		done, err := p.step(db, target)
		if err != nil || done {
			return err
		}
	}
}

// behind tells how many offsets are left to fold.
func (p *partition) behind() int64 {
	m := p.src.Marks()
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, m.LastStable-max(p.state.next, m.LogStart))
}

// step folds one bounded piece of the log. done: the fold has reached target.
func (p *partition) step(db *badger.DB, target int64) (done bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropped {
		return false, errDropped
	}
	if p.src.Installed() != p.state.installed {
		return false, errOtherLog
	}
	if err := p.verify(); err != nil {
		return false, err
	}
	if start := p.src.Marks().LogStart; p.state.next < start {
		// What retention took before it was folded is no part of the view.
		st := p.state
		st.next, st.base, st.last, st.epoch, st.crc = start, 0, 0, 0, 0
		if err := p.save(db, st); err != nil {
			return false, err
		}
	}
	if p.state.next >= target {
		return true, nil
	}
	res, err := p.src.Read(p.state.next, foldBytes, true, log.ReadCommitted)
	if errors.Is(err, log.ErrOffsetOutOfRange) && p.src.Marks().LogStart > p.state.next {
		return false, nil // retention was faster: the next step begins at the new log start
	}
	if err != nil {
		return false, fmt.Errorf("fold partition %d at offset %d: %w", p.number, p.state.next, err)
	}
	if len(res.Batches) == 0 {
		return false, fmt.Errorf("fold partition %d at offset %d: the log gave nothing below its last stable offset %d: %w",
			p.number, p.state.next, res.Marks.LastStable, ErrNotReady)
	}
	return false, p.foldBatches(db, res)
}

// verify compares the log, and its batch at the end of the fold, with what was folded. Until then the fold may be of a deleted
// topic of the same name. What compaction may do to a batch makes no other log of it.
func (p *partition) verify() error {
	if p.verified {
		return nil
	}
	m := p.src.Marks()
	last := p.state.next - 1
	switch {
	case p.state.log != uint64(p.src.ID()) || p.state.next > m.End:
		return errOtherLog
	case last < m.LogStart || p.state.crc == 0:
		// Nothing of the fold is left to answer with: every entry is below the log start.
		p.verified = last < m.LogStart
		if !p.verified {
			return errOtherLog
		}
		return nil
	case last >= m.HighWatermark:
		return fmt.Errorf("check partition %d: %w", p.number, ErrNotReady)
	}
	res, err := p.src.Read(last, 1, true, log.ReadUncommitted)
	if err != nil {
		return fmt.Errorf("check partition %d at offset %d: %w", p.number, last, err)
	}
	h, err := record.ParseHeader(res.Batches)
	if err != nil {
		return fmt.Errorf("check partition %d at offset %d: %w", p.number, last, err)
	}
	compacted := last < p.src.Whole() // asked for after the read, so that it is true of the batch
	same := h.BaseOffset == p.state.base && h.LastOffset() == p.state.last && h.LeaderEpoch == p.state.epoch
	switch {
	case compacted && h.BaseOffset > last: // the batch is gone
	case !same, !compacted && h.CRC != p.state.crc:
		return errOtherLog
	}
	p.verified = true
	return nil
}

// foldBatches writes the entries of whole or partial batches, each Badger transaction with the offset that it reaches.
func (p *partition) foldBatches(db *badger.DB, res log.ReadResult) error {
	w := writer{p: p, db: db, next: p.state}
	defer w.discard()
	p.aborts.reset(res.Aborted)
	for rest := res.Batches; len(rest) > 0; {
		batch, after, err := record.Next(rest)
		if err != nil {
			return fmt.Errorf("fold partition %d at offset %d: %w", p.number, w.next.next, err)
		}
		rest = after
		h, err := record.ParseHeader(batch)
		if err != nil {
			return fmt.Errorf("fold partition %d at offset %d: %w", p.number, w.next.next, err)
		}
		if h.BaseOffset > w.next.next {
			w.lacks(h.BaseOffset)
		}
		// Invariant 5: markers carry no data, and what was aborted never was.
		if !h.Control() && !p.aborts.contains(&h) {
			if err := p.foldBatch(&w, batch); err != nil {
				return err
			}
		}
		w.next.reach(h.LastOffset()+1, &h)
	}
	return w.commit()
}

// reach notes that the fold has come to an offset, and the batch that holds the one before.
func (s *state) reach(next int64, h *record.Header) {
	s.next, s.base, s.last, s.epoch, s.crc = next, h.BaseOffset, h.LastOffset(), h.LeaderEpoch, h.CRC
}

func (p *partition) foldBatch(w *writer, batch []byte) error {
	if err := p.reader.Reset(batch); err != nil {
		return fmt.Errorf("fold partition %d at offset %d: %w", p.number, w.next.next, err)
	}
	h := p.reader.BatchHeader()
	from := p.state.next
	want := max(from, h.BaseOffset)
	for p.reader.Next() {
		r := p.reader.Record()
		if r.Offset < from {
			continue // folded before, or below the log start inside its batch
		}
		if r.Offset > want {
			w.lacks(r.Offset)
		}
		want = r.Offset + 1
		truncate := isTruncate(r.Key, r.Value)
		if r.Key == nil && !truncate {
			continue
		}
		e := entry{timestamp: r.Timestamp, tombstone: r.Value == nil, size: int64(len(r.Key) + len(r.Value))}
		if readPlace(&e, r); e.place != placeNone && isDelete(r.Value) {
			e.tombstone = true // whether or not a tombstone follows
		}
		if w.next.next = r.Offset; r.Offset > h.BaseOffset {
			w.next.reach(r.Offset, h)
		}
		if err := w.put(r.Key, truncate, r.Offset, &e); err != nil {
			return err
		}
	}
	if err := p.reader.Err(); err != nil {
		return fmt.Errorf("fold partition %d: %w", p.number, err)
	}
	if want <= h.LastOffset() {
		w.lacks(h.LastOffset() + 1)
	}
	return nil
}

func (p *partition) save(db *badger.DB, st state) error {
	w := writer{p: p, db: db, next: st}
	defer w.discard()
	return w.commit()
}

// writer gathers entries into Badger transactions of bounded size. Invariant: a transaction holds all entries below the
// offset that it saves.
type writer struct {
	p       *partition
	db      *badger.DB
	txn     *badger.Txn
	entries int
	next    state // reached so far
}

// lacks notes that the log lacks records below an offset. What superseded them lies below the offset that compaction has come to,
// and a cut between the two cannot be told.
func (w *writer) lacks(end int64) { w.next.lacks(max(end, w.p.src.Whole())) }

func (w *writer) put(key []byte, truncate bool, offset int64, e *entry) error {
	p := w.p
	if w.entries >= foldEntries || len(p.buf) >= foldKeys {
		if err := w.commit(); err != nil {
			return err
		}
	}
	if w.txn == nil {
		w.txn = w.db.NewTransaction(true)
		p.buf, w.entries = p.buf[:0], 0
	}
	// Badger keeps the slices until the commit; growing the buffer leaves the earlier ones where they are.
	start := len(p.buf)
	p.buf = entryPrefix(p.buf, p.id)
	if truncate {
		p.buf, p.truncated = appendTruncate(p.buf), true
	} else {
		p.buf = appendKey(p.buf, key)
	}
	p.buf = appendOffset(p.buf, offset)
	mid := len(p.buf)
	p.buf = e.append(p.buf)
	w.entries++
	w.next.bounds(offset, e)
	if err := w.txn.Set(p.buf[start:mid:mid], p.buf[mid:len(p.buf):len(p.buf)]); err != nil {
		return fmt.Errorf("write view: %w", err)
	}
	return nil
}

func (w *writer) commit() error {
	if w.txn == nil {
		w.txn = w.db.NewTransaction(true)
	}
	err := w.txn.Set(stateKey(w.p.id), w.next.encode())
	if err == nil {
		err = w.txn.Commit()
	}
	w.discard()
	if err != nil {
		return fmt.Errorf("write view: %w", err)
	}
	w.p.state = w.next
	return nil
}

func (w *writer) discard() {
	if w.txn != nil {
		w.txn.Discard()
		w.txn = nil
	}
	w.p.buf, w.entries = w.p.buf[:0], 0
}

// aborts tells which batches belong to aborted transactions, going forward through one read.
type aborts struct {
	list []log.AbortedTxn // sorted by first offset
	open map[int64]int64  // producer -> last offset of its latest aborted transaction that has begun
}

func (a *aborts) reset(list []log.AbortedTxn) {
	a.list = list
	clear(a.open)
}

func (a *aborts) contains(h *record.Header) bool {
	if !h.Transactional() {
		return false
	}
	for len(a.list) > 0 && a.list[0].FirstOffset <= h.BaseOffset {
		if a.open == nil {
			a.open = make(map[int64]int64)
		}
		a.open[a.list[0].ProducerID] = a.list[0].LastOffset
		a.list = a.list[1:]
	}
	last, ok := a.open[h.ProducerID]
	return ok && h.BaseOffset <= last
}
