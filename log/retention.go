package log

import "time"

// retainEntries bounds how many entries one look at the start of the log goes over.
const retainEntries = 16 << 10

// Retention by size runs as a partition grows, not only now and then: at a share of the limit above it, so that
// the excess does not depend on how fast records come. Each time costs a checkpoint, so it is not a small share.
const (
	growthShare    = 8
	minGrowthSlack = 4 << 20
	maxGrowthSlack = 16 << 20
)

// retireState is the part of the log between the horizon and what is still on disk.
type retireState struct {
	from, to uint64 // entries of [from, to) are to be deleted
	moved    int64  // horizon moves that are not durable yet
	doubtful bool   // entries were deleted since the last sweep
	cut      int64  // bytes that left the tail since the partition was opened
	front    frontBatch
	trimmed  bool // the log start may lie above the horizon
}

// frontBatch is the first retained batch, kept so that most looks need no scan.
type frontBatch struct {
	index uint64 // 0: not known
	meta  entryMeta
}

// retention is what decides whether the start of the log is to be deleted.
type retention struct {
	bytes    int64 // stored now
	keep     int64 // 0: no limit
	cutoff   int64 // timestamps below are too old
	byTime   bool
	logStart int64
	limit    int64 // nothing that ends above is deleted
	hwm      int64
}

// expiredRun is expired for a run.
func (r *retention) expiredRun(x *run, removed int64) bool {
	return r.keep > 0 && r.bytes-removed-x.bytes >= r.keep || r.byTime && x.maxTs < r.cutoff || x.next <= r.logStart
}

// expired reports whether the batch m, at the start of the log, is to be deleted when removed bytes go before it.
func (r *retention) expired(m *entryMeta, removed int64) bool {
	if m.next() > r.limit || m.next() >= r.hwm {
		return false // uncommitted, undecided, or the newest batch
	}
	return r.keep > 0 && r.bytes-removed-int64(m.size) >= r.keep ||
		r.byTime && m.maxTs < r.cutoff ||
		m.next() <= r.logStart
}

// RetainTo is where the log should start by size and time now, never above the last stable offset and never above the newest batch; of
// compacted history whole runs go. It changes nothing: the leader proposes a trim entry, and what that entry's apply moves is deleted on
// every replica. Far behind it may be less than what is due; the next call goes on.
func (p *Partition) RetainTo(now time.Time) (logStart int64, move bool) {
	p.mu.Lock()
	r := p.retentionLocked()
	r.keep, r.byTime, r.cutoff = p.cfg.RetentionBytes, p.cfg.RetentionMs > 0, now.UnixMilli()-p.cfg.RetentionMs
	h, applied, start := p.fold.horizon, p.fold.applied, r.logStart
	removed, runs := int64(0), p.runs.man.runs
	for len(runs) > 0 && r.expiredRun(&runs[0], removed) {
		removed += runs[0].bytes
		start = max(start, runs[0].next)
		runs = runs[1:]
	}
	known := p.retire.front.index == h.first
	idle := p.closed || len(runs) > 0 || h.first > applied || known && !r.expired(&p.retire.front.meta, removed)
	p.mu.Unlock()
	if !idle {
		cut, err := p.findCut(&r, h, applied, removed)
		if err != nil {
			p.store.log.Error("retention is put off", "group", p.id, "error", err)
			return r.logStart, false
		}
		p.mu.Lock()
		if cut.h.first == h.first && p.fold.horizon == h {
			p.retire.front = cut.front
		}
		p.mu.Unlock()
		if cut.h.first > h.first {
			start = max(start, cut.h.base)
		}
	}
	return start, start > r.logStart
}

// Outgrown reports that the partition is so much larger than retention.bytes that the leader is to trim it now.
func (p *Partition) Outgrown() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	keep := p.cfg.RetentionBytes
	return keep > 0 && p.bytesLocked()-keep >= min(max(keep/growthShare, minGrowthSlack), maxGrowthSlack)
}

// ForgetIdle forgets producers that were idle for a day, and goes on deleting what lies below the log start.
func (p *Partition) ForgetIdle(now time.Time) {
	p.mu.Lock()
	p.idle.sweep(now, p.fold.producers, p.staging.ahead)
	trimmed := p.retire.trimmed
	p.mu.Unlock()
	if trimmed {
		p.collect()
	}
}

func (p *Partition) retentionLocked() retention {
	return retention{
		bytes: p.bytesLocked(), logStart: p.fold.horizon.logStart, limit: p.fold.lastStable(), hwm: p.fold.hwm,
	}
}

// collect deletes whole batches and runs that lie below the log start. It is durable with the next Commit; the deletes follow in bounded
// portions.
func (p *Partition) collect() {
	p.mu.Lock()
	r := p.retentionLocked()
	p.retire.trimmed = false
	if !p.closed {
		p.dropRunsLocked(&r)
	}
	h, applied := p.fold.horizon, p.fold.applied
	known := p.retire.front.index == h.first
	idle := p.closed || len(p.runs.man.runs) > 0 || h.first > applied || known && !r.expired(&p.retire.front.meta, 0)
	if idle {
		p.retire.trimmed = known && p.retire.front.meta.next() <= r.logStart // it is the newest, or a transaction's
	}
	p.mu.Unlock()
	if idle {
		return
	}
	cut, err := p.findCut(&r, h, applied, 0)
	if err != nil {
		p.store.log.Error("deleting below the log start is put off", "group", p.id, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	done := err == nil && p.fold.horizon.first == h.first && p.fold.horizon.start == h.start && p.cutLocked(cut, applied)
	p.retire.trimmed = !done || cut.front.index > 0 && cut.front.meta.next() <= r.logStart
}

// cut is what findCut decided: entries below h.first go.
type cut struct {
	h       horizon
	removed int64
	maxTs   int64 // largest timestamp in what is left of the stretch that h.first lies in, up to the applied entry
	front   frontBatch
}

// findCut scans the keys from the horizon up to the first batch that stays, when removed bytes go before it.
func (p *Partition) findCut(r *retention, h horizon, applied uint64, removed int64) (cut, error) {
	c := cut{h: h, maxTs: -1}
	pending := removed
	var stretchEnd uint64
	n := 0
	err := p.scan(h.first, func(m *entryMeta) bool {
		if m.index > applied {
			return false
		}
		if c.front.index == 0 {
			if m.typ != EntryBatch {
				return true
			}
			if n++; n <= retainEntries && r.expired(m, pending) {
				pending += int64(m.size)
				c.h.first, c.h.prevTerm, c.h.base, c.h.start = m.index+1, m.term, m.next(), m.next()
				c.removed = pending - removed
				return true
			}
			c.front = frontBatch{index: c.h.first, meta: *m}
			stretchEnd = p.stretchEnd(c.h.first)
		}
		if m.index >= stretchEnd {
			return false
		}
		c.maxTs = max(c.maxTs, m.maxTs)
		return true
	})
	c.h.logStart = max(c.h.logStart, c.h.base)
	return c, err
}

func (p *Partition) stretchEnd(index uint64) uint64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.fold.index.stretchEnd(index)
}

// cutLocked moves the horizon. scanned is the index up to which the cut knows timestamps. It reports false when what was applied
// since is not in memory any more: then the cut has to be made anew.
func (p *Partition) cutLocked(c cut, scanned uint64) bool {
	if end := min(p.fold.index.stretchEnd(c.h.first)-1, p.fold.applied); end > scanned {
		for i := scanned + 1; i <= end; i++ {
			e := p.recent.at(i)
			if e == nil {
				return false
			}
			c.maxTs = max(c.maxTs, e.meta.maxTs)
		}
	}
	p.retire.front = c.front
	if c.h.first == p.fold.horizon.first {
		return true
	}
	c.h.logStart = max(c.h.logStart, p.fold.horizon.logStart)
	p.fold.trim(c.h, c.removed, c.maxTs)
	p.stored.trim(c.h.first)
	p.retire.to = c.h.first
	p.retire.moved++
	p.retire.cut += c.removed
	p.store.keeper.pace.retired.Add(c.removed)
	p.store.markDue(p)
	p.wakeLocked()
	return true
}
