package cluster

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/rowtrail/rowtrail/log"
)

// trackTicks is how often a leader looks where the members are, and whether they are who they should be. Where nothing happens it does with its
// heartbeats.
const trackTicks = 3

// GroupStatus is what a leader, or a follower as far as it can tell, knows of its group.
type GroupStatus struct {
	Leader, Epoch int32 // -1: unknown
	Self          bool  // this node serves as the leader
	Members       []GroupMember
	Joint         bool   // between two configurations
	Reached       bool   // the members are what they should be
	Last          uint64 // index of the last entry of this node's log
}

// GroupMember is one member.
type GroupMember struct {
	Member
	Voter  bool
	InSync bool
	Match  uint64 // the leader knows it durable up to here
}

// tick advances Raft's clock, and on a leader what it knows of the others.
func (g *group) tick(clock int64, out *output) {
	if g.isLost {
		return
	}
	g.catchUp(clock)
	if !g.isLeader {
		g.hurry()
		return
	}
	if g.sync.ticks-g.sync.looked >= trackTicks {
		g.look(out)
	}
	g.rest(clock)
}

// look is what a leader does every trackTicks.
func (g *group) look(out *output) {
	g.sync.looked = g.sync.ticks
	still := true
	g.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr trackerProgress) {
		still = g.sync.see(id, pr.Match, pr.RecentActive) && pr.Match == g.appended && still
	})
	g.sync.last = g.appended
	if !still || !g.still { // else all is as it was shown
		g.share()
		g.publish()
		g.still = still && (g.sharer == nil || g.shared == g.appended)
	}
	g.answerSettled(out)
	if g.serving && !g.steady {
		g.steer()
	}
}

// hurryTicks is for how many ticks a member tries to lead at once: the preferred leader of a new group, and the first one left of a group
// whose leader's process has ended.
const hurryTicks = 20

func (g *group) hurry() {
	if g.eager == 0 {
		return
	}
	g.eager--
	if g.lead.Load().node >= 0 {
		g.eager = 0
	} else if g.eager%2 == 1 {
		if err := g.rn.Campaign(); err != nil {
			g.logger.Debug("campaign", "group", uint64(g.id), "error", err)
		}
	}
}

// gone forgets a leader whose process has ended; the first of the others campaigns at once.
func (g *group) gone(node int32) {
	if g.isLost || g.isLeader || g.lead.Load().node != node {
		return
	}
	if err := g.rn.ForgetLeader(); err != nil {
		g.logger.Debug("forget the leader", "group", uint64(g.id), "error", err)
		return
	}
	g.restless()
	g.lead.Store(&leadership{node: -1, epoch: int32(g.term)}) //nolint:gosec // a term
	first := uint64(0)
	for _, id := range g.conf.GetVoters() {
		if memberOf(id).Node != node && (first == 0 || id < first) {
			first = id
		}
	}
	if first == g.self {
		g.eager = hurryTicks
		g.hurry()
	}
}

// share tells compaction how far it may go (the horizon rule); heartbeats tell the followers.
func (g *group) share() {
	if g.sharer == nil {
		return
	}
	if g.alone() {
		g.sharer.SetShared(false, 0)
		return
	}
	g.shared = max(g.shared, g.sync.shared(members(g.conf), g.sharer.Bytes()))
	g.sharer.SetShared(true, g.shared)
}

// steer goes one step towards the members that the group should have.
func (g *group) steer() {
	var s step
	if g.changing <= g.applied { // else there is a change under way, and the members are not what they seem
		s = nextStep(g.conf, g.want, g.self, g.sync.caughtUp)
	}
	s.done = s.done && g.vouched()
	if g.reached != s.done {
		g.reached = s.done
		g.publish()
		g.worker.classify(g)
	}
	g.steady = s.done
	switch {
	case s.transfer != 0:
		g.handTo(s.transfer)
	case s.change != nil:
		cc, err := withOutcome(g.conf, s.change)
		if err != nil {
			g.logger.Error("the members of a group cannot be changed", "group", uint64(g.id), "error", err)
			return
		}
		if err := g.rn.ProposeConfChange(cc); err != nil {
			g.logger.Debug("change of members is put off", "group", uint64(g.id), "error", err)
		}
	}
}

// handTo begins to hand leadership to a member. Raft puts off with each new hand-over the question whether a quorum is heard (CheckQuorum), so one
// that is under way is not replaced by another one: it ends, one way or the other, within electionTicks.
func (g *group) handTo(id uint64) {
	if g.rn.BasicStatus().LeadTransferee == raft.None {
		g.rn.TransferLeader(id)
		g.asks()
	}
}

// become takes what the members should be.
func (g *group) become(want Membership) {
	g.want, g.reached = want, false
	g.stir()
	g.worker.classify(g)
}

// changed applies an entry that changes the members.
func (g *group) changed(e *raftpb.Entry) error {
	if len(e.GetData()) == 0 {
		return nil
	}
	if e.GetType() != raftpb.EntryConfChangeV2 {
		return fmt.Errorf("entry %d changes the members in the format of another version; run that one: %w", e.GetIndex(), log.ErrFormat)
	}
	cc, err := decodeChange(e.GetData())
	if err != nil {
		return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
	}
	want, err := decodeConfiguration(cc.GetContext())
	if err != nil {
		return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
	}
	cs := g.rn.ApplyConfChange(cc)
	err = cs.Equivalent(want)
	if err != nil && slices.Contains(g.conf.GetLearners(), g.self) {
		err = sameConfiguration(cs, want, g.self)
	}
	if err != nil {
		return fmt.Errorf("entry %d leads to other members than it says: %w: %w", e.GetIndex(), err, log.ErrCorrupt)
	}
	g.setConfiguration(cs)
	return nil
}

func (g *group) setConfiguration(cs *raftpb.ConfState) {
	g.conf, g.before = cs, g.appended
	g.stir()
	g.worker.classify(g)
	g.sync.keep(members(cs))
	if g.isLeader {
		g.refresh()
	}
	if !g.alone() && g.sharer != nil {
		g.sharer.SetShared(true, g.shared)
	}
	g.publish()
}

// publish shows readers what this node knows of the group, and tells the node where it leads.
func (g *group) publish() {
	l := g.lead.Load()
	s := &GroupStatus{Leader: l.node, Epoch: l.epoch, Self: l.self, Joint: isJoint(g.conf), Reached: g.reached, Last: g.appended}
	var inSync []int32
	if g.isLeader {
		inSync = g.sync.inSync(g.conf, g.self)
	}
	for _, id := range members(g.conf) {
		m := GroupMember{Member: memberOf(id), Voter: slices.Contains(g.conf.GetVoters(), id)}
		m.InSync = m.Voter && slices.Contains(inSync, m.Node)
		if f := g.sync.followers[id]; f != nil {
			m.Match = f.match
		}
		s.Members = append(s.Members, m)
	}
	g.inSync = len(inSync)
	g.status.Store(s)
	if changed := l.self && !slices.Equal(inSync, g.told.inSync) || l.self != g.told.self || l.node != g.told.leader || l.epoch != g.told.epoch; changed {
		if c := &g.worker.s.counters; l.self && g.told.self && l.epoch == g.told.epoch {
			if missing(slices.DeleteFunc(slices.Clone(g.told.inSync), func(n int32) bool { return !votes(g.conf, n) }), inSync) {
				c.shrinks.Add(1)
			}
			if missing(inSync, g.told.inSync) {
				c.expands.Add(1)
			}
		}
		g.told = told{leader: l.node, epoch: l.epoch, self: l.self, inSync: inSync}
		if g.notify != nil {
			g.notify(g, Leadership{Leader: l.node, Epoch: l.epoch, Self: l.self, InSync: inSync})
		}
	}
}

// votes reports that a node has a voter.
func votes(cs *raftpb.ConfState, node int32) bool {
	return slices.ContainsFunc(cs.GetVoters(), func(id uint64) bool { return memberOf(id).Node == node })
}

// Leadership is what the cluster is told of a group.
type Leadership struct {
	Leader, Epoch int32 // Leader -1: unknown
	Self          bool  // this node serves as the leader
	InSync        []int32
}

// told is the last leadership that the node was told of.
type told struct {
	leader, epoch int32
	self          bool
	inSync        []int32
}

// configurationOf is the configuration that a log tells; its first one when it has seen none other.
func configurationOf(b []byte, first []Member) (*raftpb.ConfState, error) {
	if b == nil {
		return &raftpb.ConfState{Voters: raftIDs(first)}, nil
	}
	return decodeConfiguration(b)
}

// snapshotOf describes a log at its horizon to Raft. The bytes travel outside of Raft's messages.
func snapshotOf(s SnapshotStore, first []Member) (*raftpb.Snapshot, error) {
	index, term, b := s.Horizon()
	cs, err := configurationOf(b, first)
	if err != nil {
		return nil, err
	}
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: proto.Clone(cs).(*raftpb.ConfState)}}, nil
}
