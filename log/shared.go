package log

// sharedBound is up to where a group's entries are durable on every voter. Only those may be compacted (the horizon rule): a follower that
// has an entry must find what comes before it in its own log, as it was written. The zero value bounds nothing: there is one voter.
type sharedBound struct {
	several bool
	index   uint64
}

func (b *sharedBound) clamp(index uint64) uint64 {
	if b.several {
		return min(index, b.index)
	}
	return index
}

// SetShared tells up to which entry every voter has the log on its disk. several is false where this is the only voter.
func (p *Partition) SetShared(several bool, index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !several {
		p.shared = sharedBound{}
		return
	}
	// What was durable everywhere once stays so; a voter that lost its disk comes back as another one.
	p.shared = sharedBound{several: true, index: max(index, p.shared.index)}
}

// busy reports that the runs are being sent or replaced.
func (s *runState) busy() bool { return s.pins > 0 || s.incoming != noRun }
