// Package admit lets transactional batches into the partitions that a node leads, and keeps out those that come late.
//
// A batch that lands behind the marker of its transaction opens a transaction that nobody ends (KIP-890). So a partition's leader asks
// the transaction's coordinator, on whatever node that is, before it takes the first batch of a transaction, and remembers the answer until the
// marker. Between the question and the batch the marker may come by; Gate puts the two in order:
//
//	Begin ── the coordinator is asked ──► Admit ── append ──► Leave        a batch
//	                             Close ── nobody is inside ──► append      the marker
//
// What is remembered holds in one leader epoch of the partition: in another one the marker may have been written elsewhere.
//
// Invariant 5: after Close nothing of the transaction gets in. Invariant 9: a pass lasts until its transaction's marker, or until Sweep finds
// that the partition is led elsewhere.
package admit

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// Claim is what a batch says of itself: the producer that writes in its open transaction.
type Claim struct {
	ID       string // transactional
	Producer int64
	Epoch    int16
}

type key struct {
	at       journal.TopicPartition
	producer int64
}

// Gate holds the passes of a node's partitions. The zero value is not usable: see New.
type Gate struct {
	mu     sync.Mutex
	passes map[key][]*Pass // mostly one
}

// New returns a gate.
func New() *Gate { return &Gate{passes: map[key][]*Pass{}} }

// Pass is one producer's way into one partition for one transaction.
type Pass struct {
	g     *Gate
	key   key
	claim Claim
	in    int32 // the partition's leader epoch

	// under g.mu
	admitted bool
	closed   bool
	asking   int    // questions on their way
	inside   int    // batches that are being appended
	empty    func() // called by the last one to leave, after closed
}

func (g *Gate) find(c Claim, at journal.TopicPartition, in int32) *Pass {
	for _, p := range g.passes[key{at, c.Producer}] {
		if p.claim == c && p.in == in {
			return p
		}
	}
	return nil
}

// Enter lets a batch in that has a pass, until Leave; false: it needs one, see Begin.
func (g *Gate) Enter(c Claim, at journal.TopicPartition, in int32) (*Pass, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.find(c, at, in)
	if p == nil || !p.admitted {
		return nil, false
	}
	p.inside++
	return p, true
}

// Has says whether Enter would let a batch in.
func (g *Gate) Has(c Claim, at journal.TopicPartition, in int32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.find(c, at, in)
	return p != nil && p.admitted
}

// Begin precedes the question; Admit or Refuse follows the answer.
func (g *Gate) Begin(c Claim, at journal.TopicPartition, in int32) *Pass {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.find(c, at, in)
	if p == nil {
		k := key{at, c.Producer}
		p = &Pass{g: g, key: k, claim: c, in: in}
		g.passes[k] = append(g.passes[k], p)
	}
	p.asking++
	return p
}

// Admit notes that the coordinator has said yes, and lets one batch in, until Leave. false: the transaction is ending meanwhile.
func (p *Pass) Admit() bool {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	p.asking--
	if p.closed {
		return false
	}
	p.admitted = true
	p.inside++
	return true
}

// Refuse notes that the coordinator has said no.
func (p *Pass) Refuse() {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	p.asking--
	if p.asking == 0 && !p.admitted && !p.closed {
		p.g.drop(p)
	}
}

// Leave says that the batch's place in the partition is decided. A nil Pass is left by nobody.
func (p *Pass) Leave() {
	if p == nil {
		return
	}
	p.g.mu.Lock()
	p.inside--
	var empty func()
	if p.inside == 0 {
		empty, p.empty = p.empty, nil
	}
	p.g.mu.Unlock()
	if empty != nil {
		empty()
	}
}

func (g *Gate) drop(p *Pass) {
	list := slices.DeleteFunc(g.passes[p.key], func(x *Pass) bool { return x == p })
	if len(list) == 0 {
		delete(g.passes, p.key)
	} else {
		g.passes[p.key] = list
	}
}

// Close ends a producer's passes into a partition. It reports whether nobody is inside; else empty is called, on the goroutine of the last one
// that leaves: it must not block.
func (g *Gate) Close(producer int64, at journal.TopicPartition, empty func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := key{at, producer}
	list := g.passes[k]
	delete(g.passes, k)
	left := &atomic.Int32{}
	for _, p := range list {
		p.closed = true
		if p.inside > 0 {
			left.Add(1)
			p.empty = func() {
				if left.Add(-1) == 0 {
					empty()
				}
			}
		}
	}
	return left.Load() == 0
}

// Sweep forgets the passes into partitions that are not led in their epoch any more.
func (g *Gate) Sweep(leads func(at journal.TopicPartition, in int32) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, list := range g.passes {
		for _, p := range slices.Clone(list) {
			if p.inside == 0 && p.asking == 0 && !leads(p.key.at, p.in) {
				g.drop(p)
			}
		}
	}
}
