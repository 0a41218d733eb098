package cluster

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/rowtrail/rowtrail/log"
)

// Raft's timing in ticks of the node's one ticker, and the bounds of one group.
const (
	electionTicks  = 10
	heartbeatTicks = 5

	maxMessageBytes  = 1 << 20
	maxApplyBytes    = 4 << 20
	maxInflightMsgs  = 256
	maxInflightBytes = 16 << 20
	// maxGroupBytes bounds the appends of one group from Append until they are answered, so that a group
	// without a quorum holds up its own callers only (invariant 9).
	maxGroupBytes = 16 << 20
)

// leadership is what readers of a group may know about its leader.
type leadership struct {
	node  int32 // -1: unknown
	epoch int32
	self  bool
}

// group is one Raft group on this node. It is owned by one step worker: no lock, no goroutine. Only the fields
// under "shared" are touched by others.
type group struct {
	id     log.GroupID
	log    log.GroupID // of this member, in the store
	lag    int64       // ticks
	self   uint64
	node   int32
	conf   *raftpb.ConfState // as applied
	rn     *raft.RawNode
	sm     StateMachine
	store  EntryStore
	st     *raftStorage
	sharer Sharer // nil: nothing is compacted
	logger *slog.Logger
	// retainer decides where the log is to start; nil: nothing is ever trimmed.
	retainer Retainer

	term     uint64        // Raft's current term
	saved    log.HardState // term and vote as handed to the writer
	commit   uint64        // Raft's, as of what it has handed out
	applied  uint64
	before   uint64 // up to here entries may have been committed by the members before the present ones
	appended uint64 // last index handed to the writer, and not truncated since
	writing  int    // appends at the writer
	isLeader bool   // Raft's role; serving comes later
	serving  bool   // the first entry of this term is applied (invariant 1)
	dirty    bool   // is on its worker's list of groups with work
	voting   int    // its place in the worker's list of those that need ticks, from 1 on; 0: none
	rhythm
	want     Membership
	reached  bool   // the members are what want says
	changing uint64 // where this leader's last change of the members is in the log
	altered  uint64 // where the last change of the members is that the log holds; 0: it was applied when the log was opened
	vouch    vouch
	sync     inSync
	inSync   int    // voters that are in sync, where this node leads
	shared   uint64 // every member has the log up to here on its disk
	minISR   int    // min.insync.replicas
	told     told
	isLost   bool             // an end of its log is missing that it has acknowledged
	eager    int              // ticks for which this member campaigns as long as nobody leads
	incoming log.Installation // arrived whole, and not yet taken by Raft
	trimming bool             // a trim that retention proposed is under way
	closeErr error            // not nil: abandoned, and why

	batch   []*proposal // staged this turn, not yet proposed
	pending []*proposal // proposed, in log order; duplicates stand behind what they repeat
	next    int         // pending[next:] have no index yet
	settled int         // pending[:settled] are decided, and wait for more replicas
	reads   reads

	stood    bool   // is a candidate, or won
	followed uint64 // the last leader, by its Raft id

	// reused between turns
	entries []*raftpb.Entry
	scratch []log.Entry

	// shared
	worker *worker
	slot   batchSlot // the writer's
	lead   atomic.Pointer[leadership]
	status atomic.Pointer[GroupStatus]
	// lost is told, in the worker, that the group's log cannot be trusted; it must not block.
	lost func(*group, error)
	// notify is told of changes of leadership and of who is in sync; it must not block.
	notify func(*group, Leadership)
	only   bool          // it was the only member when it was opened, so it leads before anything else
	led    chan struct{} // closed when this node serves as leader for the first time
	dead   chan struct{} // closed when the group is abandoned
	gate   *gate
}

type groupConfig struct {
	id      log.GroupID
	log     log.GroupID // of this member, in the store; 0: id
	self    Member
	first   []Member // the group's first voters
	want    Membership
	minISR  int
	lag     time.Duration // replica.lag.time.max.ms
	minTerm uint64
	sm      StateMachine
	store   EntryStore
	logger  *slog.Logger
	// retainer is nil where nothing is ever trimmed.
	retainer Retainer
	notify   func(*group, Leadership)
	lost     func(*group, error)
}

func newGroup(c groupConfig) (g *group, err error) {
	defer func() {
		if r := recover(); r != nil { // how Raft reports a log that it cannot read
			g, err = nil, fmt.Errorf("open group %d: %v: %w", c.id, r, log.ErrCorrupt)
		}
	}()
	applied := c.sm.AppliedIndex()
	st, err := newRaftStorage(c.store, applied, c.first, c.minTerm)
	if err != nil {
		return nil, fmt.Errorf("open group %d: %w", c.id, err)
	}
	g = &group{
		id: c.id, log: cmp.Or(c.log, c.id), self: c.self.raftID(), node: c.self.Node, conf: st.conf, want: c.want, minISR: c.minISR,
		lag: int64(cmp.Or(c.lag, DefaultReplicaLagTime) / tickInterval),
		sm:  c.sm, store: c.store, st: st, logger: c.logger, retainer: c.retainer, notify: c.notify, lost: c.lost,
		term: st.initial.Term, saved: c.store.HardState(), commit: st.initial.Commit, applied: applied, appended: c.store.LastIndex(),
		led: make(chan struct{}), dead: make(chan struct{}), gate: newGate(maxGroupBytes),
	}
	if g.altered, err = lastChange(c.store, applied); err != nil {
		return nil, fmt.Errorf("open group %d: %w", c.id, err)
	}
	g.only = g.alone()
	g.sharer, _ = c.store.(Sharer)
	if g.sharer != nil {
		g.sharer.SetShared(!g.alone(), 0)
	}
	g.sync.begin(g.lag)
	g.lead.Store(&leadership{node: -1, epoch: int32(g.term)})
	g.rn, err = raft.NewRawNode(&raft.Config{
		ID: g.self, ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		Storage: st, Applied: applied,
		AsyncStorageWrites: true, PreVote: true, CheckQuorum: true,
		// A follower must not forward: the leader stamps offsets when it proposes.
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
		MaxSizePerMsg:             maxMessageBytes, MaxCommittedSizePerReady: maxApplyBytes,
		MaxInflightMsgs: maxInflightMsgs, MaxInflightBytes: maxInflightBytes,
		Logger: raftLogger{c.logger},
	})
	if err != nil {
		return nil, fmt.Errorf("open group %d: %w", c.id, err)
	}
	return g, nil
}

// alone reports that this node is the only member: it elects itself and needs no ticks.
func (g *group) alone() bool { return onlyVoter(g.conf, g.self) }

// output is where a turn leaves what others must do. It is reused.
type output struct {
	appends  []appendItem
	messages map[int32][]Envelope
	finished int64 // proposals answered
	counters *counters
	// snapshots sends what does not fit into messages; nil: nobody needs any.
	snapshots Snapshots
}

// turn takes everything Raft has ready until it rests.
func (g *group) turn(out *output) {
	for {
		g.propose(out)
		g.process(out)
		if len(g.batch) == 0 {
			break
		}
	}
	if g.settled > 0 {
		g.answerSettled(out) // a disk may have been the last one that was needed
	}
	g.unneeded()
}

// unneeded drops a raftSnapshot that Raft has not taken, behind what the writer has to do.
func (g *group) unneeded() {
	in := g.incoming
	if in == nil {
		return
	}
	g.incoming = nil
	g.worker.out.appends = append(g.worker.out.appends, appendItem{last: func() {
		if err := in.Discard(); err != nil {
			g.logger.Warn("a raftSnapshot that is not needed was not dropped", "group", uint64(g.id), "error", err)
		}
	}})
}

func (g *group) process(out *output) {
	for g.rn.HasReady() {
		rd := g.rn.Ready()
		if !raft.IsEmptyHardState(rd.HardState) {
			g.commit = rd.HardState.GetCommit()
			if term := rd.HardState.GetTerm(); term != g.term {
				g.term = term
				if l := g.lead.Load(); rd.SoftState == nil && !g.isLeader && l.node >= 0 {
					// The same leader was elected anew.
					g.lead.Store(&leadership{node: l.node, epoch: int32(term)})
					g.publish()
				}
			}
		}
		if rd.SoftState != nil {
			g.observe(rd.SoftState)
		}
		for i := range rd.ReadStates {
			g.reads.confirmed(&rd.ReadStates[i])
		}
		g.reads.answer()
		for _, m := range rd.Messages {
			switch m.GetTo() {
			case raft.LocalAppendThread:
				g.append(m, out)
			case raft.LocalApplyThread:
				g.apply(m, out)
			default:
				g.send(m, out)
			}
		}
		if !g.isLeader {
			// Whether these commit is for the new leader to say; the producer asks again.
			g.failPending(log.ErrNotLeader, out)
		}
	}
}

func (g *group) observe(ss *raft.SoftState) {
	g.isLeader = ss.RaftState == raft.StateLeader
	g.restless()
	g.count(ss)
	g.serving = false
	g.reached, g.changing = false, 0
	g.vouch = vouch{needed: g.isLeader && g.altered > g.commit} // else the first entry of its term tells of it
	g.reads.fail(log.ErrNotLeader)
	g.sync.begin(g.lag)
	if g.isLeader {
		g.inStep()
		g.refresh()
	}
	g.worker.classify(g)
	switch {
	case g.isLeader || ss.Lead == raft.None:
		g.lead.Store(&leadership{node: -1, epoch: int32(g.term)})
	default:
		g.lead.Store(&leadership{node: memberOf(ss.Lead).Node, epoch: int32(g.term)})
	}
	g.publish()
}

// count keeps the figures of elections. A group of one voter goes from follower to leader in one step.
func (g *group) count(ss *raft.SoftState) {
	c := &g.worker.s.counters
	stands := ss.RaftState == raft.StateCandidate || g.isLeader
	if stands && !g.stood {
		c.elections.Add(1)
	}
	g.stood = stands
	if ss.Lead != raft.None && ss.Lead != g.followed {
		c.leaderChanges.Add(1)
		g.followed = ss.Lead
	}
}

func (g *group) send(m *raftpb.Message, out *output) {
	if m.GetFrom() != g.self {
		// Raft passes on what the leader is asked for in another member's name. Who was asked does not lead any more; peers would refuse it.
		return
	}
	node := memberOf(m.GetTo()).Node
	if node == g.node && m.GetType() != raftpb.MsgSnap {
		return // a member of before this node lost its disk: nobody is there
	}
	if m.GetType() == raftpb.MsgSnap {
		if out.snapshots != nil && node != g.node {
			out.snapshots.Send(g.id, m)
		} else {
			g.rn.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
		}
		return
	}
	e := Envelope{Group: g.id, Message: m}
	if m.GetType() == raftpb.MsgHeartbeat {
		e.Shared = g.shared
	}
	out.messages[node] = append(out.messages[node], e)
}

// append turns Raft's storage message into a mutation for the writer.
func (g *group) append(m *raftpb.Message, out *output) {
	item := appendItem{group: g, responses: m.GetResponses()}
	item.mutation.Group = g.log
	if s := m.GetSnapshot(); s != nil {
		// What was received is installed with the term and vote of this very message.
		if g.incoming == nil || g.incoming.LastIndex() != s.GetMetadata().GetIndex() {
			g.worker.s.fail(fmt.Errorf("group %d: Raft installs a raftSnapshot of entry %d, which has not arrived", g.id, s.GetMetadata().GetIndex()))
			return
		}
		item.mutation.Install, g.incoming = g.incoming, nil
		g.appended = s.GetMetadata().GetIndex()
		g.saved, g.altered = log.HardState{}, 0
		g.st.installed()
		g.setConfiguration(s.GetMetadata().GetConfState())
	}
	hs := log.HardState{Term: m.GetTerm(), Vote: m.GetVote(), Commit: m.GetCommit()}
	// A moved commit index alone is not written: it is rediscovered, and rewriting the key per commit
	// would leave a version behind each time.
	if hs != (log.HardState{}) && (hs.Term != g.saved.Term || hs.Vote != g.saved.Vote) {
		g.saved = hs
		item.mutation.HardState = &hs
	}
	entries := m.GetEntries()
	if item.mutation.HardState == nil && (g.saved.Commit < g.altered && g.altered <= g.commit || slices.ContainsFunc(entries, changesMembers)) {
		// A restart must know which changes of members are committed, or the replica would vote, and count votes, by members that the
		// group has left behind and that are gone.
		g.saved.Commit = g.commit
		hs := g.saved
		item.mutation.HardState = &hs
	}
	if len(entries) > 0 {
		if first := entries[0].GetIndex(); first <= g.appended {
			item.mutation.TruncateFrom = first
			if g.altered >= first {
				g.altered = 0 // those before it are committed
			}
		}
		g.appended = entries[len(entries)-1].GetIndex()
		item.mutation.Entries = g.identify(entries, &item)
		g.st.remember(entries)
	}
	idle := item.mutation.HardState == nil && len(item.mutation.Entries) == 0 && item.mutation.Install == nil
	if idle && g.writing == 0 {
		g.deliver(item.responses, out)
		return
	}
	if idle && len(item.responses) == 0 {
		return
	}
	g.writing++
	out.appends = append(out.appends, item)
}

// identify converts entries for the log, gives our own proposals their index, and tells the state machine about
// entries that it has not staged.
func (g *group) identify(entries []*raftpb.Entry, item *appendItem) []log.Entry {
	converted := make([]log.Entry, len(entries))
	foreign := 0 // length of the run of entries that were not staged here
	flush := func(end int) {
		if foreign > 0 {
			g.sm.Follow(converted[end-foreign : end])
			foreign = 0
		}
	}
	for i, e := range entries {
		converted[i] = toLog(e)
		if changesMembers(e) {
			g.altered = e.GetIndex()
			if g.isLeader {
				g.changing, g.vouch = e.GetIndex(), vouch{needed: true}
				g.stir()
			}
		}
		item.bytes += int64(entrySize(e))
		p := g.nextOwn(e)
		if p != nil {
			p.index = e.GetIndex()
			item.released += p.size
		}
		if p != nil && !p.trim {
			flush(i)
		} else {
			foreign++
		}
	}
	flush(len(entries))
	return converted
}

// durable is called after the sync that covered an append of this group.
func (g *group) durable(item *appendItem, out *output) {
	g.writing--
	if item.mutation.Install != nil {
		if r, ok := g.sm.(Restorer); ok {
			r.Restored()
		}
	}
	g.worker.gate.release(item.released)
	if n := len(item.mutation.Entries); n > 0 {
		last := item.mutation.Entries[n-1]
		for _, p := range g.pending {
			if p.duplicate || p.index == 0 || p.index > last.Index {
				break
			}
			if p.acks == 1 && p.term == last.Term {
				g.answer(p, nil, out)
			}
		}
	}
	if g.closeErr == nil {
		g.deliver(item.responses, out)
	}
}

// deliver hands on responses that waited for the disk.
func (g *group) deliver(responses []*raftpb.Message, out *output) {
	for _, m := range responses {
		if m.GetTo() == g.self {
			g.step(m)
		} else {
			g.send(m, out)
		}
	}
}

// receive takes a message from another node.
func (g *group) receive(it *item, out *output) {
	if g.isLost {
		return // its vote and its answers would count for what is not there
	}
	if g.tailLost(it.message, out) {
		g.isLost = true
		if g.lost != nil {
			g.lost(g, errTailLost)
		}
		return
	}
	if it.shared > 0 && it.shared > g.shared {
		g.shared = it.shared
		if g.sharer != nil && !g.alone() {
			g.sharer.SetShared(true, g.shared)
		}
	}
	if it.install == nil {
		g.stepTimed(it.message)
		return
	}
	g.catchUp(g.worker.clock)
	g.unneeded()
	g.incoming = it.install
	g.step(it.message)
	// It waits for Raft to hand it out for writing, or Raft has no use for it: the log has come that far by itself, or another one leads.
	g.worker.touch(g)
}

// step feeds Raft. Its errors say that a message came too late to matter.
func (g *group) step(m *raftpb.Message) {
	if err := g.rn.Step(m); err != nil {
		g.logger.Debug("raft message ignored", "group", uint64(g.id), "type", m.GetType().String(), "error", err)
	}
}

func (g *group) apply(m *raftpb.Message, out *output) {
	entries := m.GetEntries()
	g.scratch = g.scratch[:0]
	for _, e := range entries {
		g.scratch = append(g.scratch, toLog(e))
	}
	g.sm.Apply(g.scratch)
	clear(g.scratch)
	if g.worker.s.failed() != nil {
		return // Invariant 1: what could not be applied is not acknowledged
	}
	last := entries[len(entries)-1]
	g.applied = last.GetIndex()
	g.st.forget(last.GetIndex())
	out.counters.commits.Add(int64(len(entries)))

	// Invariant 1: an entry of the own term is applied only now, so everything before it is settled.
	if g.isLeader && !g.serving && last.GetTerm() == g.term {
		g.serving = true
		g.refresh() // nobody is out of sync before the lag has passed
		g.lead.Store(&leadership{node: g.node, epoch: int32(g.term), self: true})
		g.publish()
		select {
		case <-g.led:
		default:
			close(g.led)
		}
	}
	for _, e := range entries {
		if e.GetType() != raftpb.EntryNormal {
			if err := g.changed(e); err != nil {
				g.worker.s.fail(fmt.Errorf("group %d: %w", g.id, err))
				return
			}
		}
		g.settle(e.GetIndex(), e.GetTerm())
	}
	g.answerSettled(out)
	g.reads.applied = last.GetIndex()
	g.reads.answer()
	g.deliver(m.GetResponses(), out)
	if g.retainer != nil && g.retainer.Outgrown() {
		g.retain(g.worker.s.now())
	}
}

// retain proposes what retention says now, where this node leads. Followers hear of it from the log.
func (g *group) retain(now time.Time) {
	if !g.serving || g.trimming {
		return
	}
	start, move := g.retainer.RetainTo(now)
	if !move {
		return
	}
	g.trimming = true
	g.catchUp(g.worker.clock)
	g.worker.s.inflight.Add(1)
	p := &proposal{payload: log.TrimPayload(start), trim: true, acks: -1, epoch: AnyEpoch, term: g.term, done: func(int64, error) { g.trimming = false }}
	g.batch = append(g.batch, p)
	g.worker.touch(g)
}

// abandon fails everything, when the node stops or the group is dropped.
func (g *group) abandon(err error, out *output) {
	if g.closeErr != nil {
		return
	}
	g.closeErr, g.serving, g.isLeader = err, false, false
	g.lead.Store(&leadership{node: -1, epoch: int32(g.term)})
	for _, p := range g.batch {
		if !p.duplicate {
			g.worker.gate.release(p.size)
		}
		g.answer(p, err, out)
	}
	clear(g.batch)
	g.batch = g.batch[:0]
	g.failPending(err, out)
	g.reads.fail(err)
	g.gate.close(err)
	close(g.dead)
}
