package cluster

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// rhythm is when a group's Raft needs the clock. A node has thousands of groups that nothing happens to, and most ticks of such a group do nothing but
// count: on a follower towards an election that the next heartbeat puts off, on a leader towards its next heartbeat. The worker counts those
// for them. Raft gets them before it is asked for anything else, and when one of them may do more; it never sees a difference.
type rhythm struct {
	ticked int64 // Raft's clock, in the worker's ticks
	rests  int64 // before this tick of the worker's no tick of Raft's does more than count
	phase  int64 // on a leader: a tick at which Raft asks for its quorum, as it does every electionTicks; -1: not known
	steady bool  // a leader's members are what they should be, and it serves
	still  bool  // all members were heard of and had all of the log when that was last shown, and shared
}

// catchUp gives Raft the ticks that it was not given yet.
func (g *group) catchUp(clock int64) {
	if g.voting == 0 || g.closeErr != nil || g.isLost {
		return
	}
	for ; g.ticked < clock; g.ticked++ {
		g.rn.Tick()
		if g.isLeader {
			g.sync.ticks++
		}
	}
}

// stepTimed steps Raft with a message of another node.
func (g *group) stepTimed(m *raftpb.Message) {
	clock := g.worker.clock
	if !g.hears(m) {
		if m.GetType() == raftpb.MsgTransferLeader {
			g.restless()
		}
		g.catchUp(clock)
		g.step(m)
		return
	}
	// Raft begins to count anew.
	if g.rests > clock && g.voting != 0 {
		g.ticked = clock
	}
	g.catchUp(clock)
	g.step(m)
	g.rests = clock + electionTicks
}

// hears reports that a message is from the leader that this member follows, in its term.
func (g *group) hears(m *raftpb.Message) bool {
	if t := m.GetType(); t != raftpb.MsgHeartbeat && t != raftpb.MsgApp {
		return false
	}
	return !g.isLeader && g.eager == 0 && m.GetTerm() == g.term && m.GetFrom() == g.followed && g.lead.Load().node >= 0
}

// inStep has the heartbeats of all groups that a node leads go out in the same ticks, so that they share frames and wake their receivers once. The
// first ones go a little earlier. Raft has begun to lead in the tick that the worker is in.
func (g *group) inStep() {
	clock := g.worker.clock
	ahead := clock % heartbeatTicks
	for range ahead {
		g.rn.Tick()
	}
	g.sync.ticks = ahead
	if g.voting != 0 && g.ticked == clock {
		g.phase = clock - ahead
	}
}

// restless has Raft get every tick when it comes.
func (g *group) restless() {
	g.phase = -1
	g.stir()
}

// stir has a leader look where all are as soon as it does while something happens.
func (g *group) stir() {
	g.steady, g.still, g.rests = false, false, 0
	g.worker.early = true
}

// asks is called when a leader was told to hand over: from then on Raft counts anew towards its question for a quorum, which ends a hand-over that
// has failed.
func (g *group) asks() {
	if g.rn.BasicStatus().LeadTransferee == raft.None {
		return
	}
	g.phase = -1
	if g.voting != 0 {
		g.phase = g.ticked
	}
	g.stir()
}

// rest has a leader wait for its next heartbeat, or question for its quorum; one to whose group something happens, for its next look.
func (g *group) rest(clock int64) {
	g.rests = 0
	if g.phase < 0 || !g.still || !g.steady {
		return
	}
	beat := clock + heartbeatTicks - clock%heartbeatTicks
	ask := clock + electionTicks - (clock-g.phase)%electionTicks
	g.rests = min(beat, ask)
}
