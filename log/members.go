package log

// confChange says which configuration a group has from the entry index on. The bytes are the cluster's own.
type confChange struct {
	index uint64
	conf  []byte
}

// confHistory lists the changes of a group's configuration that a fold knows of, oldest first. Below the horizon the newest one is
// kept, so that a raftSnapshot can say what the configuration was there. Empty: the group has had its first one only.
type confHistory []confChange

// at is the configuration as of an index; nil: the group's first.
func (h confHistory) at(index uint64) []byte {
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].index <= index {
			return h[i].conf
		}
	}
	return nil
}

// trim forgets what is not the newest below first.
func (h confHistory) trim(first uint64) confHistory {
	n := 0
	for n+1 < len(h) && h[n+1].index < first {
		n++
	}
	return append(h[:0:0], h[n:]...)
}

// below are the changes below an index.
func (h confHistory) below(index uint64) confHistory {
	n := 0
	for n < len(h) && h[n].index < index {
		n++
	}
	return append(h[:0:0], h[:n]...)
}

// Horizon is the entry before the tail, and the configuration as of it; nil: the group's first.
func (p *Partition) Horizon() (index, term uint64, configuration []byte) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	h := &p.fold.horizon
	return h.first - 1, h.prevTerm, p.fold.confs.at(h.first - 1)
}

// Configuration is the newest configuration that the group's applied entries tell; nil: it has had its first one only.
func (p *Partition) Configuration() []byte {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.fold.confs.at(p.fold.applied)
}
