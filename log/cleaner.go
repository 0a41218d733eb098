package log

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/log/keyindex"
)

const (
	// keyIndexDir holds the key index, beside the database's files.
	keyIndexDir = "keys"
	// retryAfter is how long a partition is put aside after an error that may pass. Damage does not pass: such a partition
	// waits for another configuration, or for a restart.
	retryAfter = time.Minute
)

// cleaner compacts partitions, one at a time, the dirtiest first. Its goroutine is the Store's second one.
type cleaner struct {
	s    *Store
	opts CompactionOptions
	stop func()
	quit chan struct{}
	done chan struct{}
	wake chan struct{} // capacity 1: a group was dropped

	// mu makes rounds one at a time. It is taken before commitMu.
	mu     sync.Mutex
	index  *keyindex.Index // opened when the first round needs it
	closed bool

	stateMu sync.Mutex // taken last
	stats   RoundStats
	current GroupID // 0: none
	drops   map[GroupID]struct{}
	dropErr error // of the last dropKeys, said once
}

// CompactionStats are what compaction did since Open, and what it is doing.
type CompactionStats struct {
	RoundStats
	Current  GroupID // 0: no round is running
	Progress float64 // of it, from 0 to 1
}

// PartitionCompaction is how compaction of one partition stands.
type PartitionCompaction struct {
	Compact                    bool // the topic's policy says so
	Runs                       int
	CompactedBytes, DirtyBytes int64
	DirtyRatio                 float64   // share of the bytes that are not compacted yet
	LastRound                  time.Time // zero: none since the partition was opened
	Err                        error     // why the partition is put aside; nil: it is not
}

func newCleaner(s *Store, opts CompactionOptions) *cleaner {
	opts.Interval = cmp.Or(opts.Interval, DefaultCompactionInterval)
	opts.BytesPerSecond = cmp.Or(opts.BytesPerSecond, DefaultCompactionRate)
	opts.CPUShare = cmp.Or(opts.CPUShare, DefaultCompactionShare)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	k := &cleaner{
		s: s, opts: opts, quit: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1),
		drops: map[GroupID]struct{}{},
	}
	k.stop = sync.OnceFunc(func() { close(k.quit) })
	for id := range s.drops {
		k.drops[id] = struct{}{}
	}
	return k
}

// run is the goroutine.
func (k *cleaner) run() {
	defer close(k.done)
	every := k.opts.Interval
	if every < 0 {
		every = DefaultCompactionInterval // only dropped groups are looked after
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-k.quit:
			return
		case <-k.wake:
		case <-tick.C:
		}
		k.dropKeys()
		if k.opts.Interval > 0 {
			k.work()
		}
	}
}

// close ends a running round and closes the key index.
func (k *cleaner) close() error {
	k.stop()
	<-k.done
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.index == nil {
		return nil
	}
	return k.index.Close()
}

// candidate is a partition for which a round is due.
type candidate struct {
	p     *Partition
	ratio float64
	why   string
}

// work does a round for every partition for which one is due, the dirtiest first.
func (k *cleaner) work() {
	var due []candidate
	for _, p := range k.s.open() {
		if c, ok := k.look(p); ok {
			due = append(due, c)
		}
	}
	slices.SortFunc(due, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.ratio, a.ratio), cmp.Compare(a.p.id, b.p.id))
	})
	for _, c := range due {
		if k.stopped() || k.s.failure() != nil || k.s.space.compactionErr(0) != nil {
			return
		}
		k.mu.Lock()
		err := k.round(c.p, c.why, k.rest)
		k.mu.Unlock()
		k.report(c.p, err)
	}
}

// look decides whether a round is due.
func (k *cleaner) look(p *Partition) (candidate, bool) {
	now := k.opts.Now()
	p.mu.RLock()
	cfg, man, tail, closed := p.cfg, p.runs.man, p.fold.bytes, p.closed || p.runs.busy()
	aside := p.runs.clean.err != nil && (p.runs.clean.retryAt.IsZero() || now.Before(p.runs.clean.retryAt))
	p.mu.RUnlock()
	if closed || !cfg.Compact || aside || k.stopped() {
		return candidate{}, false
	}
	d := dirt{compacted: man.bytes, dirty: tail, expired: man.expiredBytes(now.UnixMilli() - cfg.DeleteRetentionMs)}
	if d.due(&cfg, now) == "" && cfg.MaxCompactionLagMs == 0 {
		return candidate{}, false // not even if all of the tail were old enough: oldest is 1970 here
	}
	start := time.Now()
	x, err := p.findExtent(now)
	if err != nil {
		k.report(p, err)
		return candidate{}, false
	}
	if err := k.rest(0, time.Since(start)); err != nil {
		return candidate{}, false
	}
	d.dirty, d.oldest = x.bytes, x.oldest
	why := d.due(&cfg, now)
	return candidate{p, d.ratio(), why}, why != ""
}

// round does one round, with mu held.
func (k *cleaner) round(p *Partition, why string, rest func(int64, time.Duration) error) error {
	if k.closed || k.stopped() {
		return ErrClosed
	}
	if err := k.s.space.compactionErr(0); err != nil {
		return err
	}
	if err := k.openIndex(); err != nil {
		return err
	}
	k.stateMu.Lock()
	k.current = p.id
	k.stateMu.Unlock()
	now := k.opts.Now()
	r := round{s: k.s, p: p, index: k.index, rest: rest, now: now}
	start := time.Now()
	err := r.run()
	k.stateMu.Lock()
	k.current = 0
	k.stats.add(r.stats)
	k.stateMu.Unlock()
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.runs.clean.last, p.runs.clean.err, p.runs.clean.retryAt = now, nil, time.Time{}
	p.mu.Unlock()
	if r.stats.Rounds > 0 {
		k.s.log.Debug("partition was compacted", "group", p.id, "why", why, "took", time.Since(start).Round(time.Millisecond),
			"read_bytes", r.stats.ReadBytes, "written_bytes", r.stats.WrittenBytes, "reclaimed_bytes", r.stats.ReclaimedBytes,
			"removed_records", r.stats.RemovedRecords, "up_to", r.end())
	}
	return nil
}

// report puts a partition aside whose round failed, and says so once. The others go on (invariant 7).
func (k *cleaner) report(p *Partition, err error) {
	if err == nil || errors.Is(err, errOvertaken) || errors.Is(err, ErrClosed) {
		return
	}
	k.stateMu.Lock()
	k.stats.Failures++
	k.stateMu.Unlock()
	p.mu.Lock()
	was := p.runs.clean.err
	p.runs.clean.err, p.runs.clean.retryAt = err, time.Time{}
	lasting := errors.Is(err, ErrCorrupt) || errors.Is(err, ErrFormat)
	if !lasting {
		p.runs.clean.retryAt = k.opts.Now().Add(retryAfter)
	}
	p.mu.Unlock()
	if was != nil && was.Error() == err.Error() {
		return
	}
	if lasting {
		k.s.log.Error("compaction of a partition stopped; nothing is lost, but it does not shrink any more: restore the data "+
			"directory from a backup, or copy the topic", "group", p.id, "error", err)
		return
	}
	k.s.log.Warn("compaction of a partition is put off", "group", p.id, "for", retryAfter, "error", err)
}

// openIndex opens the key index. What cannot be opened is rebuilt from the log (invariant 8).
func (k *cleaner) openIndex() error {
	if k.index != nil {
		return nil
	}
	x, err := keyindex.Open(filepath.Join(k.s.dir.path, keyIndexDir), keyindex.Options{Logger: k.s.log})
	if err != nil {
		return fmt.Errorf("open key index: %w", err)
	}
	groups, err := x.Groups()
	if err != nil {
		return errors.Join(err, x.Close())
	}
	k.index = x
	// A drop whose last step a crash took, or a data directory without its newest part, leaves keys that nobody asks for.
	known := map[GroupID]bool{}
	for _, id := range k.s.Groups() {
		known[id] = true
	}
	k.stateMu.Lock()
	defer k.stateMu.Unlock()
	for _, g := range groups {
		if !known[GroupID(g)] {
			k.drops[GroupID(g)] = struct{}{}
		}
	}
	return nil
}

// rest waits as long as the bounds say after work of that much. It ends early with ErrClosed.
func (k *cleaner) rest(bytes int64, busy time.Duration) error {
	t := throttle{rate: k.opts.BytesPerSecond, share: k.opts.CPUShare}
	d := t.pause(bytes, busy)
	if d <= 0 {
		if k.stopped() {
			return ErrClosed
		}
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-k.quit:
		return ErrClosed
	case <-timer.C:
		return nil
	}
}

func (k *cleaner) stopped() bool {
	select {
	case <-k.quit:
		return true
	default:
		return false
	}
}

// forget has the keys of a dropped group deleted.
func (k *cleaner) forget(id GroupID) {
	k.stateMu.Lock()
	k.drops[id] = struct{}{}
	k.stateMu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// dropKeys deletes the keys of dropped groups. Those that it fails for it tries again at the next tick.
func (k *cleaner) dropKeys() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	if k.index == nil {
		if _, err := os.Stat(filepath.Join(k.s.dir.path, keyIndexDir)); errors.Is(err, os.ErrNotExist) {
			k.takeDrops() // nothing was ever compacted
			return
		}
	}
	ids := k.takeDrops()
	if len(ids) == 0 {
		return
	}
	err := k.s.space.compactionErr(0)
	if err == nil {
		err = k.openIndex()
	}
	for len(ids) > 0 && err == nil {
		if err = k.index.Drop(uint64(ids[0])); err == nil {
			ids = ids[1:]
		}
	}
	k.stateMu.Lock()
	for _, id := range ids {
		k.drops[id] = struct{}{}
	}
	again := err != nil && k.dropErr != nil && err.Error() == k.dropErr.Error()
	k.dropErr = err
	k.stateMu.Unlock()
	if err != nil && !again {
		k.s.log.Warn("keys of a deleted partition are still in the key index; they are deleted later", "groups", len(ids), "error", err)
	}
}

// takeDrops takes the dropped groups whose keys are to be deleted.
func (k *cleaner) takeDrops() []GroupID {
	k.stateMu.Lock()
	defer k.stateMu.Unlock()
	ids := slices.Sorted(maps.Keys(k.drops))
	clear(k.drops)
	return ids
}

// Compact does a round for a partition at once, whether it is due or not, and without rest; a partition that was put aside is
// tried again. It waits for a round that is running.
func (s *Store) Compact(id GroupID) error {
	p, err := s.Partition(id)
	if err != nil {
		return err
	}
	k := s.cleaner
	k.mu.Lock()
	err = k.round(p, "it was asked for", func(int64, time.Duration) error {
		if k.stopped() {
			return ErrClosed
		}
		return nil
	})
	k.mu.Unlock()
	k.report(p, err)
	if err != nil {
		return fmt.Errorf("compact group %d: %w", id, err)
	}
	return nil
}

// CompactDue looks at all partitions at once, as the cleaner does from time to time.
func (s *Store) CompactDue() { s.cleaner.work() }

// Compaction returns what compaction did, for metrics.
func (s *Store) Compaction() CompactionStats {
	k := s.cleaner
	k.stateMu.Lock()
	out := CompactionStats{RoundStats: k.stats, Current: k.current}
	k.stateMu.Unlock()
	if out.Current != 0 {
		s.mu.Lock()
		x := s.partitions[out.Current]
		s.mu.Unlock()
		if x != nil && x.p != nil {
			x.p.mu.RLock()
			out.Progress = x.p.runs.clean.progress
			x.p.mu.RUnlock()
		}
	}
	return out
}

// Compaction returns how compaction of the partition stands.
func (p *Partition) Compaction() PartitionCompaction {
	p.mu.RLock()
	defer p.mu.RUnlock()
	d := dirt{compacted: p.runs.man.bytes, dirty: p.fold.bytes}
	return PartitionCompaction{
		Compact: p.cfg.Compact, Runs: len(p.runs.man.runs), CompactedBytes: d.compacted, DirtyBytes: d.dirty, DirtyRatio: d.ratio(),
		LastRound: p.runs.clean.last, Err: p.runs.clean.err,
	}
}
