package log

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/dgraph-io/badger/v4"
)

// recentBytes bounds the newest entries of all partitions that are kept in memory (invariant 9).
const recentBytes = 32 << 20

// What Badger counts for a key besides its bytes, and for a value that goes to the value log.
const (
	entryOverhead = 2 + 10 + 8
	pointerSize   = 12
)

// Commit makes all mutations durable in one Badger transaction and one sync. On return they are on disk
// and visible to Partition.Entries/Read. Retention deletes and due checkpoints ride along in the same transaction.
//
// It takes over the entries' data, which must not change any more. Above MaxCommitBytes or MaxCommitEntries it uses
// several transactions in order; on an error those before the failing one are durable and visible.
// An error other than ErrDiskFull means that the node must stop.
func (s *Store) Commit(ms []Mutation) error {
	var size int64
	for i := range ms {
		for j := range ms[i].Entries {
			size += int64(len(ms[i].Entries[j].Data))
		}
	}
	s.slow(size)
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if err := s.makeRoom(size); err != nil {
		return err
	}
	c := s.newCommit()
	defer c.discard()
	for i := range ms {
		if err := c.add(&ms[i]); err != nil && !errors.Is(err, ErrDropped) {
			return fmt.Errorf("commit to group %d: %w", ms[i].Group, err)
		}
	}
	if err := c.addRiders(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := c.flush(); err != nil {
		return err
	}
	s.stats.mutations.Add(int64(len(ms)))
	return nil
}

// usable reports what forbids any further write.
func (s *Store) usable() error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.dbDone {
		return ErrClosed
	}
	return s.failure()
}

// makeRoom refuses a commit that would take what Badger needs for itself. It looks each time, which costs next to nothing beside a commit: who
// else writes to the file system may have taken all that was free a moment ago. Called under commitMu.
func (s *Store) makeRoom(size int64) error {
	if err := s.checkSpace(); err != nil {
		return err
	}
	if !s.space.room(size) {
		return fmt.Errorf("commit: %w: %d MiB are free", ErrDiskFull, s.space.free.Load()>>20)
	}
	s.space.grew(size)
	switch err := s.prepare.prepare(size); {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("commit: %w: %w", ErrDiskFull, err)
	case err != nil:
		s.log.Warn("commits take longer from here on: the value log cannot be prepared", "error", err)
	}
	return nil
}

// compactionRoom is makeRoom for n bytes that compaction writes.
func (s *Store) compactionRoom(n int64) error {
	if err := s.checkSpace(); err != nil {
		return err
	}
	return s.space.compactionErr(n)
}

func (s *Store) checkSpace() error {
	changed, err := s.space.check()
	if err != nil {
		return err
	}
	if changed {
		if err := s.space.err(); err != nil {
			s.log.Error("appends are refused until there is space", "error", err)
		} else {
			s.log.Info("appends are accepted", "free_bytes", s.space.free.Load())
		}
	}
	return nil
}

// commit gathers what one Commit writes. It is used under commitMu.
type commit struct {
	s        *Store
	txn      *badger.Txn
	size     int64 // as Badger counts against its limit
	count    int64
	payload  int64
	values   int64 // bytes that go to the value log
	entries  int
	maxSize  int64
	maxCount int64
	views    map[GroupID]*view
	after    []func() // run once the transaction is durable
}

// view is a partition as the gathered transaction will leave it.
type view struct {
	p        *Partition
	stored   storedLog // terms are not kept here
	truncate uint64    // 0: nothing stored before is deleted
	truncAt  int64     // offset where the deleted entries began
	cut      uint64    // 0: no truncation began in this transaction
	pushed   []recentEntry
	hard     *HardState
}

func (s *Store) newCommit() *commit {
	return &commit{s: s, views: map[GroupID]*view{}, maxSize: s.db.MaxBatchSize() - 1, maxCount: s.db.MaxBatchCount() - 1}
}

func (c *commit) discard() {
	if c.txn != nil {
		c.txn.Discard()
	}
}

func (c *commit) view(id GroupID) (*view, error) {
	if v := c.views[id]; v != nil {
		return v, nil
	}
	c.s.mu.Lock()
	p, err := c.s.partitionLocked(id)
	if err != nil {
		return nil, err
	}
	v := &view{p: p, stored: storedLog{last: p.stored.last, next: p.stored.next}}
	c.views[id] = v
	return v, nil
}

// riderShare of a transaction is kept free of entries, so that retention moves on under any load.
const riderShare = 8

// reserve makes room in the transaction for a write of the given cost, flushing what is gathered when it is full.
func (c *commit) reserve(cost int64) error {
	if c.size+cost > c.maxSize-c.maxSize/riderShare || c.count+1 > c.maxCount-c.maxCount/riderShare {
		return c.flush()
	}
	return nil
}

// reserveEntry is reserve for an entry, which also counts against the bounds of a Commit.
func (c *commit) reserveEntry(size int) error {
	if c.entries > 0 && (c.payload+int64(size) > MaxCommitBytes || c.entries == MaxCommitEntries) {
		return c.flush()
	}
	cost := int64(logKeyLen + entryOverhead + pointerSize)
	if size < valueThreshold {
		cost = int64(logKeyLen + entryOverhead + size)
	}
	return c.reserve(cost)
}

func writeCost(key, value []byte) int64 {
	n := int64(len(key)) + entryOverhead
	if len(value) < valueThreshold {
		return n + int64(len(value))
	}
	return n + pointerSize
}

func (c *commit) begin() {
	if c.txn == nil {
		c.txn = c.s.db.NewTransaction(true)
	}
}

func (c *commit) set(key, value []byte) error {
	c.begin()
	c.size += writeCost(key, value)
	c.count++
	if len(value) >= valueThreshold {
		c.values += valueCost(key, value)
	}
	return c.txn.Set(key, value)
}

func (c *commit) delete(key []byte) error {
	c.begin()
	c.size += writeCost(key, nil)
	c.count++
	return c.txn.Delete(key)
}

// add gathers one mutation: the hard state first, so that no entry is durable without the term it belongs to. Where the commit that it tells lies
// behind what is durable by then, that follows with the entries: a crash between two transactions must not leave a commit without its entries,
// nor a change of members without the commit of the one before it, see HardState.
func (c *commit) add(m *Mutation) error {
	if m.Install != nil {
		in, ok := m.Install.(*Incoming)
		if !ok {
			return fmt.Errorf("install a %T, which is no raftSnapshot of a store", m.Install)
		}
		if err := c.install(in, m.HardState); err != nil {
			return err
		}
	}
	v, err := c.view(m.Group)
	if err != nil {
		return err
	}
	from := m.TruncateFrom
	if len(m.Entries) > 0 && (from == 0 || m.Entries[0].Index < from) {
		from = m.Entries[0].Index
	}
	told := ^uint64(0) // the commit that is durable; the largest: there is nothing to tell
	if m.HardState != nil {
		told = min(m.HardState.Commit, v.stored.last)
		if from > 0 {
			told = min(told, from-1)
		}
		if err := c.setHardState(m.Group, m.HardState, told); err != nil {
			return err
		}
	}
	if v, err = c.view(m.Group); err != nil {
		return err
	}
	if from > 0 && from <= v.stored.last {
		if err := c.truncate(m.Group, from); err != nil {
			return err
		}
	}
	for i := range m.Entries {
		e := &m.Entries[i]
		if m.HardState != nil && e.Type == EntryMetaV2 && told < min(m.HardState.Commit, e.Index-1) {
			told = min(m.HardState.Commit, e.Index-1)
			if err := c.setHardState(m.Group, m.HardState, told); err != nil {
				return err
			}
		}
		if err := c.append(m.Group, e); err != nil {
			return err
		}
	}
	if m.HardState != nil && told < m.HardState.Commit {
		return c.setHardState(m.Group, m.HardState, m.HardState.Commit)
	}
	return nil
}

// setHardState gathers a hard state that tells no more than a commit.
func (c *commit) setHardState(id GroupID, h *HardState, commit uint64) error {
	hs := HardState{Term: h.Term, Vote: h.Vote, Commit: commit}
	key, value := groupKey(spaceHardState, id), encodeHardState(hs)
	if err := c.reserve(writeCost(key, value)); err != nil {
		return err
	}
	v, err := c.view(id)
	if err != nil {
		return err
	}
	v.hard = &hs
	return c.set(key, value)
}

func (c *commit) append(id GroupID, e *Entry) error {
	if len(e.Data) > MaxBatchBytes {
		return fmt.Errorf("entry %d: %w: %d bytes", e.Index, ErrTooLarge, len(e.Data))
	}
	if err := c.reserveEntry(len(e.Data)); err != nil {
		return err
	}
	v, err := c.view(id)
	if err != nil {
		return err
	}
	if e.Index != v.stored.last+1 {
		return fmt.Errorf("entry %d does not follow entry %d", e.Index, v.stored.last)
	}
	m, _, err := describe(e, v.stored.next)
	if err != nil {
		return err
	}
	if err := c.set(logKey(id, &m), e.Data); err != nil {
		return err
	}
	v.stored.last, v.stored.next = m.index, m.next()
	v.pushed = append(v.pushed, recentEntry{meta: m, data: e.Data})
	c.payload += int64(len(e.Data))
	c.entries++
	return nil
}

// truncate deletes the entries from an index on, the last one first: wherever a transaction ends, the log has no hole.
func (c *commit) truncate(id GroupID, from uint64) error {
	v, err := c.view(id)
	if err != nil {
		return err
	}
	if applied := v.p.AppliedIndex(); from <= applied {
		return fmt.Errorf("truncate from entry %d: entries up to %d are committed", from, applied)
	}
	gone, err := v.entriesFrom(from)
	if err != nil {
		return err
	}
	if err := c.markCut(v, from); err != nil {
		return err
	}
	if v, err = c.view(id); err != nil {
		return err
	}
	v.cut = from
	for i := len(gone) - 1; i >= 0; i-- {
		key := logKey(id, &gone[i])
		if err := c.reserve(writeCost(key, nil)); err != nil {
			return err
		}
		if v, err = c.view(id); err != nil {
			return err
		}
		if err := c.delete(key); err != nil {
			return err
		}
		if n := len(v.pushed); n > 0 {
			v.pushed = v.pushed[:n-1]
		} else {
			v.truncate, v.truncAt = gone[i].index, gone[i].base
		}
		v.stored.last, v.stored.next = gone[i].index-1, gone[i].base
	}
	return nil
}

// entriesFrom lists the entries of the view at index and above.
func (v *view) entriesFrom(from uint64) ([]entryMeta, error) {
	var out []entryMeta
	storedEnd := v.stored.last - uint64(len(v.pushed))
	if from <= storedEnd {
		err := v.p.scan(from, func(m *entryMeta) bool {
			if m.index <= storedEnd {
				out = append(out, *m)
			}
			return m.index < storedEnd
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range v.pushed {
		if m := &v.pushed[i].meta; m.index >= from {
			out = append(out, *m)
		}
	}
	return out, nil
}

// flush commits what is gathered and shows it to readers.
func (c *commit) flush() error {
	if c.txn != nil {
		// makeRoom has seen to the room for the most of it, and to what went wrong.
		_ = c.s.prepare.prepare(c.values)
		c.s.prepare.wrote(c.values)
		if err := c.txn.Commit(); err != nil {
			err = fmt.Errorf("write log: %w", err)
			c.s.fatal(err)
			return err
		}
		// Invariant 1: Badger only logs a failed sync of a value-log file.
		if err := c.s.failure(); err != nil {
			return err
		}
		c.txn = nil
		c.s.stats.syncs.Add(1)
	}
	c.s.stats.bytes.Add(c.payload)
	for _, v := range c.views {
		c.s.install(v)
	}
	for _, f := range c.after {
		f()
	}
	clear(c.views)
	c.after = c.after[:0]
	c.size, c.count, c.payload, c.values, c.entries = 0, 0, 0, 0, 0
	return nil
}

// install shows a durable view.
func (s *Store) install(v *view) {
	p := v.p
	if v.cut > 0 {
		s.installMark(p, v.cut)
	}
	p.mu.Lock()
	if v.truncate > 0 {
		s.cache.bytes -= p.recent.truncate(v.truncate)
		p.stored.truncate(v.truncate, v.truncAt)
	}
	for i := range v.pushed {
		e := &v.pushed[i]
		p.stored.push(&e.meta)
		p.recent.push(*e)
	}
	if v.hard != nil {
		p.hard = *v.hard
	}
	p.mu.Unlock()
	for i := range v.pushed {
		s.cache.push(p, v.pushed[i].meta.index, len(v.pushed[i].data))
	}
	if len(v.pushed) > 0 || v.hard != nil {
		s.mu.Lock()
		s.groups[p.id] = struct{}{}
		s.mu.Unlock()
	}
}

// recentQueue evicts the oldest entries of all partitions, in the order in which they were committed.
type recentQueue struct {
	bytes int
	queue []queuedEntry
	head  int
}

type queuedEntry struct {
	p     *Partition
	index uint64
}

// recentOverhead is charged for each cached entry besides its bytes.
const recentOverhead = 128

func (q *recentQueue) push(p *Partition, index uint64, size int) {
	q.queue = append(q.queue, queuedEntry{p, index})
	q.bytes += size
	for q.bytes+recentOverhead*(len(q.queue)-q.head) > recentBytes && q.head < len(q.queue) {
		x := q.queue[q.head]
		q.queue[q.head] = queuedEntry{}
		q.head++
		x.p.mu.Lock()
		q.bytes -= x.p.recent.evict(x.index)
		x.p.mu.Unlock()
	}
	if q.head > len(q.queue)/2 && q.head > 1024 {
		kept := copy(q.queue, q.queue[q.head:])
		clear(q.queue[kept:])
		q.queue, q.head = q.queue[:kept], 0
	}
}
