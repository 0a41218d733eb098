package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults. Those of membership are faults only to those who cannot bear them.
const (
	Kill      Kind = "kill"       // SIGKILL and restart
	KillAll   Kind = "kill all"   // of all nodes at once
	Pause     Kind = "pause"      // SIGSTOP, and SIGCONT after a while
	Isolate   Kind = "isolate"    // no other node is reached, clients are
	Part      Kind = "part"       // neither nodes nor clients are
	Refuse    Kind = "refuse"     // the same as isolate, by resets
	Partial   Kind = "partial"    // two nodes do not reach each other; all others reach both
	Deaf      Kind = "deaf"       // a node hears no other, and is heard
	Mute      Kind = "mute"       // a node is not heard by any other, and hears them
	Loss      Kind = "loss"       // packets are lost
	Slow      Kind = "slow"       // packets between nodes are late
	Narrow    Kind = "narrow"     // little of what a node sends goes out in a second
	LowDisk   Kind = "low disk"   // less than min_free_bytes is free
	FullDisk  Kind = "full disk"  // nothing is
	Wipe      Kind = "wipe"       // SIGKILL, and all of the disk is gone
	CutTail   Kind = "cut tail"   // SIGKILL, and the end of what was written last is gone
	Clock     Kind = "clock"      // the wall clock jumps, and later back
	Roll      Kind = "roll"       // every node is stopped and started, one after the other
	Transfer  Kind = "transfer"   // leaders go to the preferred replicas
	Reassign  Kind = "reassign"   // a topic's replicas move to other nodes
	Replace   Kind = "replace"    // a node is drained and removed, and another one joins
	RestartIn Kind = "slow start" // SIGKILL, and a restart long after the others have gone on
)

// destructive faults take acknowledged records from one disk: all others must have theirs, or Raft itself would lose them.
func (k Kind) destructive() bool { return k == Wipe || k == CutTail || k == Replace }

// shares says how often a kind is dealt in a round.
func shares() []share {
	return []share{
		{Kill, 4}, {KillAll, 1}, {Pause, 2}, {Isolate, 2}, {Part, 1}, {Refuse, 1}, {Partial, 1}, {Deaf, 1}, {Mute, 1}, {Loss, 1}, {Slow, 1}, {Narrow, 1},
		{LowDisk, 1}, {FullDisk, 1}, {Wipe, 1}, {CutTail, 1}, {Clock, 1}, {Roll, 1}, {Transfer, 1}, {Reassign, 1}, {Replace, 1}, {RestartIn, 1},
	}
}

type share struct {
	kind  Kind
	times int
}

// Event is one fault.
type Event struct {
	Number int
	Kind   Kind
	Calm   time.Duration // before it
	Hold   time.Duration // until it is healed
	Leader bool          // it hits the leader of a partition, whichever node that is, and not node A
	A, B   int           // nodes, modulo how many there are
	Amount float64       // in [0, 1): how much of it
	With   Kind          // another one at the same time, at node B; or none
}

func (e Event) String() string {
	s := fmt.Sprintf("#%d %s", e.Number, e.Kind)
	if e.With != "" {
		s += " with " + string(e.With)
	}
	return s
}

// The times of a fault.
const (
	minCalm, maxCalm = 500 * time.Millisecond, 4 * time.Second
	minHold, maxHold = 1 * time.Second, 9 * time.Second
	withPercent      = 25
	leaderPercent    = 60
)

// companions are what may happen at the same time as something else.
func companions() []Kind { return []Kind{Kill, Pause, Loss, Slow, Deaf, Clock, Transfer} }

// Dealer draws faults from a seed: all kinds of a round in an order of its own, then the next round.
type Dealer struct {
	rng    *rand.Rand
	round  []Kind
	number int
}

// NewDealer begins the sequence of a seed.
func NewDealer(seed uint64) *Dealer { return &Dealer{rng: rand.New(rand.NewPCG(seed, 7))} }

// Next deals a fault.
func (d *Dealer) Next() Event {
	if len(d.round) == 0 {
		for _, s := range shares() {
			for range s.times {
				d.round = append(d.round, s.kind)
			}
		}
		d.rng.Shuffle(len(d.round), func(i, j int) { d.round[i], d.round[j] = d.round[j], d.round[i] })
	}
	d.number++
	e := Event{Number: d.number, Kind: d.round[0], A: d.rng.IntN(1 << 16), B: d.rng.IntN(1 << 16), Amount: d.rng.Float64(), Leader: d.rng.IntN(100) < leaderPercent,
		Calm: minCalm + time.Duration(d.rng.Int64N(int64(maxCalm-minCalm))), Hold: minHold + time.Duration(d.rng.Int64N(int64(maxHold-minHold)))}
	d.round = d.round[1:]
	with := companions()[d.rng.IntN(len(companions()))]
	if d.rng.IntN(100) < withPercent && !e.Kind.destructive() && e.Kind != KillAll && e.Kind != Roll && with != e.Kind {
		e.With = with
	}
	return e
}
