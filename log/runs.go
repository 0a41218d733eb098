package log

import (
	"errors"
	"fmt"
	"math"

	"github.com/dgraph-io/badger/v4"

	"github.com/rowtrail/rowtrail/log/record"
)

// noRun is no run's id.
const noRun = math.MaxUint64

// runState is what a partition knows of the runs below its horizon. Partition.mu guards it.
type runState struct {
	man *manifest // never nil
	// A round of compaction writes runs from this id on: they are not named yet, and no garbage either. noRun: none does.
	writing uint64
	written int64 // bytes of them
	// A raftSnapshot that is being received has runs from this id on, which are not named yet either. noRun: none is.
	incoming uint64
	pins     int // raftSnapshots that are being sent: the runs are not swapped meanwhile
	sweep    runSweep
	clean    cleanState
}

// runSweep is the deletion of runs that the manifest does not name.
type runSweep struct {
	asked    int64  // how often a sweep was asked for
	done     int64  // what asked was when the last sweep that has finished began
	from     uint64 // runs below it are looked at
	doubtful bool   // runs were deleted since the last sweep
}

func (s *runSweep) pending() bool { return s.done < s.asked }

func (s *runSweep) ask() {
	s.asked++
	s.from = 0
}

func newRunState() runState {
	return runState{man: newManifest(0, 0, nil), writing: noRun, incoming: noRun}
}

// loadRuns reads the manifest. What it does not name may have been left by a crash.
func (p *Partition) loadRuns(txn *badger.Txn) error {
	p.runs = newRunState()
	err := viewValue(txn, groupKey(spaceManifest, p.id), func(b []byte) error {
		m, err := decodeManifest(b)
		if err != nil {
			return err
		}
		p.runs.man = m
		p.runs.sweep.ask()
		return nil
	})
	if err == nil {
		err = p.runs.man.check(&p.fold.horizon)
	}
	if err != nil {
		// Invariant 7: without it nobody knows which batches are the log.
		return fmt.Errorf("read manifest: %w; restore the data directory from a backup, or delete the topic", err)
	}
	return nil
}

// runIterator walks the batches of one group's runs, by run and offset. Values are read only where asked for.
type runIterator struct {
	id   GroupID
	it   *badger.Iterator
	run  uint64
	meta runMeta // of the current batch
}

func newRunIterator(txn *badger.Txn, id GroupID) runIterator {
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false
	opt.Prefix = groupKey(spaceRun, id)
	return runIterator{id: id, it: txn.NewIterator(opt)}
}

func (l *runIterator) close() { l.it.Close() }

// seek moves to the batch of a run that holds offset, or to the next one; false when the run has none.
func (l *runIterator) seek(run uint64, offset int64) (bool, error) {
	l.it.Seek(runSeekKey(l.id, run, offset))
	ok, err := l.current()
	return ok && l.run == run, err
}

// next moves to the next batch of the same run.
func (l *runIterator) next() (bool, error) {
	run := l.run
	l.it.Next()
	ok, err := l.current()
	return ok && l.run == run, err
}

func (l *runIterator) current() (bool, error) {
	if !l.it.Valid() {
		return false, nil
	}
	var err error
	l.run, l.meta, err = parseRunKey(l.it.Item().Key())
	return err == nil, err
}

// value hands out the current batch. One with a changed byte is never passed on.
func (l *runIterator) value(f func([]byte) error) error {
	called := false
	err := l.it.Item().Value(func(b []byte) error {
		called = true
		if err := l.meta.check(b); err != nil {
			return fmt.Errorf("run %d: %w", l.run, err)
		}
		return f(b)
	})
	if err != nil && !called {
		err = fmt.Errorf("%w: run %d: the batch at offset %d is not readable: %w", ErrCorrupt, l.run, l.meta.base, err)
	}
	return err
}

// check compares a stored batch with its key and its checksum.
func (m *runMeta) check(b []byte) error {
	if len(b) != int(m.size) {
		return fmt.Errorf("%w: the batch at offset %d has %d bytes, its key says %d", ErrCorrupt, m.base, len(b), m.size)
	}
	h, err := record.Validate(b, record.Checks{AllowControl: true, AllowGaps: true})
	if err == nil && (h.BaseOffset != m.base || h.LastOffset() != m.last || h.LeaderEpoch != m.epoch) {
		err = fmt.Errorf("%w: the header has offsets %d to %d and epoch %d, the key %d to %d and %d",
			ErrCorrupt, h.BaseOffset, h.LastOffset(), h.LeaderEpoch, m.base, m.last, m.epoch)
	}
	if err != nil {
		return fmt.Errorf("batch at offset %d: %w", m.base, err)
	}
	return nil
}

// walkRuns visits the batches of a manifest's runs from the one that holds offset on, until visit returns false. Nothing is
// passed over when the runs lie in the database as the manifest says; a reader finds out by comparing manifests.
func (s *Store) walkRuns(id GroupID, m *manifest, offset int64, visit func(*runIterator) (bool, error)) error {
	return s.view(func(txn *badger.Txn) error {
		it := newRunIterator(txn, id)
		defer it.close()
		for i := m.find(offset); i < len(m.runs); i++ {
			ok, err := it.seek(m.runs[i].id, offset)
			for ; ok && err == nil; ok, err = it.next() {
				if more, err := visit(&it); err != nil || !more {
					return err
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// addRunDeletes gathers deletes of batches in runs that the manifest does not name, as many as fit.
func (c *commit) addRunDeletes(p *Partition) error {
	p.mu.RLock()
	sweep, man, writing := p.runs.sweep, p.runs.man, min(p.runs.writing, p.runs.incoming)
	p.mu.RUnlock()
	if !sweep.pending() {
		return nil
	}
	from, freed, finished, err := c.deleteRuns(p.id, sweep.from, func(run uint64) bool { return run >= writing || man.names(run) })
	if err != nil {
		return err
	}
	if !finished {
		c.s.markDue(p)
	}
	c.after = append(c.after, func() {
		p.mu.Lock()
		x := &p.runs.sweep
		x.doubtful = x.doubtful || freed > 0
		if x.asked == sweep.asked {
			x.from = from
			if finished {
				x.done = sweep.asked
			}
		} else {
			c.s.markDue(p)
		}
		p.mu.Unlock()
		c.s.keeper.noteDeleted(freed)
	})
	return nil
}

// deleteRuns deletes the batches of runs that are not to be kept while they fit, and returns the first run that
// may have some left.
func (c *commit) deleteRuns(id GroupID, from uint64, keep func(run uint64) bool) (next uint64, freed int64, finished bool, err error) {
	finished = true
	err = c.s.view(func(txn *badger.Txn) error {
		it := newRunIterator(txn, id)
		defer it.close()
		it.it.Seek(runPrefix(id, from))
		for checked := uint64(noRun); ; {
			ok, err := it.current()
			if err != nil || !ok {
				return err
			}
			if it.run != checked {
				if keep(it.run) {
					if it.run == noRun-1 {
						return nil
					}
					it.it.Seek(runPrefix(id, it.run+1))
					continue
				}
				checked = it.run
			}
			if !c.fits(deleteCost) {
				next, finished = it.run, false
				return nil
			}
			if err := c.delete(it.it.Item().KeyCopy(nil)); err != nil {
				return err
			}
			if it.meta.size >= valueThreshold {
				freed += int64(it.meta.size)
			}
			it.it.Next()
		}
	})
	return next, freed, finished, err
}

// dropRunsLocked takes whole runs from the front that retention has no use for any more, and returns their bytes.
func (p *Partition) dropRunsLocked(r *retention) (removed int64) {
	man, n := p.runs.man, 0
	h := p.fold.horizon
	for ; n < len(man.runs); n++ {
		x := &man.runs[n]
		if !r.expiredRun(x, removed) {
			break
		}
		removed += x.bytes
		h.start = x.next
	}
	if n == 0 {
		return 0
	}
	if n == len(man.runs) {
		h.start = h.base
	}
	h.logStart = max(h.logStart, h.start)
	p.runs.man = man.without(n)
	p.fold.trim(h, 0, 0)
	p.runs.sweep.ask()
	p.retire.moved++
	p.store.keeper.pace.retired.Add(removed)
	p.store.markDue(p)
	p.wakeLocked()
	return removed
}

// errSwapped says that runs were swapped while they were read.
var errSwapped = errors.New("runs were swapped meanwhile")

// sameRuns reports that the manifest is still the one that a reader went by.
func (p *Partition) sameRuns(m *manifest) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.runs.man == m
}
