package log

// ID is the group whose log this is. No other log of the cluster has it, before or after.
func (p *Partition) ID() GroupID { return p.id }

// Whole is the offset from which on every record that was ever written is there. Below it retention or compaction
// may have taken some. It never goes back.
func (p *Partition) Whole() int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return max(p.fold.horizon.base, p.marksLocked().LogStart)
}
