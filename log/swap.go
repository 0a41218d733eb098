package log

// swap makes the new runs the log below the cleanable end.
func (r *round) swap() error {
	var before int64
	err := r.commitWith(0, func(c *commit) error {
		for {
			cut, applied, stride, err := r.p.scanFront(r.plan.h)
			if err != nil {
				return err
			}
			r.p.mu.Lock()
			before = r.p.bytesLocked()
			done, err := r.swapLocked(cut, applied, stride)
			r.p.mu.Unlock()
			if err != nil {
				return err
			}
			if done {
				return c.addCheckpoint(r.p)
			}
		}
	})
	if err != nil {
		return err
	}
	r.stats.Rounds++
	r.stats.RemovedRecords += r.v.records
	r.stats.ReclaimedBytes += max(before-r.p.Bytes(), 0)
	return nil
}

// scanFront reads the keys where the tail is going to start, for cutLocked.
func (p *Partition) scanFront(h horizon) (c cut, applied, stride uint64, err error) {
	p.mu.RLock()
	applied, stride = p.fold.applied, p.fold.index.stride
	end := p.fold.index.stretchEnd(h.first)
	p.mu.RUnlock()
	c = cut{h: h, maxTs: -1}
	err = p.scan(h.first, func(m *entryMeta) bool {
		if m.index > applied {
			return false
		}
		if m.index < end {
			c.maxTs = max(c.maxTs, m.maxTs)
		}
		if c.front.index == 0 && m.typ == EntryBatch {
			c.front = frontBatch{index: h.first, meta: *m}
		}
		return m.index < end || c.front.index == 0
	})
	return c, applied, stride, err
}

// swapLocked puts the round's runs in the place of what it went over. It reports false when the front has to be scanned anew.
func (r *round) swapLocked(c cut, applied, stride uint64) (bool, error) {
	p := r.p
	h := p.fold.horizon
	if p.closed || !p.cfg.Compact || h.base > r.end() || p.runs.busy() {
		return false, errOvertaken
	}
	if p.fold.index.stride != stride {
		return false, nil
	}
	// Retention may have moved on meanwhile: what it took stays away.
	was := p.runs.man
	gone := was.bytes
	var runs []run
	for _, x := range r.w.runs {
		switch {
		case r.man.names(x.id) && !was.names(x.id):
		case x.next <= h.logStart && len(runs) == 0:
			h.start = max(h.start, x.next)
		default:
			runs = append(runs, x)
			if r.man.names(x.id) {
				gone -= x.bytes
			}
		}
	}
	if h.first < r.plan.h.first {
		c.removed = r.plan.bytes - (p.retire.cut - r.cut)
		c.h.logStart, c.h.start = max(h.logStart, h.start), h.start
		if len(runs) == 0 {
			c.h.start = c.h.base
			c.h.logStart = max(c.h.logStart, c.h.base)
		}
		if !p.cutLocked(c, applied) {
			return false, nil
		}
	} else {
		if len(runs) == 0 {
			h.start = h.base
			h.logStart = max(h.logStart, h.base)
		}
		p.fold.trim(h, 0, 0)
	}
	p.fold.txns.forget(r.v.markers)
	p.runs.man = newManifest(was.nextRun, was.retired, runs)
	p.runs.writing, p.runs.written = noRun, 0
	p.runs.sweep.ask()
	p.retire.moved++
	p.store.keeper.pace.retired.Add(gone)
	p.store.markDue(p)
	return true, nil
}

// abandon makes garbage of what a round has written in vain.
func (r *round) abandon() {
	p := r.p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs.clean.progress = 0
	if p.runs.writing == noRun {
		return
	}
	r.s.keeper.pace.retired.Add(p.runs.written)
	p.runs.writing, p.runs.written = noRun, 0
	p.runs.sweep.ask()
	r.s.markDue(p)
}

// resetAfter: the key index of a partition is rebuilt when retention has removed so much, and twice what is left.
const resetAfter = 64 << 20
