package log

import "fmt"

// stagedEntry is an entry that is in Raft's log, or on its way into it, and not applied yet.
type stagedEntry struct {
	index uint64 // 0: proposed here; its place is not known before Follow sees it
	term  uint64
	meta  bool // no records
	facts facts
}

// staging is the log between the applied end and the end of everything proposed: what Stage checks a producer's next
// batch against. It is rebuilt from those entries alone.
type staging struct {
	entries []stagedEntry
	end     int64 // offset behind all of them
	// ahead holds the producers that have entries here, moved behind the last of them.
	ahead map[int64]*aheadProducer
	free  []*aheadProducer
	// expected holds the epochs that unknown producers are about to begin: a batch that overtook their first one must
	// not take its place, nor one that came behind a first one that was taken back. Invariant: bounded by the transactions
	// that are open, since each marker removes its entry when it is applied.
	expected map[int64]int16
}

// maxFree bounds the aheadProducers kept for reuse.
const maxFree = 64

type aheadProducer struct {
	producer
	entries int
}

func newStaging(end int64) staging {
	return staging{end: end, ahead: map[int64]*aheadProducer{}, expected: map[int64]int16{}}
}

// producer is the state that the next batch of a producer continues; nil when nothing is known of it.
func (s *staging) producer(applied producerTable, id int64) *producer {
	if p := s.ahead[id]; p != nil {
		return &p.producer
	}
	return applied[id]
}

// check decides about the next batch of a producer, as producer.check.
func (s *staging) check(applied producerTable, f *facts) (duplicate *sentBatch, err error) {
	p := s.producer(applied, f.producerID)
	if epoch, ok := s.expected[f.producerID]; ok && p == nil && !f.control && f.epoch == epoch && f.firstSeq != 0 {
		return nil, fmt.Errorf("%w: producer %d starts epoch %d at %d instead of 0", ErrOutOfOrderSequence, f.producerID, f.epoch, f.firstSeq)
	}
	return p.check(f)
}

func (s *staging) push(applied producerTable, e stagedEntry) {
	s.entries = append(s.entries, e)
	if e.meta {
		return
	}
	s.end = e.facts.last + 1
	s.observe(applied, &e.facts)
}

func (s *staging) observe(applied producerTable, f *facts) {
	if f.producerID < 0 {
		return
	}
	p := s.ahead[f.producerID]
	if p == nil {
		p = s.take()
		if known := applied[f.producerID]; known != nil {
			p.producer = *known
		} else {
			p.producer = *newProducer(f)
		}
		s.ahead[f.producerID] = p
	}
	p.observe(f)
	p.entries++
}

func (s *staging) take() *aheadProducer {
	if n := len(s.free); n > 0 {
		p := s.free[n-1]
		s.free = s.free[:n-1]
		return p
	}
	return &aheadProducer{}
}

// applied drops the entries up to an applied index, which ends before offset hwm.
func (s *staging) applied(index uint64, hwm int64) {
	n := 0
	for ; n < len(s.entries); n++ {
		e := &s.entries[n]
		if e.index > index || e.index == 0 && e.facts.last >= hwm {
			break
		}
		if e.meta || e.facts.producerID < 0 {
			continue
		}
		delete(s.expected, e.facts.producerID) // known from now on
		if p := s.ahead[e.facts.producerID]; p != nil {
			if p.entries--; p.entries == 0 {
				delete(s.ahead, e.facts.producerID)
				if len(s.free) < maxFree {
					s.free = append(s.free, p)
				}
			}
		}
	}
	s.entries = append(s.entries[:0], s.entries[n:]...)
	if len(s.entries) == 0 {
		s.end = max(s.end, hwm)
	}
}

// cut keeps the first n entries and forgets what the others did.
func (s *staging) cut(applied producerTable, hwm int64, n int) {
	s.entries = s.entries[:n]
	s.end = hwm
	clear(s.ahead)
	for i := range s.entries {
		if e := &s.entries[i]; !e.meta {
			s.end = e.facts.last + 1
			s.observe(applied, &e.facts)
		}
	}
}

// follow takes over an entry of Raft's log. Entries that conflict with it are dropped, as Raft has dropped them.
func (s *staging) follow(applied producerTable, hwm int64, e stagedEntry) {
	if n := len(s.entries); n == 0 || s.entries[n-1].index != 0 && s.entries[n-1].index < e.index {
		s.push(applied, e)
		return
	}
	for i := range s.entries {
		have := &s.entries[i]
		switch {
		case have.index == e.index && have.term == e.term:
			return
		case have.index == 0 && have.term == e.term && !have.meta && !e.meta && have.facts.base == e.facts.base:
			have.index = e.index
			return
		case have.index >= e.index || have.index == 0 && (have.term < e.term || !e.meta):
			// Terms never fall along a log, so a proposal of an older term that is not in it yet never will be.
			s.cut(applied, hwm, i)
			s.push(applied, e)
			return
		case have.index == 0:
			// The leader's own entry without records, in front of its proposals that are still under way.
			s.entries = append(s.entries, stagedEntry{})
			copy(s.entries[i+1:], s.entries[i:])
			s.entries[i] = e
			return
		}
	}
	s.push(applied, e)
}
