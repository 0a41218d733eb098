package log

import "github.com/dgraph-io/badger/v4"

// ridersPerCommit bounds how many partitions one Commit does housekeeping for.
const ridersPerCommit = 16

// drop is a group whose keys are being deleted.
type drop struct {
	p      *Partition // nil when it was not open
	marked bool       // the intent is durable, so a restart goes on
	from   uint64     // entries below are deleted
	run    uint64     // of runs below, when no entry is left, too
	after  int64      // the round of the keeper from which on the last look is due; 0: still deleting
}

// Drop deletes a group's log lazily, in bounded ranges that ride on Commit. Readers get ErrClosed, and Commit ignores
// mutations of the group. The id must not be used again.
func (s *Store) Drop(id GroupID) {
	s.mu.Lock()
	if s.drops[id] != nil {
		s.mu.Unlock()
		return
	}
	d := &drop{}
	if x := s.partitions[id]; x != nil {
		d.p = x.p
	}
	s.drops[id] = d
	delete(s.partitions, id)
	delete(s.groups, id)
	if d.p != nil {
		delete(s.due, d.p)
	}
	s.mu.Unlock()
	if d.p != nil {
		d.p.mu.Lock()
		d.p.closed = true
		s.keeper.pace.retired.Add(d.p.bytesLocked() + d.p.runs.written)
		d.p.wakeLocked()
		d.p.mu.Unlock()
	}
	s.cleaner.forget(id) // no round begins for it any more that would enter its keys again
}

// hasRiders reports whether housekeeping waits for a Commit.
func (s *Store) hasRiders() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.due) > 0 {
		return true
	}
	round := s.keeper.round.Load()
	for _, d := range s.drops {
		if d.after <= round {
			return true
		}
	}
	return false
}

// ride commits housekeeping that no Commit came by to carry.
func (s *Store) ride() error {
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
	if err := c.addRiders(); err != nil {
		return err
	}
	return c.flush()
}

// addRiders gathers what fits into the transaction beside the mutations.
func (c *commit) addRiders() error {
	for _, p := range c.s.takeDue() {
		p.mu.RLock()
		need := p.retire.moved > 0 || p.checkpoint.due() || c.s.tail.Load() > tailEntries
		gone := p.closed
		p.mu.RUnlock()
		if gone {
			continue
		}
		if need {
			if !c.fits(checkpointCost) {
				c.s.markDue(p)
				continue
			}
			if err := c.addCheckpoint(p); err != nil {
				return err
			}
		}
		if err := c.addDeletes(p); err != nil {
			return err
		}
		if err := c.addRunDeletes(p); err != nil {
			return err
		}
	}
	for id, d := range c.s.takeDrops() {
		if err := c.addDrop(id, d); err != nil {
			return err
		}
	}
	return nil
}

func (c *commit) fits(cost int64) bool {
	return c.size+cost < c.maxSize && c.count+4 < c.maxCount
}

// takeDue picks partitions that wait for housekeeping. While too much lies behind checkpoints in all, the one with most
// joins them.
func (s *Store) takeDue() []*Partition {
	var out []*Partition
	if s.tail.Load() > tailEntries {
		var worst *Partition
		var most int64
		for _, p := range s.open() {
			p.mu.RLock()
			n := p.checkpoint.entries
			p.mu.RUnlock()
			if n > most {
				worst, most = p, n
			}
		}
		if worst != nil {
			out = append(out, worst)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range out {
		delete(s.due, p)
	}
	for p := range s.due {
		if len(out) == ridersPerCommit {
			break
		}
		delete(s.due, p)
		out = append(out, p)
	}
	return out
}

func (s *Store) takeDrops() map[GroupID]*drop {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[GroupID]*drop, min(len(s.drops), ridersPerCommit))
	round := s.keeper.round.Load()
	for id, d := range s.drops {
		if len(out) == ridersPerCommit {
			break
		}
		if d.after <= round {
			out[id] = d
		}
	}
	return out
}

// sweepAfter is how many rounds of the keeper later a dropped group is looked at for the last time.
const sweepAfter = 2

// sweep makes the next commits look again for entries below the horizons and for runs without a name. Badger's garbage collection writes again
// what a compaction has not dropped yet, deletes or not; a delete that is older than the rewritten value may then be
// dropped before they meet, and the entry is back. Nothing reads it, but it takes space.
func (s *Store) sweep() {
	for _, p := range s.open() {
		p.mu.Lock()
		again := p.retire.doubtful && p.retire.from == p.retire.to
		if again {
			p.retire.from, p.retire.doubtful = 1, false
		}
		if x := &p.runs.sweep; x.doubtful && !x.pending() {
			x.ask()
			x.doubtful, again = false, true
		}
		p.mu.Unlock()
		if again {
			s.markDue(p)
		}
	}
}

// deleteCost is what one deleted entry adds to a transaction.
const deleteCost = logKeyLen + entryOverhead

// addDeletes gathers deletes of entries below the horizon, as many as fit.
func (c *commit) addDeletes(p *Partition) error {
	p.mu.RLock()
	from, to := p.retire.from, p.retire.to
	p.mu.RUnlock()
	if from >= to {
		return nil
	}
	done, freed, err := c.deleteRange(p.id, from, to)
	if err != nil {
		return err
	}
	if done < to {
		c.s.markDue(p)
	}
	c.after = append(c.after, func() {
		p.mu.Lock()
		p.retire.from = done
		p.retire.doubtful = p.retire.doubtful || freed > 0
		p.mu.Unlock()
		c.s.keeper.noteDeleted(freed)
	})
	return nil
}

// deleteRange deletes entries of [from, to) while they fit, and returns the index below which none is left.
func (c *commit) deleteRange(id GroupID, from, to uint64) (done uint64, freed int64, err error) {
	done = to
	var setErr error
	err = c.s.view(func(txn *badger.Txn) error {
		it := newRawIterator(txn, id)
		defer it.close()
		ok, err := it.seek(from)
		for ; ok && err == nil && it.meta.index < to; ok, err = it.next() {
			if !c.fits(deleteCost) {
				done = it.meta.index
				return nil
			}
			if setErr = c.delete(it.it.Item().KeyCopy(nil)); setErr != nil {
				return setErr
			}
			if it.meta.size >= valueThreshold {
				freed += int64(it.meta.size)
			}
		}
		return err
	})
	return done, freed, err
}

// addDrop gathers a portion of a dropped group's keys: first the intent together with all that is not an entry.
func (c *commit) addDrop(id GroupID, d *drop) error {
	if !c.fits(5 * (groupKeyLen + entryOverhead)) {
		return nil
	}
	if d.p != nil {
		d.p.mu.Lock()
		c.s.cache.bytes -= d.p.recent.truncate(0)
		d.p.mu.Unlock()
	}
	if !d.marked {
		if err := c.set(groupKey(spaceDrop, id), nil); err != nil {
			return err
		}
		for _, space := range []byte{spaceHardState, spaceHorizon, spaceCheckpoint, spaceManifest, spaceIncoming} {
			if err := c.delete(groupKey(space, id)); err != nil {
				return err
			}
		}
	}
	if err := c.deleteMarks(id); err != nil {
		return err
	}
	const all = ^uint64(0)
	look := d.after > 0
	done, freed, err := c.deleteRange(id, d.from, all)
	if err != nil {
		return err
	}
	run, ended := d.run, false
	if done == all {
		var more int64
		if run, more, ended, err = c.deleteRuns(id, d.run, func(uint64) bool { return false }); err != nil {
			return err
		}
		freed += more
	}
	finished := look && ended && freed == 0 && c.fits(groupKeyLen+entryOverhead)
	if finished {
		if err := c.delete(groupKey(spaceDrop, id)); err != nil {
			return err
		}
	}
	c.after = append(c.after, func() {
		d.marked = true
		c.s.keeper.noteDeleted(freed)
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		switch {
		case finished:
			delete(c.s.drops, id)
		case ended:
			d.from, d.run, d.after = 0, 0, c.s.keeper.round.Load()+sweepAfter
		default:
			d.from, d.run, d.after = done, run, 0
		}
	})
	return nil
}
