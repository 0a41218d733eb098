package cluster

import (
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/rowtrail/rowtrail/log"
)

type (
	trackerProgress = tracker.Progress
	raftMessage     = raftpb.Message
)

// proposal is one append on its way through a group.
type proposal struct {
	payload []byte
	size    int64
	acks    int16
	epoch   int32                             // the leader epoch that it is for; AnyEpoch: whichever it is
	trim    bool                              // payload moves the log start and is no batch
	done    func(baseOffset int64, err error) // called once; must not block

	staged    log.Staged
	index     uint64 // known once Raft hands the entry out for writing; of a duplicate, once it is the next to be answered
	term      uint64
	settled   bool // decided: err says how
	err       error
	answered  bool
	duplicate bool
}

// AnyEpoch is the epoch of an append that rests on nothing.
const AnyEpoch = -1

// stage checks and stamps a proposal. A refusal is answered at once.
func (g *group) stage(p *proposal, now time.Time, out *output) {
	staged, err := log.Staged{}, g.closeErr
	switch {
	case err != nil:
	case !g.serving || p.epoch != AnyEpoch && p.epoch != int32(g.term): //nolint:gosec // epochs are terms
		err = log.ErrNotLeader
	case p.acks == -1 && !p.trim && g.inSync < g.needed():
		err = ErrNotEnoughReplicas
	case p.trim:
	default:
		staged, err = g.sm.Stage(int32(g.term), p.payload, now)
	}
	if err != nil {
		g.worker.gate.release(p.size)
		g.answer(p, err, out)
		return
	}
	p.staged, p.term = staged, g.term
	if staged.Duplicate {
		// What it repeats is either applied or among those before it, so it is answered in turn.
		p.duplicate = true
		g.worker.gate.release(p.size)
	}
	g.batch = append(g.batch, p)
}

// propose hands what was staged this turn to Raft as one message.
func (g *group) propose(out *output) {
	if len(g.batch) == 0 {
		return
	}
	g.entries = g.entries[:0]
	for _, p := range g.batch {
		if !p.duplicate {
			g.entries = append(g.entries, &raftpb.Entry{Data: p.payload})
		}
	}
	var err error
	if len(g.entries) > 0 {
		err = g.rn.Step(&raftpb.Message{Type: raftpb.MsgProp.Enum(), From: &g.self, Entries: g.entries})
		clear(g.entries)
	}
	if err != nil {
		for i := len(g.batch) - 1; i >= 0; i-- {
			if p := g.batch[i]; !p.duplicate {
				if !p.trim {
					g.sm.Unstage(p.staged)
				}
				g.worker.gate.release(g.batch[i].size)
			}
		}
		for _, p := range g.batch {
			g.answer(p, log.ErrNotLeader, out)
		}
	} else {
		for _, p := range g.batch {
			p.payload = nil // Raft keeps its own copy
			g.pending = append(g.pending, p)
			if p.acks == 0 {
				g.answer(p, nil, out)
			}
		}
		out.counters.proposals.Add(int64(len(g.entries)))
	}
	clear(g.batch)
	g.batch = g.batch[:0]
	g.answerSettled(out)
}

// nextOwn returns the oldest proposal without an index if e is its entry.
func (g *group) nextOwn(e *raftpb.Entry) *proposal {
	for g.next < len(g.pending) && g.pending[g.next].duplicate {
		g.next++
	}
	if g.next == len(g.pending) || len(e.GetData()) == 0 || e.GetType() != raftpb.EntryNormal || e.GetTerm() != g.pending[g.next].term {
		return nil
	}
	p := g.pending[g.next]
	g.next++
	return p
}

// settle decides proposals up to an applied entry.
func (g *group) settle(index, term uint64) {
	for ; g.settled < len(g.pending); g.settled++ {
		p := g.pending[g.settled]
		if p.duplicate {
			continue
		}
		if p.index == 0 || p.index > index {
			return
		}
		p.settled = true
		if p.term != term {
			p.err = log.ErrNotLeader // another leader's entry took its place
		}
	}
}

// needed is how many replicas an append with acks all needs: min.insync.replicas, or all there are.
func (g *group) needed() int { return min(g.minISR, len(g.conf.GetVoters())) }

// answerSettled answers what is decided and, invariant 1, on as many disks as min.insync.replicas says, in order. Duplicates that have nothing
// before them are answered, too. A majority is what Raft has seen to.
func (g *group) answerSettled(out *output) {
	for len(g.pending) > 0 {
		p := g.pending[0]
		if !p.duplicate && !p.settled {
			return
		}
		if p.duplicate && p.index == 0 {
			p.index = g.applied // what it repeats is applied, since everything before it is answered
		}
		err := p.err
		if err == nil && p.acks == -1 && !g.majorityHolds(p.index) && !g.held(p.index) {
			if g.isLeader && g.inSync >= g.needed() {
				return
			}
			err = ErrNotEnoughReplicasAfterAppend
		}
		g.popPending()
		g.answer(p, err, out)
	}
}

// majorityHolds reports that min.insync.replicas asks for no more than Raft has seen to. A majority of the voters has what is committed, except
// for what may have been committed by a majority of those before.
func (g *group) majorityHolds(index uint64) bool {
	for _, n := range []int{len(g.conf.GetVoters()), len(g.conf.GetVotersOutgoing())} {
		if min(g.minISR, n) > n/2+1 {
			return false
		}
	}
	return index > g.before
}

// held reports that an entry is known to be on as many disks as min.insync.replicas asks for. Only a leader knows.
func (g *group) held(index uint64) bool {
	if !g.isLeader {
		return false
	}
	g.refresh()
	return g.sync.holding(g.conf, index, g.minISR)
}

// refresh takes what Raft knows of the members' disks by now.
func (g *group) refresh() {
	g.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr trackerProgress) { g.sync.see(id, pr.Match, pr.RecentActive) })
}

func (g *group) popPending() {
	g.pending[0] = nil
	g.pending = g.pending[1:]
	if g.next > 0 {
		g.next--
	}
	if g.settled > 0 {
		g.settled--
	}
	if len(g.pending) == 0 {
		g.pending = nil
	}
}

func (g *group) failPending(err error, out *output) {
	if len(g.pending) == 0 {
		return
	}
	for i, p := range g.pending {
		if i >= g.next && !p.duplicate {
			g.worker.gate.release(p.size) // never reached the writer
		}
		if p.settled && p.err == nil {
			g.answer(p, ErrNotEnoughReplicasAfterAppend, out) // it is committed, on fewer disks than asked for
			continue
		}
		g.answer(p, err, out)
	}
	g.pending, g.next, g.settled = nil, 0, 0
}

// answer completes a proposal once.
func (g *group) answer(p *proposal, err error, out *output) {
	if p.answered {
		return
	}
	p.answered = true
	g.gate.release(p.size)
	out.finished++
	base := p.staged.BaseOffset
	if err != nil {
		base = -1
	}
	p.done(base, err)
}
