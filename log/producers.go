package log

import (
	"fmt"
	"math"
	"slices"
)

// windowLen is how many of a producer's last batches are remembered, so that a retry of any of them is recognized.
// The protocol allows an idempotent producer that many requests in flight.
const windowLen = 5

// sentBatch is a batch of a producer's window.
type sentBatch struct {
	firstSeq, lastSeq int32
	base, last        int64
}

// producer is what a partition knows of one producer id.
type producer struct {
	id               int64
	epoch            int16
	coordinatorEpoch int32 // -1: no marker seen
	since            int64 // offset of the first batch that this state knows of
	lastOffset       int64
	lastTs           int64
	txnFirst         int64 // first offset of the open transaction; -1: none
	anySeq           bool  // only markers were seen, so the next sequence is not known
	n                int
	window           [windowLen]sentBatch // the last n batches of this epoch, oldest first
}

func newProducer(f *facts) *producer {
	return &producer{
		id: f.producerID, epoch: f.epoch, coordinatorEpoch: -1, since: f.base, txnFirst: -1, anySeq: f.control,
	}
}

// check decides about a batch that continues p, which is nil for an unknown producer id. A duplicate is a batch that
// was appended before. Invariant 3 rests on the epoch and sequence rules here.
func (p *producer) check(f *facts) (duplicate *sentBatch, err error) {
	if p == nil {
		// Nothing is known: the producer is new, or was idle for longer than its state is kept. Any sequence continues it.
		return nil, nil
	}
	if f.epoch < p.epoch {
		return nil, fmt.Errorf("%w: producer %d has epoch %d, the batch has %d", ErrInvalidProducerEpoch, p.id, p.epoch, f.epoch)
	}
	if f.control {
		if f.coordinatorEpoch < p.coordinatorEpoch {
			return nil, fmt.Errorf("%w: producer %d saw epoch %d, the marker has %d",
				ErrFencedCoordinator, p.id, p.coordinatorEpoch, f.coordinatorEpoch)
		}
		return nil, nil
	}
	if f.epoch > p.epoch {
		if f.firstSeq != 0 {
			return nil, fmt.Errorf("%w: producer %d starts epoch %d at %d instead of 0", ErrOutOfOrderSequence, p.id, f.epoch, f.firstSeq)
		}
	} else {
		for i := range p.window[:p.n] {
			if w := &p.window[i]; w.firstSeq == f.firstSeq && w.lastSeq == f.lastSeq {
				return w, nil
			}
		}
		if want := p.nextSeq(); f.firstSeq != want && !p.anySeq {
			return nil, fmt.Errorf("%w: producer %d epoch %d sends %d, expected %d",
				ErrOutOfOrderSequence, p.id, p.epoch, f.firstSeq, want)
		}
	}
	if p.txnFirst >= 0 && !f.transactional {
		return nil, fmt.Errorf("%w: producer %d has an open transaction and sent a batch outside of it", ErrInvalidTxnState, p.id)
	}
	return nil, nil
}

func (p *producer) nextSeq() int32 {
	if p.n == 0 || p.window[p.n-1].lastSeq == math.MaxInt32 {
		return 0
	}
	return p.window[p.n-1].lastSeq + 1
}

func (p *producer) lastSeq() int32 {
	if p.n == 0 {
		return -1
	}
	return p.window[p.n-1].lastSeq
}

// observe moves p behind an appended batch.
func (p *producer) observe(f *facts) {
	if f.epoch != p.epoch {
		p.epoch, p.n, p.anySeq = f.epoch, 0, false
	}
	p.lastOffset, p.lastTs = f.last, f.maxTs
	if f.control {
		p.coordinatorEpoch, p.txnFirst = f.coordinatorEpoch, -1
		return
	}
	p.anySeq = false
	if p.n == windowLen {
		copy(p.window[:], p.window[1:])
		p.n--
	}
	p.window[p.n] = sentBatch{firstSeq: f.firstSeq, lastSeq: f.lastSeq, base: f.base, last: f.last}
	p.n++
	if f.transactional && p.txnFirst < 0 {
		p.txnFirst = f.base
	}
}

// below is the part of p that lies below an offset, as a rebuild from there must find it. Replaying the batches
// from that offset on then leads to p again: later batches overwrite the epoch, and the window is refilled.
func (p *producer) below(offset int64) (producer, bool) {
	if p.since >= offset {
		return producer{}, false
	}
	q := *p
	q.txnFirst = -1
	for q.n > 0 && q.window[q.n-1].last >= offset {
		q.n--
	}
	clear(q.window[q.n:])
	return q, true
}

// producerTable holds the producers of a partition.
type producerTable map[int64]*producer

func (t producerTable) observe(f *facts) *producer {
	p := t[f.producerID]
	if p == nil {
		p = newProducer(f)
		t[f.producerID] = p
	}
	p.observe(f)
	return p
}

// sorted lists the producers by id, so that encodings do not depend on the map's order.
func (t producerTable) sorted() []*producer {
	all := make([]*producer, 0, len(t))
	for _, p := range t {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *producer) int {
		switch {
		case a.id < b.id:
			return -1
		case a.id > b.id:
			return 1
		}
		return 0
	})
	return all
}
