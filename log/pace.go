package log

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Garbage is what value-log files hold on disk beside the retained entries. A collection rewrites files that are at least
// half garbage, so as much garbage as live bytes may stay for ever; what is allowed above that is bounded here: one file
// being filled, one being collected, and gcAfter. Beyond garbageSoft commits are slowed, in proportion, so that deleting
// and collecting keep up; at garbageHard they are down to paceFloor. Invariant 9: the disk holds at most about
// 2.5 times what is retained and garbageHard.
const (
	garbageSoft = 192 << 20
	garbageHard = 384 << 20
	paceFloor   = 16 << 20 // bytes per second
	paceSteepen = 4        // how much slower than paceFloor it becomes far beyond garbageHard
	maxPace     = time.Second
	// valueOverhead is what a value-log record takes besides its value.
	valueOverhead = logKeyLen + 20
)

// pacer knows how much garbage there is.
type pacer struct {
	live     atomic.Int64 // retained bytes, when last measured
	measured atomic.Int64 // garbage, when last measured
	retired  atomic.Int64 // bytes that became garbage since

	mu    sync.Mutex
	eased chan struct{} // closed at the next measurement
}

func (p *pacer) garbage() int64 { return p.measured.Load() + p.retired.Load() }

// pressing reports that commits are slowed.
func (p *pacer) pressing() bool { return p.garbage() > garbageSoft+p.live.Load() }

// paceDelay is how long a commit of size bytes is to take at least.
func paceDelay(garbage, live, size int64) time.Duration {
	soft, hard := garbageSoft+live, garbageHard+live+live/2
	if garbage <= soft {
		return 0
	}
	over := min(float64(garbage-soft)/float64(hard-soft), paceSteepen)
	return min(time.Duration(over*float64(size)/paceFloor*float64(time.Second)), maxPace)
}

// await slows a commit down as far as garbage demands, less when it becomes less meanwhile.
func (p *pacer) await(size int64, quit <-chan struct{}) (waited time.Duration) {
	start := time.Now()
	for {
		p.mu.Lock()
		eased := p.eased
		p.mu.Unlock()
		rest := paceDelay(p.garbage(), p.live.Load(), size) - time.Since(start)
		if rest <= 0 {
			return time.Since(start)
		}
		t := time.NewTimer(rest)
		select {
		case <-t.C:
		case <-eased:
		case <-quit:
		}
		t.Stop()
		select {
		case <-quit:
			return time.Since(start)
		default:
		}
	}
}

// slow holds a commit back while there is too much garbage.
func (s *Store) slow(size int64) {
	p := &s.keeper.pace
	if size == 0 || !p.pressing() {
		return
	}
	s.stats.slowed.Add(int64(p.await(size, s.keeper.quit)))
}

// measure compares the value log with what is retained.
func (k *keeper) measure() {
	p := &k.pace
	retired := p.retired.Load()
	disk := k.s.dir.valueLogBytes()
	live := k.s.liveBytes()
	if disk-live > garbageSoft+live {
		live += k.closedBytes()
	}
	was := p.pressing()
	p.live.Store(live)
	p.measured.Store(max(disk-live, 0))
	p.retired.Add(-retired)
	p.mu.Lock()
	close(p.eased)
	p.eased = make(chan struct{})
	p.mu.Unlock()
	if now := p.pressing(); now != was {
		if now {
			k.s.log.Warn("appends are slowed until deleted records' disk space is given back",
				"garbage_bytes", p.garbage(), "retained_bytes", live)
		} else {
			k.s.log.Info("appends are no longer slowed", "garbage_bytes", p.garbage(), "retained_bytes", live)
		}
	}
}

// liveBytes is what the open partitions' retained entries and checkpoints take in the value log.
func (s *Store) liveBytes() (n int64) {
	for _, p := range s.open() {
		p.mu.RLock()
		n += p.bytesLocked() + p.runs.written + 2*p.checkpoint.size
		n += (p.runs.man.batches() + int64(p.stored.last-p.fold.horizon.first+1)) * valueOverhead
		p.mu.RUnlock()
	}
	return n
}

// closedBytes is the same of groups that nobody has opened. They do not change.
func (k *keeper) closedBytes() (n int64) {
	s := k.s
	for _, id := range s.Groups() {
		s.mu.Lock()
		x := s.partitions[id]
		isOpen := x != nil && x.p != nil
		s.mu.Unlock()
		if isOpen {
			continue
		}
		size, known := k.closed[id]
		if !known {
			if err := s.logBytes(id, func(n int64) { size += n }); err == nil {
				size += s.runBytes(id)
			} else if !errors.Is(err, ErrClosed) {
				s.log.Warn("size of a closed group is not known", "group", id, "error", err)
			}
			k.closed[id] = size
		}
		n += size
	}
	return n
}

// logBytes tells the sizes of all entries that are stored of a group.
func (s *Store) logBytes(id GroupID, add func(int64)) error {
	return s.view(func(txn *badger.Txn) error {
		it := newRawIterator(txn, id)
		defer it.close()
		ok, err := it.seek(0)
		for ; ok && err == nil; ok, err = it.next() {
			add(int64(it.meta.size) + valueOverhead)
		}
		return err
	})
}

// runBytes is what the runs of a group that nobody has opened take. A manifest that cannot be read is an error of opening it.
func (s *Store) runBytes(id GroupID) (n int64) {
	_ = s.view(func(txn *badger.Txn) error {
		return viewValue(txn, groupKey(spaceManifest, id), func(b []byte) error {
			m, err := decodeManifest(b)
			if err == nil {
				n = m.bytes + m.batches()*valueOverhead
			}
			return err
		})
	})
	return n
}

// valueLogBytes is what the value log occupies on disk.
func (d *dataDir) valueLogBytes() (n int64) {
	files, err := os.ReadDir(d.path)
	if err != nil {
		return 0
	}
	for _, e := range files {
		if filepath.Ext(e.Name()) != ".vlog" {
			continue
		}
		if info, err := e.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				n += st.Blocks * 512
			}
		}
	}
	return n
}
