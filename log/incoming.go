package log

import (
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/rowtrail/rowtrail/log/fields"
)

// Incoming is a raftSnapshot on its way into a partition. Its batches are stored under run ids of this partition that no manifest names, so until
// it is installed it changes nothing; what has arrived survives a restart.
//
// Crash argument: (1) A record names the sender and the pairs of run ids before anything is written under them, and keeps them from being swept.
// (2) Batches follow in portions, in order; after a crash the last stored batch of a run says where to go on. (3) Install is one transaction:
// horizon, manifest, checkpoint, hard state, the mark that makes every entry above the horizon a ghost, and the record's deletion. (4) What the
// partition had before is deleted in portions, as after compaction.
type Incoming struct {
	p        *Partition
	sender   uint64 // the replica it comes from: only its run ids are comparable
	snapshot *RaftSnapshot
	local    map[uint64]uint64 // sender's run id -> ours
	at       SnapshotCursor
	rec      *incomingRecord
}

// idleTransfer is for how long what has arrived of a raftSnapshot is kept while nothing more does: compaction waits for it.
const idleTransfer = 10 * time.Minute

// errReplaced says that another raftSnapshot took the place of one.
var errReplaced = errors.New("another raftSnapshot has begun to arrive")

// incomingRecord is what is durable of an Incoming.
type incomingRecord struct {
	sender uint64
	local  map[uint64]uint64

	// in memory, under Partition.mu
	whole bool      // it waits to be installed or discarded, and nothing takes its place
	moved time.Time // when something arrived last
}

func (r *incomingRecord) encode() []byte {
	e := encoder{[]byte{snapshotVersion}}
	e.u(r.sender, uint64(len(r.local)))
	for from, to := range r.local {
		e.u(from, to)
	}
	return e.b
}

func decodeIncoming(b []byte) (*incomingRecord, error) {
	if len(b) == 0 || b[0] != snapshotVersion {
		return nil, fmt.Errorf("%w: a raftSnapshot's record of %d bytes", ErrFormat, len(b))
	}
	d := fields.Read(b[1:])
	r := &incomingRecord{sender: d.Uvarint(), local: map[uint64]uint64{}}
	for range d.Count() {
		from := d.Uvarint()
		r.local[from] = d.Uvarint()
	}
	if !d.Done() {
		return nil, fmt.Errorf("%w: a raftSnapshot's record of %d bytes", ErrFormat, len(b))
	}
	return r, nil
}

func (r *incomingRecord) lowest() uint64 {
	low := uint64(noRun)
	for _, id := range r.local {
		low = min(low, id)
	}
	return low
}

// loadIncoming finds what a restart interrupted.
func (p *Partition) loadIncoming(txn *badger.Txn) error {
	return viewValue(txn, groupKey(spaceIncoming, p.id), func(b []byte) error {
		r, err := decodeIncoming(b)
		if err != nil {
			return err
		}
		r.moved = time.Now()
		p.received = r
		p.runs.incoming = r.lowest()
		return nil
	})
}

// Receive begins to take a raftSnapshot in, or goes on with what has arrived of it from the same sender. It takes the place of any other one,
// but for one that has arrived whole: who was told so by Complete installs it or discards it.
func (p *Partition) Receive(sender uint64, r *RaftSnapshot) (*Incoming, error) {
	in := &Incoming{p: p, sender: sender, snapshot: r, local: map[uint64]uint64{}}
	err := p.store.exclusively(p, func(c *commit) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		old := p.received
		if old != nil && old.whole {
			return errors.New("one that has arrived before is about to be installed")
		}
		man := p.runs.man
		next := man.nextRun
		for i := range r.man.runs {
			id := r.man.runs[i].id
			if old != nil && old.sender == sender && old.local[id] != 0 {
				in.local[id] = old.local[id]
				continue
			}
			next++ // 0 stands for none in a record
			in.local[id] = next
		}
		rec := &incomingRecord{sender: sender, local: in.local, moved: time.Now()}
		in.rec = rec
		p.runs.man = man.reserve(int(next - man.nextRun + 1)) //nolint:gosec // as many as the snapshot has runs
		p.runs.incoming = rec.lowest()
		p.received = rec
		p.runs.sweep.ask() // what came of another snapshot
		p.retire.moved++
		return c.set(groupKey(spaceIncoming, p.id), rec.encode())
	})
	if err != nil {
		return nil, fmt.Errorf("receive a raftSnapshot: %w", err)
	}
	return in, in.resume()
}

// exclusively makes a change of a partition's manifest durable, together with what gather adds.
func (s *Store) exclusively(p *Partition, gather func(*commit) error) error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if err := s.makeRoom(0); err != nil {
		return err
	}
	c := s.newCommit()
	defer c.discard()
	if err := gather(c); err != nil {
		return err
	}
	if err := c.addCheckpoint(p); err != nil {
		return err
	}
	return c.flush()
}

// resume finds the first batch that has not arrived.
func (in *Incoming) resume() error {
	runs := in.snapshot.man.runs
	for i := range runs {
		x := &runs[i]
		next, batches, bytes, err := in.p.store.runEnd(in.p.id, in.local[x.id])
		if err != nil {
			return fmt.Errorf("resume a raftSnapshot: %w", err)
		}
		if batches == x.batches && bytes == x.bytes {
			continue
		}
		in.at = SnapshotCursor{Run: x.id, Offset: max(x.base, next)}
		return nil
	}
	return in.moveTo(SnapshotCursor{Done: true})
}

// moveTo notes what has arrived.
func (in *Incoming) moveTo(at SnapshotCursor) error {
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	if in.p.received != in.rec {
		return errReplaced
	}
	in.at, in.rec.whole, in.rec.moved = at, at.Done, time.Now()
	return nil
}

// runEnd is where a run ends that was stored so far.
func (s *Store) runEnd(id GroupID, run uint64) (next, batches, bytes int64, err error) {
	err = s.view(func(txn *badger.Txn) error {
		it := newRunIterator(txn, id)
		defer it.close()
		ok, err := it.seek(run, 0)
		for ; ok && err == nil; ok, err = it.next() {
			next = it.meta.next()
			batches++
			bytes += int64(it.meta.size)
		}
		return err
	})
	return next, batches, bytes, err
}

// At is where the sender is to go on.
func (in *Incoming) At() SnapshotCursor { return in.at }

// LastIndex implements Installation.
func (in *Incoming) LastIndex() uint64 { return in.snapshot.Index }

// Discard implements Installation.
func (in *Incoming) Discard() error { return in.p.forget(in.rec) }

// Snapshot is what is being received.
func (in *Incoming) Snapshot() *RaftSnapshot { return in.snapshot }

// errChunk says that a chunk is not the next one.
var errChunk = errors.New("a chunk of a raftSnapshot is not the next one")

// Add stores a chunk; next is the cursor that the sender gave with it. It is durable on return.
func (in *Incoming) Add(b []byte, next SnapshotCursor) error {
	c, err := decodeSnapshotChunk(b)
	if err != nil {
		return err
	}
	run, ok := in.local[c.run]
	if in.at.Done || !ok || c.run != in.at.Run {
		return fmt.Errorf("%w: it has run %d, expected is %+v", errChunk, c.run, in.at)
	}
	var puts []runPut
	var size int64
	at := in.at.Offset
	for i := range c.batches {
		x := &c.batches[i]
		if x.meta.next() <= at {
			continue
		}
		puts = append(puts, runPut{runKey(in.p.id, run, &x.meta), x.data})
		size += int64(len(x.data))
	}
	if err := in.p.store.putRun(in.p, puts, size); err != nil {
		return fmt.Errorf("store a chunk of a raftSnapshot: %w", err)
	}
	return in.moveTo(next)
}

// putRun makes batches of a run durable, in as many transactions as they need.
func (s *Store) putRun(p *Partition, puts []runPut, size int64) error {
	s.slow(size)
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if err := s.makeRoom(size); err != nil {
		return err
	}
	if s.dropped(p.id) {
		return ErrDropped
	}
	c := s.newCommit()
	defer c.discard()
	for _, x := range puts {
		if err := c.reserve(writeCost(x.key, x.value)); err != nil {
			return err
		}
		if err := c.set(x.key, x.value); err != nil {
			return err
		}
	}
	return c.flush()
}

// Complete reports that everything has arrived.
func (in *Incoming) Complete() bool { return in.at.Done }

// forgetIdle drops what has arrived of raftSnapshots whose senders have given up: the log has come that far by itself, or another one has.
func (s *Store) forgetIdle(now time.Time) {
	for _, p := range s.open() {
		p.mu.RLock()
		rec := p.received
		idle := rec != nil && !rec.whole && now.Sub(rec.moved) > idleTransfer
		p.mu.RUnlock()
		if !idle {
			continue
		}
		if err := p.forget(rec); err != nil {
			s.log.Warn("what has arrived of a raftSnapshot is kept", "group", p.id, "error", err)
		}
	}
}

// forget drops what has arrived of a raftSnapshot that is not needed any more, unless another one has taken its place.
func (p *Partition) forget(rec *incomingRecord) error {
	p.mu.RLock()
	some := p.received == rec && !p.closed
	p.mu.RUnlock()
	if !some {
		return nil
	}
	err := p.store.exclusively(p, func(c *commit) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.received != rec {
			return nil
		}
		p.received, p.runs.incoming = nil, noRun
		p.runs.sweep.ask()
		p.store.markDue(p)
		return c.delete(groupKey(spaceIncoming, p.id))
	})
	if err != nil {
		return fmt.Errorf("forget a raftSnapshot: %w", err)
	}
	return nil
}

// install gathers the one transaction that makes a complete raftSnapshot the log.
func (c *commit) install(in *Incoming, hard *HardState) error {
	p, r := in.p, in.snapshot
	p.mu.RLock()
	present := p.received == in.rec
	p.mu.RUnlock()
	if !in.Complete() || !present {
		return fmt.Errorf("install a raftSnapshot of group %d: it is not complete, or was discarded", p.id)
	}
	if err := c.flush(); err != nil { // its transaction is its own
		return err
	}
	if err := in.verify(); err != nil {
		return err
	}
	f, err := decodeFold(r.base.encode()) // a copy: the partition will change it
	if err != nil {
		return err
	}
	f.horizon.installed = f.horizon.base
	p.mu.RLock()
	nextRun, h := p.runs.man.nextRun, p.hard
	p.mu.RUnlock()
	runs := make([]run, len(r.man.runs))
	for i := range runs {
		runs[i] = r.man.runs[i]
		runs[i].id = in.local[runs[i].id]
	}
	man := newManifest(nextRun, 0, runs)
	if hard != nil {
		h = *hard
	}
	h.Commit = max(h.Commit, r.Index)
	encoded := f.encode()
	for _, x := range []struct{ key, value []byte }{
		{groupKey(spaceHorizon, p.id), encoded},
		{groupKey(spaceCheckpoint, p.id), encoded},
		{groupKey(spaceManifest, p.id), man.encode()},
		{groupKey(spaceHardState, p.id), encodeHardState(h)},
	} {
		if err := c.set(x.key, x.value); err != nil {
			return err
		}
	}
	if err := c.delete(groupKey(spaceIncoming, p.id)); err != nil {
		return err
	}
	if err := c.set(markKey(p.id, f.horizon.first), nil); err != nil {
		return err
	}
	c.after = append(c.after, func() { c.s.installed(p, f, man, h, int64(len(encoded))) })
	return c.flush()
}

// verify looks for every batch that the manifest counts.
func (in *Incoming) verify() error {
	for i := range in.snapshot.man.runs {
		x := &in.snapshot.man.runs[i]
		_, batches, bytes, err := in.p.store.runEnd(in.p.id, in.local[x.id])
		if err != nil {
			return err
		}
		if batches != x.batches || bytes != x.bytes {
			return fmt.Errorf("%w: run %d of a raftSnapshot has %d batches of %d bytes here, the sender has %d of %d", ErrCorrupt, x.id, batches, bytes, x.batches, x.bytes)
		}
	}
	return nil
}

// installed shows the new log to readers.
func (s *Store) installed(p *Partition, f fold, man *manifest, hard HardState, size int64) {
	s.installMark(p, f.horizon.first)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.cache.bytes -= p.recent.truncate(0)
	s.keeper.pace.retired.Add(p.bytesLocked())
	s.tail.Add(-p.checkpoint.entries)
	p.fold, p.hard = f, hard
	p.runs.man, p.runs.incoming, p.received = man, noRun, nil
	p.runs.sweep.ask()
	p.stored = storedLog{last: f.applied, next: f.hwm}
	for _, e := range f.epochs {
		p.stored.terms = append(p.stored.terms, termStart{term: e.term, index: e.index})
	}
	p.stored.trim(f.horizon.first)
	p.staging = newStaging(f.hwm)
	p.hints = readHints{}
	p.checkpoint = checkpointState{size: size}
	p.retire = retireState{from: 1, to: f.horizon.first, doubtful: true, cut: p.retire.cut, trimmed: f.horizon.logStart > f.horizon.base}
	p.idle = idleProducers{}
	s.markDue(p)
	p.wakeLocked()
}

// Installed is the offset up to which the log came as a raftSnapshot; 0: it never did. What was folded of the log before, and ended below
// it, cannot go on from there: records that it knows may have been deleted, and their deletes compacted away.
func (p *Partition) Installed() int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.fold.horizon.installed
}
