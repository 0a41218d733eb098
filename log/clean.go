package log

import (
	"errors"
	"fmt"
	"time"

	"github.com/rowtrail/rowtrail/log/keyindex"
	"github.com/rowtrail/rowtrail/log/record"
)

// cleanState is what a partition knows of its compaction. Partition.mu guards it.
type cleanState struct {
	opened   int64 // offset behind the last entry when the partition was opened; 0 once the key index was compared with it
	last     time.Time
	err      error // the partition is put aside until retryAt
	retryAt  time.Time
	progress float64 // of the running round
}

// RoundStats is what rounds of compaction did.
type RoundStats struct {
	Rounds         int64 // that ended with a swap
	Failures       int64
	ReadBytes      int64
	WrittenBytes   int64
	ReclaimedBytes int64 // of the log, not yet of the disk
	RemovedRecords int64
}

func (a *RoundStats) add(b RoundStats) {
	a.Rounds += b.Rounds
	a.Failures += b.Failures
	a.ReadBytes += b.ReadBytes
	a.WrittenBytes += b.WrittenBytes
	a.ReclaimedBytes += b.ReclaimedBytes
	a.RemovedRecords += b.RemovedRecords
}

// errOvertaken ends a round that has no use: the partition was dropped, retention took what it worked on, or the topic is not
// compacted.
var errOvertaken = errors.New("compaction was overtaken")

// keyCost is about what the key index takes on disk for a record beside its key; it does so twice, in its log and in a table.
const keyCost = 40

// roundRuns is how many run ids a round takes at once.
const roundRuns = 16

// round is one compaction of one partition.
//
// Crash argument: everything it writes before the swap lies under run ids that the manifest does not name, and which were
// taken durably before, so that they are never used again.
type round struct {
	s     *Store
	p     *Partition
	index *keyindex.Index
	rest  func(bytes int64, busy time.Duration) error // between two portions of work
	now   time.Time

	cfg    Config
	man    *manifest // as the round found it
	from   horizon   // as the round found it
	cut    int64     // retireState.cut at that time
	plan   extent
	v      *survivors
	w      *runWriter
	ids    []uint64
	folded int64 // what the key index had folded
	chunk  chunk
	stats  RoundStats
	total  int64         // bytes to go over
	mark   time.Time     // when the work since the last rest began
	held   time.Duration // time since then that was spent waiting
}

// run does the round. A partition in which there is nothing to do is left alone.
func (r *round) run() error {
	if err := r.begin(); err != nil {
		return err
	}
	if r.plan.last == 0 && len(r.man.runs) == 0 {
		return nil
	}
	defer r.abandon()
	if err := r.foldKeys(); err != nil {
		return err
	}
	r.v.folded = r.folded
	if err := r.goOver(); err != nil {
		return err
	}
	if err := r.swap(); err != nil {
		return err
	}
	if r.v.lost > 0 {
		return r.resetIndex()
	}
	return r.forget()
}

// resetIndex has an index built again that was found to have lost entries. Records have stayed for want of them; none has gone.
func (r *round) resetIndex() error {
	r.s.log.Warn("the key index has lost keys of a partition; they are entered again from the log", "group", r.p.id, "records", r.v.lost)
	if err := r.index.Drop(uint64(r.p.id)); err != nil {
		return fmt.Errorf("reset key index: %w", err)
	}
	return nil
}

// forget removes the keys whose tombstones went. A crash before it leaves keys without a record, which nobody asks for.
func (r *round) forget() error {
	if len(r.v.forgot.at) == 0 {
		return nil
	}
	fold := r.index.NewFold(uint64(r.p.id))
	defer fold.Discard()
	err := r.v.forgot.each(fold.Forget)
	if err == nil {
		err = fold.Commit(r.folded)
	}
	if err != nil {
		return fmt.Errorf("forget keys: %w", err)
	}
	return nil
}

// end is the cleanable end.
func (r *round) end() int64 { return r.plan.h.base }

// begin decides what the round goes over.
func (r *round) begin() error {
	r.mark = time.Now()
	p := r.p
	p.mu.RLock()
	closed, busy := p.closed, p.runs.busy()
	r.cfg, r.man, r.from, r.cut = p.cfg, p.runs.man, p.fold.horizon, p.retire.cut
	p.mu.RUnlock()
	if closed || !r.cfg.Compact {
		return fmt.Errorf("%w: the topic was deleted, or its cleanup.policy has no compact", errOvertaken)
	}
	if busy {
		return fmt.Errorf("%w: a raftSnapshot of the partition is under way", errOvertaken)
	}
	plan, err := p.findExtent(r.now)
	if err != nil {
		return err
	}
	if plan.h.start != r.from.start || plan.last == 0 && plan.h.first != r.from.first {
		return errOvertaken
	}
	r.plan = plan
	p.mu.RLock()
	aborted := p.fold.txns.overlapping(0, r.end())
	p.mu.RUnlock()
	v := newSurvivors(aborted)
	v.now, v.expired = r.now.UnixMilli(), r.now.UnixMilli()-max(r.cfg.DeleteRetentionMs, 0)
	v.end, v.logStart = r.end()-1, r.from.logStart
	v.latest = func(key []byte) (int64, bool, error) { return r.index.Latest(uint64(p.id), key) }
	r.v = v
	r.w = &runWriter{id: p.id, limit: runBytes, newRun: r.newRun, commit: r.commit}
	r.total = 2*(r.man.bytes+r.plan.bytes) + 1
	return nil
}

// findExtent finds what of the tail may be compacted now.
func (p *Partition) findExtent(now time.Time) (extent, error) {
	p.mu.RLock()
	x := extender{
		extent:  extent{h: p.fold.horizon},
		applied: p.fold.applied, stable: p.fold.lastStable(), hwm: p.fold.hwm, youngest: now.UnixMilli() - p.cfg.MinCompactionLagMs,
	}
	x.applied = p.shared.clamp(x.applied)
	if p.cfg.MinCompactionLagMs <= 0 {
		x.youngest = int64(^uint64(0) >> 1)
	}
	p.mu.RUnlock()
	err := p.scan(x.h.first, x.add)
	return x.extent, err
}

// eachOfRun calls f for the batches of a run from an offset on, all of them or those that pick takes; what retention takes meanwhile
// is left out.
func (r *round) eachOfRun(x *run, from int64, pick func(*runMeta) bool, f func(*storedBatch) error) error {
	var batches, bytes int64
	whole := from <= x.base && pick == nil
	for more := true; more; {
		err := r.s.readRun(r.p.id, x.id, from, pick, &r.chunk)
		if !r.named(x) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range r.chunk.batches {
			b := &r.chunk.batches[i]
			batches++
			bytes += int64(len(b.data))
			from = b.meta.next()
			if err := f(b); err != nil {
				return err
			}
		}
		more = r.chunk.more
		if err := r.pause(); err != nil {
			return err
		}
	}
	if whole && (batches != x.batches || bytes != x.bytes) && r.named(x) {
		return fmt.Errorf("%w: run %d has %d batches of %d bytes, the manifest says %d of %d", ErrCorrupt, x.id, batches, bytes, x.batches, x.bytes)
	}
	return nil
}

// named reports that a run is still part of the log.
func (r *round) named(x *run) bool {
	r.p.mu.RLock()
	defer r.p.mu.RUnlock()
	return r.p.runs.man.names(x.id)
}

// eachOfTail is eachOfRun for the extent.
func (r *round) eachOfTail(from uint64, f func(*storedBatch) error) error {
	for from <= r.plan.last {
		first := r.p.FirstIndex()
		from = max(from, first)
		err := r.p.readTail(from, r.plan.last, &r.chunk)
		if r.p.FirstIndex() != first {
			continue // retention passed by
		}
		if err != nil {
			return err
		}
		for i := range r.chunk.batches {
			b := &r.chunk.batches[i]
			if err := f(b); err != nil {
				return err
			}
			from = b.index + 1
		}
		if !r.chunk.more {
			from = r.plan.last + 1
		}
		if err := r.pause(); err != nil {
			return err
		}
	}
	return nil
}

// pause accounts for the chunk that was read and rests.
func (r *round) pause() error {
	n := int64(len(r.chunk.buf))
	r.stats.ReadBytes += n
	r.p.mu.Lock()
	closed := r.p.closed || !r.p.cfg.Compact
	r.p.runs.clean.progress = min(float64(r.stats.ReadBytes)/float64(r.total), 1)
	r.p.mu.Unlock()
	if closed {
		return errOvertaken
	}
	busy := time.Since(r.mark) - r.held
	err := r.rest(n, busy)
	r.mark, r.held = time.Now(), 0
	return err
}

// foldKeys brings the key index to the cleanable end.
func (r *round) foldKeys() error {
	group := uint64(r.p.id)
	next, err := r.index.Folded(group)
	if err != nil {
		return fmt.Errorf("read key index: %w", err)
	}
	r.p.mu.Lock()
	known := max(r.p.fold.hwm, r.p.stored.next)
	if x := &r.p.runs.clean; x.opened > 0 {
		known, x.opened = x.opened, 0
	}
	r.p.mu.Unlock()
	if next > known || r.man.retired > resetAfter+2*(r.man.bytes+r.plan.bytes) {
		// It is of another log than this one, or full of keys whose records retention has taken.
		if err := r.index.Drop(group); err != nil {
			return fmt.Errorf("reset key index: %w", err)
		}
		next = 0
		if err := r.resetRetired(); err != nil {
			return err
		}
	}
	r.folded = next
	r.v.later = keyindex.NewSketch(r.from.base, r.end()-r.from.base)
	if next < r.from.base {
		r.v.compared = r.from.base // what the rounds before left because the index had lost it goes now
	}
	fold := r.index.NewFold(group)
	reader := record.NewReader(maxDecompressed)
	add := func(b *storedBatch) error {
		// The index is written through memory maps too, where a full disk is a SIGBUS.
		if err := r.s.compactionRoom(int64(len(b.data))); err != nil {
			return err
		}
		if err := reader.Reset(b.data); err != nil {
			return err
		}
		indexed := int64(0)
		defer func() { r.s.space.grew(indexed) }()
		h := reader.BatchHeader()
		if h.Control() || r.v.isAborted(h) {
			return nil
		}
		for reader.Next() {
			x := reader.Record()
			if x.Key == nil || x.Offset < min(next, r.from.base) {
				continue
			}
			if x.Offset >= r.from.base {
				r.v.later.Put(x.Key, x.Offset)
			}
			if x.Offset >= next {
				if err := fold.Put(x.Key, x.Offset); err != nil {
					return err
				}
				indexed += 2 * (int64(len(x.Key)) + keyCost)
			}
		}
		return reader.Err()
	}
	if err := r.each(min(next, r.from.base), add); err != nil {
		fold.Discard()
		return fmt.Errorf("fold keys: %w", err)
	}
	if next < r.end() {
		if err := fold.Commit(r.end()); err != nil {
			return fmt.Errorf("fold keys: %w", err)
		}
		r.folded = r.end()
	}
	return r.noteMortal(reader)
}

// noteMortal enters the tombstones that may go in this round into the sketch, so that the index is asked about each older record of
// their keys: invariant 10 must not rest on what a round before has decided.
func (r *round) noteMortal(reader *record.Reader) error {
	mortal := func(m *runMeta) bool { return m.clean != 0 && m.clean <= r.v.expired }
	for i := range r.man.runs {
		x := &r.man.runs[i]
		if x.clean == 0 {
			continue
		}
		if err := r.eachOfRun(x, x.base, mortal, func(b *storedBatch) error {
			if err := reader.Reset(b.data); err != nil {
				return err
			}
			for reader.Next() {
				if k := reader.Record(); k.Key != nil && k.Value == nil {
					r.v.later.Put(k.Key, k.Offset)
				}
			}
			return reader.Err()
		}); err != nil {
			return fmt.Errorf("look for tombstones: %w", err)
		}
	}
	return nil
}

// each calls f for every batch below the cleanable end that ends behind offset, in order.
func (r *round) each(offset int64, f func(*storedBatch) error) error {
	for i := r.man.find(offset); i < len(r.man.runs); i++ {
		if err := r.eachOfRun(&r.man.runs[i], max(offset, r.man.runs[i].base), nil, f); err != nil {
			return err
		}
	}
	if offset >= r.end() {
		return nil
	}
	r.p.mu.RLock()
	lo, _ := r.p.fold.index.bracket(offset, r.plan.last)
	r.p.mu.RUnlock()
	return r.eachOfTail(max(lo, r.from.first), f)
}

// goOver writes the survivors of everything below the cleanable end into new runs, and takes runs over in which nothing
// dies.
func (r *round) goOver() error {
	for i := range r.man.runs {
		x := &r.man.runs[i]
		following := r.w.cur.bytes
		if following == 0 {
			following = r.plan.bytes
			if i+1 < len(r.man.runs) {
				following = r.man.runs[i+1].bytes
			}
		}
		if err := r.goOverRun(x, x.joins(following)); err != nil {
			return err
		}
	}
	if err := r.eachOfTail(r.from.first, func(b *storedBatch) error {
		y, err := r.v.judge(b.data, 0)
		if err != nil || !y.keep {
			return err
		}
		return r.write(b, &y)
	}); err != nil {
		return err
	}
	return r.w.close(r.end())
}

func (r *round) goOverRun(x *run, rewrite bool) error {
	if err := r.eachOfRun(x, x.base, nil, func(b *storedBatch) error {
		y, err := r.v.judge(b.data, b.meta.clean)
		if err != nil {
			return err
		}
		if !rewrite && y.changed {
			// The first batch that is not as it was: those before it are copied.
			rewrite = true
			if err := r.copyRun(x, b.meta.base); err != nil {
				return err
			}
		}
		if !rewrite || !y.keep {
			return nil
		}
		return r.write(b, &y)
	}); err != nil {
		return err
	}
	if !rewrite {
		return r.w.takeOver(*x)
	}
	return nil
}

// copyRun writes the batches of a run below an offset as they are.
func (r *round) copyRun(x *run, below int64) error {
	kept := r.chunk
	r.chunk = chunk{}
	defer func() { r.chunk = kept }()
	errDone := errors.New("done")
	err := r.eachOfRun(x, x.base, nil, func(b *storedBatch) error {
		if b.meta.base >= below {
			return errDone
		}
		return r.w.add(b.meta, b.data)
	})
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

func (r *round) write(b *storedBatch, y *verdict) error {
	h, err := record.ParseHeader(y.batch)
	if err != nil {
		return err
	}
	m := b.meta
	m.clean, m.maxTs = y.clean, h.MaxTimestamp
	return r.w.add(m, y.batch)
}

// newRun gives out a run id. Ids are taken durably before anything is written under them: what a crash leaves there must never
// be taken for a part of another run.
func (r *round) newRun() (uint64, error) {
	if len(r.ids) == 0 {
		if err := r.change(func(p *Partition) {
			man := p.runs.man
			p.runs.man = man.reserve(roundRuns)
			p.runs.writing = min(p.runs.writing, man.nextRun)
			for i := range uint64(roundRuns) {
				r.ids = append(r.ids, man.nextRun+i)
			}
		}); err != nil {
			return 0, fmt.Errorf("take run ids: %w", err)
		}
	}
	id := r.ids[0]
	r.ids = r.ids[1:]
	return id, nil
}

func (r *round) resetRetired() error {
	return r.change(func(p *Partition) {
		p.runs.man = newManifest(p.runs.man.nextRun, 0, p.runs.man.runs)
	})
}

// change makes another manifest durable.
func (r *round) change(f func(*Partition)) error {
	return r.commitWith(0, func(c *commit) error {
		r.p.mu.Lock()
		f(r.p)
		r.p.retire.moved++
		r.p.mu.Unlock()
		return c.addCheckpoint(r.p)
	})
}

// commit makes a portion of the survivors durable.
func (r *round) commit(puts []runPut, n int64) error {
	err := r.commitWith(n, func(c *commit) error {
		for _, x := range puts {
			if err := c.set(x.key, x.value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.stats.WrittenBytes += n
	r.p.mu.Lock()
	r.p.runs.written += n
	r.p.mu.Unlock()
	return nil
}

// commitWith makes one transaction durable, between those of producers.
func (r *round) commitWith(n int64, gather func(*commit) error) error {
	start := time.Now()
	defer func() { r.held += time.Since(start) }()
	s := r.s
	if err := s.compactionRoom(n); err != nil && n > 0 {
		return err // the room that is left is for what is proposed, and for what gives space back without taking any
	}
	s.slow(n)
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if err := s.makeRoom(n); err != nil {
		return err
	}
	if s.dropped(r.p.id) {
		return errOvertaken
	}
	c := s.newCommit()
	defer c.discard()
	if err := gather(c); err != nil {
		return err
	}
	return c.flush()
}

func (s *Store) dropped(id GroupID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drops[id] != nil
}
