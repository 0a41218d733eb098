package cluster

import (
	"slices"

	"go.etcd.io/raft/v3/raftpb"
)

// Membership is what the members of a group should be. Voters stand in order of preference.
type Membership struct {
	Voters   []Member
	Learners []Member // replicas that never vote
}

// step is the next thing to do on the way from a configuration to a membership. At most one field is set; none: it is reached, or a learner
// has to catch up first.
type step struct {
	change   *raftpb.ConfChangeV2
	transfer uint64 // leadership is to go there before this leader leaves
	done     bool
}

// nextStep decides how a leader goes on, one change at a time: new members first learn; when all of them have caught up, and most of the voters to be, one joint
// change makes the voters what they should be. Every state on the way is a configuration that the next leader can go on from.
func nextStep(cs *raftpb.ConfState, want Membership, self uint64, caughtUp func(id uint64) bool) step {
	voters, learners := raftIDs(want.Voters), raftIDs(want.Learners)
	if len(voters) == 0 {
		return step{done: true} // not known
	}
	if isJoint(cs) {
		if !slices.Contains(cs.GetVoters(), self) {
			// It goes on without this node, with one that is not wanted if need be: what is wanted may have changed on the way.
			for _, id := range append(slices.Clone(voters), cs.GetVoters()...) {
				if slices.Contains(cs.GetVoters(), id) && caughtUp(id) {
					return step{transfer: id}
				}
			}
			return step{}
		}
		return step{change: &raftpb.ConfChangeV2{}}
	}
	have := members(cs)
	var add []*raftpb.ConfChangeSingle
	for _, id := range append(slices.Clone(voters), learners...) {
		if !slices.Contains(have, id) {
			add = append(add, single(raftpb.ConfChangeAddLearnerNode, id))
		}
	}
	if len(add) > 0 {
		return changeOf(add)
	}
	var swap []*raftpb.ConfChangeSingle
	waiting := false
	for _, id := range voters {
		if slices.Contains(cs.GetLearners(), id) {
			waiting = waiting || !caughtUp(id)
			swap = append(swap, single(raftpb.ConfChangeAddNode, id))
		}
	}
	if waiting {
		return step{}
	}
	for _, id := range have {
		switch {
		case slices.Contains(learners, id):
			if slices.Contains(cs.GetVoters(), id) {
				swap = append(swap, single(raftpb.ConfChangeAddLearnerNode, id))
			}
		case !slices.Contains(voters, id):
			swap = append(swap, single(raftpb.ConfChangeRemoveNode, id))
		}
	}
	if len(swap) == 0 {
		return step{done: true}
	}
	if !majority(voters, self, caughtUp) {
		return step{} // the voters to be could not go on by themselves
	}
	if !slices.Contains(voters, self) {
		for _, id := range voters {
			if slices.Contains(cs.GetVoters(), id) && caughtUp(id) {
				return step{transfer: id} // it goes on without this node
			}
		}
	}
	return changeOf(swap)
}

// majority reports that most of the voters have caught up.
func majority(voters []uint64, self uint64, caughtUp func(uint64) bool) bool {
	n := 0
	for _, id := range voters {
		if id == self || caughtUp(id) {
			n++
		}
	}
	return n > len(voters)/2
}

func single(t raftpb.ConfChangeType, id uint64) *raftpb.ConfChangeSingle {
	return &raftpb.ConfChangeSingle{Type: t.Enum(), NodeId: &id}
}

// changeOf makes one change of several; more than one go through a joint configuration, which is left by a change of its own.
func changeOf(changes []*raftpb.ConfChangeSingle) step {
	cc := &raftpb.ConfChangeV2{Changes: changes}
	if len(changes) > 1 {
		cc.Transition = raftpb.ConfChangeTransitionJointExplicit.Enum()
	}
	return step{change: cc}
}
