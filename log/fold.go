package log

import (
	"math"
	"sort"
)

// epochStart is the first entry of a leader's term.
type epochStart struct {
	term   uint64
	index  uint64
	offset int64
}

// horizon is where a partition's tail starts: the entries that are stored as Raft delivered them. Below it there are
// runs, or nothing.
//
// Invariant: start <= base, start <= logStart, and start < base where there are runs.
type horizon struct {
	first    uint64 // index of the first entry of the tail
	prevTerm uint64 // term of the entry before it
	base     int64  // offset of the first entry of the tail
	logStart int64  // first offset that readers may ask for
	start    int64  // first offset that is stored, in a run or in the tail
	// installed is where the base was when a raftSnapshot was installed last; 0: none was. What was folded of an older log cannot go on
	// from there: deletes may have been compacted away.
	installed int64
}

// fold is a partition's state as a pure function of its applied entries (invariant 8). It does no I/O.
type fold struct {
	horizon   horizon
	applied   uint64 // Invariant: horizon.first-1 <= applied
	hwm       int64  // offset behind the last applied entry
	bytes     int64  // of the applied batches of the tail
	epochs    []epochStart
	producers producerTable
	txns      txnIndex
	index     sparseIndex
	confs     confHistory
}

func newFold() fold {
	return fold{
		horizon:   horizon{first: 1},
		producers: producerTable{},
		index:     sparseIndex{stride: 1},
	}
}

// apply adds the next committed entry. f counts only where the entry is a batch.
func (s *fold) apply(m *entryMeta, f *facts) {
	if n := len(s.epochs); n == 0 || s.epochs[n-1].term != m.term {
		s.epochs = append(s.epochs, epochStart{term: m.term, index: m.index, offset: m.base})
	}
	s.index.add(m)
	s.applied = m.index
	s.hwm = m.next()
	if m.typ != EntryBatch {
		s.applyMeta(m, f)
		return
	}
	s.bytes += int64(m.size)
	if f.producerID < 0 {
		return
	}
	if f.control {
		s.txns.end(f.producerID, f.last, f.commit)
		s.producers.observe(f)
		return
	}
	known := s.producers[f.producerID]
	wasOpen := known != nil && known.txnFirst >= 0
	if p := s.producers.observe(f); p.txnFirst >= 0 && !wasOpen {
		s.txns.begin(p.id, p.txnFirst)
	}
}

// applyMeta adds an entry without records.
func (s *fold) applyMeta(m *entryMeta, f *facts) {
	if f.conf != nil {
		s.confs = append(s.confs, confChange{m.index, f.conf})
	}
	if m.typ == EntryTrim {
		s.horizon.logStart = max(s.horizon.logStart, min(f.logStart, s.hwm))
	}
}

// lastStable is where read_committed readers stop: nothing at or above it has an undecided transaction below it.
func (s *fold) lastStable() int64 {
	if first, ok := s.txns.firstOpen(); ok {
		return min(first, s.hwm)
	}
	return s.hwm
}

// epochEnd answers which epoch a follower or consumer of the given epoch shares with this log, and where it ends. Of what is below the log's
// start it knows nothing, however much of it is still stored: replicas answer alike.
func (s *fold) epochEnd(epoch int32) (int32, int64) {
	if epoch < 0 || len(s.epochs) == 0 {
		return -1, -1
	}
	start := s.horizon.logStart
	first := max(sort.Search(len(s.epochs), func(i int) bool { return s.epochs[i].offset > start })-1, 0)
	i := sort.Search(len(s.epochs), func(i int) bool { return s.epochs[i].term > uint64(epoch) })
	switch {
	case i == len(s.epochs) && s.epochs[i-1].term < uint64(epoch):
		return -1, -1 // an epoch that this log does not know yet
	case i == len(s.epochs):
		return epoch, s.hwm
	case i <= first:
		return epoch, max(s.epochs[first].offset, start)
	}
	return epochOf(s.epochs[i-1].term), s.epochs[i].offset
}

// isNewest tells whether no later epoch than this one is known.
func (s *fold) isNewest(epoch int32) bool {
	return epoch >= 0 && len(s.epochs) > 0 && epochOf(s.epochs[len(s.epochs)-1].term) == epoch
}

// epochAt is the epoch that an offset lies in.
func (s *fold) epochAt(offset int64) int32 {
	i := sort.Search(len(s.epochs), func(i int) bool { return s.epochs[i].offset > offset })
	if i == 0 {
		return -1
	}
	return epochOf(s.epochs[i-1].term)
}

// epochOf is a term as the protocol's leader epoch.
func epochOf(term uint64) int32 { return int32(min(term, math.MaxInt32)) }

// trim makes h the horizon; removed is the size of what leaves the tail, maxTs the largest timestamp that is left in
// the first stretch of the index. Epochs and aborted transactions stay as long as something is stored of their offsets.
func (s *fold) trim(h horizon, removed, maxTs int64) {
	if h.first > s.horizon.first {
		s.bytes -= removed
		s.index.trim(h.first, h.base, maxTs)
		s.confs = s.confs.trim(h.first)
	}
	if h.start > s.horizon.start {
		s.txns.trim(h.start)
		s.trimEpochs(&h)
	}
	s.horizon = h
}

func (s *fold) trimEpochs(h *horizon) {
	if h.start < h.base { // there are runs
		n := 0
		for n+1 < len(s.epochs) && s.epochs[n+1].offset <= h.start {
			n++
		}
		s.epochs = append(s.epochs[:0], s.epochs[n:]...)
		return
	}
	i := sort.Search(len(s.epochs), func(i int) bool { return s.epochs[i].index > h.first })
	if i > 0 {
		s.epochs = append(s.epochs[:0], s.epochs[i-1:]...)
		s.epochs[0].index, s.epochs[0].offset = h.first, h.base
	}
}

// base is the fold just below the horizon: what a rebuild from the retained entries has to start from.
func (s *fold) base() fold {
	b := newFold()
	b.horizon = s.horizon
	b.applied = s.horizon.first - 1
	b.hwm = s.horizon.base
	b.index.stride = s.index.stride
	b.confs = s.confs.below(s.horizon.first)
	for _, e := range s.epochs {
		if e.index < s.horizon.first {
			b.epochs = append(b.epochs, e)
		}
	}
	for _, a := range s.txns.aborted {
		if a.LastOffset < s.horizon.base {
			b.txns.addAborted(a.AbortedTxn)
		}
	}
	for id, p := range s.producers {
		if q, ok := p.below(s.horizon.base); ok {
			b.producers[id] = &q
		}
	}
	b.txns.open = s.txns.straddling(s.horizon.base)
	for _, o := range b.txns.open {
		if p := b.producers[o.producerID]; p != nil {
			p.txnFirst = o.first
		}
	}
	return b
}
