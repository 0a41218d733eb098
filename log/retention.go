package log

import (
	"fmt"
	"time"
)

// retainEntries bounds how many entries one call of Retain deletes.
const retainEntries = 16 << 10

// Retention by size runs as a partition grows, not only when somebody calls Retain: at a share of the limit above it, so that
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
}

// frontBatch is the first retained batch, kept so that most calls of Retain need no scan.
type frontBatch struct {
	index uint64 // 0: not known
	meta  entryMeta
}

// retention is what a call of Retain goes by.
type retention struct {
	bytes    int64 // stored now
	keep     int64 // 0: no limit
	cutoff   int64 // timestamps below are too old
	byTime   bool
	logStart int64
	limit    int64 // nothing that ends above is deleted
	hwm      int64
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

// Retain deletes whole batches from the start by size, time or a DeleteRecords request, never above the
// high watermark, never a batch of an open transaction and never the newest batch; of compacted history whole runs. It returns the new log start, which is
// durable with the next Commit; the deletes follow in bounded portions. It also forgets producers that were idle for a day.
func (p *Partition) Retain(now time.Time) int64 {
	p.mu.Lock()
	p.idle.sweep(now, p.fold.producers, p.staging.ahead)
	r := retention{byTime: p.cfg.RetentionMs > 0, cutoff: now.UnixMilli() - p.cfg.RetentionMs}
	p.mu.Unlock()
	return p.retain(r)
}

// outgrownLocked reports that Apply is to trim the partition by size.
func (p *Partition) outgrownLocked() bool {
	keep := p.cfg.RetentionBytes
	return keep > 0 && p.bytesLocked()-keep >= min(max(keep/growthShare, minGrowthSlack), maxGrowthSlack)
}

// retain goes by size, by DeleteRecords, and by time where r says so.
func (p *Partition) retain(r retention) int64 {
	p.mu.Lock()
	r.bytes, r.keep = p.bytesLocked(), p.cfg.RetentionBytes
	r.logStart, r.limit, r.hwm = p.fold.horizon.logStart, p.fold.lastStable(), p.fold.hwm
	if len(p.runs.man.runs) > 0 && !p.closed {
		r.bytes -= p.dropRunsLocked(&r)
		r.logStart = p.fold.horizon.logStart
		if len(p.runs.man.runs) > 0 {
			p.mu.Unlock()
			return r.logStart
		}
	}
	h, applied, start := p.fold.horizon, p.fold.applied, r.logStart
	known := p.retire.front.index == h.first
	idle := p.closed || h.first > applied || known && !r.expired(&p.retire.front.meta, 0)
	p.mu.Unlock()
	if idle {
		return start
	}
	cut, err := p.findCut(&r, h, applied)
	if err != nil {
		p.store.log.Error("retention is put off", "group", p.id, "error", err)
		return start
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fold.horizon.first == h.first && p.fold.horizon.start == h.start {
		p.cutLocked(cut, applied)
	}
	return p.fold.horizon.logStart
}

// cut is what findCut decided: entries below h.first go.
type cut struct {
	h       horizon
	removed int64
	maxTs   int64 // largest timestamp in what is left of the stretch that h.first lies in, up to the applied entry
	front   frontBatch
}

// findCut scans the keys from the horizon up to the first batch that stays.
func (p *Partition) findCut(r *retention, h horizon, applied uint64) (cut, error) {
	c := cut{h: h, maxTs: -1}
	var pending int64
	var stretchEnd uint64
	n := 0
	err := p.store.scanLog(p.id, h.first, func(m *entryMeta) bool {
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
				c.removed = pending
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

// DeleteRecordsBefore moves the log start up to an offset, at most to the high watermark, and returns the log start.
// It is durable when it returns; Retain deletes what lies below.
func (p *Partition) DeleteRecordsBefore(offset int64) (int64, error) {
	start, moved, err := p.moveLogStart(offset)
	if err == nil && moved {
		err = p.store.persist(p)
	}
	return start, err
}

func (p *Partition) moveLogStart(offset int64) (start int64, moved bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.fold.horizon
	switch {
	case offset > p.fold.hwm || offset < 0:
		return h.logStart, false, fmt.Errorf("delete records before %d: %w: the high watermark is %d", offset, ErrOffsetOutOfRange, p.fold.hwm)
	case offset <= h.logStart:
		return h.logStart, p.retire.moved > 0, nil
	}
	h.logStart = offset
	p.fold.trim(h, 0, 0)
	p.retire.moved++
	p.store.markDue(p)
	p.wakeLocked()
	return offset, true, nil
}
