package log

import (
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/log/record"
)

// Partition is one partition log: a state machine without goroutines. The Raft side is called by the
// group's single step worker; the reading side by anyone.
type Partition struct {
	id    GroupID
	store *Store

	mu      sync.RWMutex
	cfg     Config
	hard    HardState
	fold    fold
	staging staging
	stored  storedLog
	marks   marks
	runs    runState
	recent  recent
	hints   readHints
	changed chan struct{} // nil: nobody waits
	damaged sync.Once     // the first damage is logged
	closed  bool

	// Housekeeping that the next Commit carries.
	checkpoint checkpointState
	retire     retireState
	// shared bounds compaction to entries that are durable on every voter.
	shared   sharedBound
	received *incomingRecord // of a raftSnapshot that has not been installed; nil: none
	idle     idleProducers
}

// termStart is the first stored entry of a term.
type termStart struct{ term, index uint64 }

// storedLog describes what the database holds of the log. Only Commit and Retain move it.
type storedLog struct {
	last  uint64 // index of the last stored entry
	next  int64  // offset behind it
	terms []termStart
}

// ---- Raft side ----

// HardState returns Raft's durable vote. Its Commit covers what a checkpoint has applied, so Raft may start from
// AppliedIndex.
//
// It backs raft.Storage together with FirstIndex, LastIndex, Term and Entries. Invariant:
// FirstIndex-1 <= AppliedIndex <= LastIndex.
func (p *Partition) HardState() HardState {
	p.mu.RLock()
	defer p.mu.RUnlock()
	h := p.hard
	h.Commit = max(h.Commit, p.fold.applied)
	return h
}

// FirstIndex is the lowest index that Entries can return.
func (p *Partition) FirstIndex() uint64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.fold.horizon.first
}

// LastIndex is the highest index on disk.
func (p *Partition) LastIndex() uint64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.stored.last
}

// AppliedIndex is the index up to which the state is folded.
func (p *Partition) AppliedIndex() uint64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.fold.applied
}

// Term returns the term of a stored entry, or of the one before FirstIndex. Errors: ErrCompacted, ErrUnavailable.
func (p *Partition) Term(index uint64) (uint64, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.termLocked(index)
}

func (p *Partition) termLocked(index uint64) (uint64, error) {
	switch first := p.fold.horizon.first; {
	case index == first-1:
		return p.fold.horizon.prevTerm, nil
	case index < first:
		return 0, fmt.Errorf("term of %d: %w %d", index, ErrCompacted, first)
	case index > p.stored.last:
		return 0, fmt.Errorf("term of %d: %w %d", index, ErrUnavailable, p.stored.last)
	}
	t := p.stored.terms
	i := sort.Search(len(t), func(i int) bool { return t[i].index > index })
	return t[i-1].term, nil
}

// Entries returns the stored entries of [lo, hi), as many as fit into maxBytes but at least one. Errors: ErrCompacted,
// ErrUnavailable.
func (p *Partition) Entries(lo, hi, maxBytes uint64) ([]Entry, error) {
	p.mu.RLock()
	if first := p.fold.horizon.first; lo < first {
		p.mu.RUnlock()
		return nil, fmt.Errorf("entries from %d: %w %d", lo, ErrCompacted, first)
	}
	if hi > p.stored.last+1 {
		p.mu.RUnlock()
		return nil, fmt.Errorf("entries below %d: %w %d", hi, ErrUnavailable, p.stored.last)
	}
	if r := p.recent.at(lo); r != nil {
		defer p.mu.RUnlock()
		return p.recentEntries(lo, hi, maxBytes), nil
	}
	p.mu.RUnlock()
	return p.storedEntries(lo, hi, maxBytes)
}

func (p *Partition) recentEntries(lo, hi, maxBytes uint64) []Entry {
	var out []Entry
	var size uint64
	for i := lo; i < hi; i++ {
		r := p.recent.at(i)
		size += uint64(len(r.data))
		if len(out) > 0 && size > maxBytes {
			break
		}
		out = append(out, Entry{Index: i, Term: r.meta.term, Type: r.meta.typ, Data: r.data})
	}
	return out
}

// Stage checks a producer's batch (sequence, epoch, transaction state, size) against everything
// appended so far, committed or not, and stamps base offset and leader epoch in place.
// The caller proposes the bytes at once, or calls Unstage if Raft refused them.
//
// Checksum and record count are the caller's to check where bytes come in (record.Validate). Control batches are
// accepted: they come from a transaction coordinator, and even while the disk is full, since they only end what is open.
func (p *Partition) Stage(epoch int32, batch []byte, now time.Time) (Staged, error) {
	f, err := factsOf(batch)
	if err != nil {
		return Staged{}, err
	}
	if len(batch) > MaxBatchBytes {
		return Staged{}, fmt.Errorf("%w: %d bytes, the store takes %d", ErrTooLarge, len(batch), MaxBatchBytes)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Staged{}, ErrClosed
	}
	if !f.control && !p.cfg.BelowWatermark {
		if err := p.store.Writable(); err != nil {
			return Staged{}, err
		}
	}
	if limit := p.cfg.MaxMessageBytes; limit > 0 && len(batch) > int(limit) && !f.control {
		return Staged{}, fmt.Errorf("%w: %d bytes, max.message.bytes is %d", ErrTooLarge, len(batch), limit)
	}
	if f.producerID >= 0 {
		dup, err := p.staging.check(p.fold.producers, &f)
		if err != nil {
			return Staged{}, err
		}
		if dup != nil {
			return Staged{BaseOffset: dup.base, LastOffset: dup.last, Duplicate: true}, nil
		}
	}
	base := p.staging.end
	record.Stamp(batch, base, epoch)
	if p.cfg.LogAppendTime && !f.control {
		f.maxTs = now.UnixMilli()
		record.SetLogAppendTime(batch, f.maxTs)
	}
	f.base, f.last, f.leaderEpoch = base, base+int64(f.lastDelta), epoch
	p.staging.push(p.fold.producers, stagedEntry{term: uint64(epoch), facts: f})
	return Staged{BaseOffset: f.base, LastOffset: f.last}, nil
}

// Unstage takes back the batch that was staged last.
func (p *Partition) Unstage(s Staged) {
	if s.Duplicate {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.staging.entries {
		if e := &p.staging.entries[i]; !e.meta && e.index == 0 && e.facts.base == s.BaseOffset {
			p.staging.cut(p.fold.producers, p.fold.hwm, i)
			return
		}
	}
}

// Follow records entries that reached this replica's Raft log without Stage (as a follower, or on restart),
// replacing any at the same indexes; Stage continues behind them after a change of leader. Entries that are known
// already, staged here or followed before, change nothing.
func (p *Partition) Follow(entries []Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		if e.Index <= p.fold.applied {
			continue
		}
		s := stagedEntry{index: e.Index, term: e.Term, meta: e.Type != EntryBatch}
		if !s.meta {
			f, err := factsOf(e.Data)
			if err != nil {
				// Commit refuses the same entry with this error, and the node stops: nothing can be staged behind it.
				return
			}
			s.facts = f
		}
		p.staging.follow(p.fold.producers, p.fold.hwm, s)
	}
}

// Apply folds committed entries in index order: high watermark, producers, transactions, waiters.
func (p *Partition) Apply(entries []Entry) {
	p.mu.Lock()
	err := p.applyLocked(entries)
	trimmed := p.retire.trimmed
	p.mu.Unlock()
	if trimmed {
		p.collect()
	}
	if err != nil {
		// Commit checked every stored entry, so these bytes changed since: serving on would hide it (invariant 7).
		p.store.fatal(fmt.Errorf("apply to group %d: %w", p.id, err))
	}
}

func (p *Partition) applyLocked(entries []Entry) error {
	before, noted := p.marksLocked(), p.checkpoint.entries
	for i := range entries {
		e := &entries[i]
		if e.Index <= p.fold.applied {
			continue
		}
		m, f, err := describe(e, p.fold.hwm)
		if err == nil && m.typ != EntryBatch {
			f, err = p.store.metaFacts(&m, e.Data)
		}
		if err != nil {
			return err
		}
		p.applyEntryLocked(&m, &f)
		if f.producerID >= 0 {
			p.idle.seen(f.producerID)
		}
		p.checkpoint.note(int64(m.size))
	}
	p.staging.applied(p.fold.applied, p.fold.hwm)
	p.store.tail.Add(p.checkpoint.entries - noted)
	if p.checkpoint.due() {
		p.store.markDue(p)
	}
	if p.marksLocked() != before {
		p.wakeLocked()
	}
	return nil
}

// applyEntryLocked folds one entry. A log start that moved is to be durable soon, and what lies below it to be deleted.
func (p *Partition) applyEntryLocked(m *entryMeta, f *facts) {
	start := p.fold.horizon.logStart
	p.fold.apply(m, f)
	if p.fold.horizon.logStart != start {
		p.retire.moved++
		p.retire.trimmed = true
		p.store.markDue(p)
	}
}

// describe reads what keys and folds need of an entry that starts at offset next.
func describe(e *Entry, next int64) (entryMeta, facts, error) {
	m := entryMeta{index: e.Index, term: e.Term, typ: e.Type, base: next, lastDelta: -1, maxTs: -1, size: int32(len(e.Data))}
	if e.Type != EntryBatch {
		return m, noFacts(), nil
	}
	f, err := factsOf(e.Data)
	if err != nil {
		return m, f, err
	}
	if f.base != next {
		// Invariant 2: offsets are dense in append order.
		return m, f, fmt.Errorf("%w: entry %d has base offset %d, expected %d", ErrCorrupt, e.Index, f.base, next)
	}
	m.lastDelta, m.maxTs = f.lastDelta, f.maxTs
	return m, f, nil
}

func (p *Partition) wakeLocked() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// SetConfig changes what later calls go by.
func (p *Partition) SetConfig(c Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c != p.cfg {
		p.runs.clean.err, p.runs.clean.retryAt = nil, time.Time{}
	}
	p.cfg = c
}

// Config returns the settings in force.
func (p *Partition) Config() Config {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.cfg
}
