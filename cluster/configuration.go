package cluster

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/confchange"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/rowtrail/rowtrail/log"
)

// A change of a group's configuration carries the configuration that it leads to, so that the log can keep it without knowing Raft. There
// is at most one change that is not applied, so its proposer knows what that is.

// configurationAfter applies a change to a configuration.
func configurationAfter(cs *raftpb.ConfState, cc *raftpb.ConfChangeV2) (*raftpb.ConfState, error) {
	empty := confchange.Changer{Tracker: tracker.MakeProgressTracker(1, 0), LastIndex: 1}
	cfg, progress, err := confchange.Restore(empty, cs)
	if err != nil {
		return nil, fmt.Errorf("configuration %v: %w", cs, err)
	}
	c := confchange.Changer{Tracker: tracker.ProgressTracker{Config: cfg, Progress: progress}, LastIndex: 1}
	if cc.LeaveJoint() {
		cfg, progress, err = c.LeaveJoint()
	} else if auto, joint := cc.EnterJoint(); joint {
		cfg, progress, err = c.EnterJoint(auto, cc.GetChanges()...)
	} else {
		cfg, progress, err = c.Simple(cc.GetChanges()...)
	}
	if err != nil {
		return nil, fmt.Errorf("change configuration %v: %w", cs, err)
	}
	t := tracker.ProgressTracker{Config: cfg, Progress: progress}
	return t.ConfState(), nil
}

// withOutcome puts into a change what it leads to.
func withOutcome(cs *raftpb.ConfState, cc *raftpb.ConfChangeV2) (*raftpb.ConfChangeV2, error) {
	after, err := configurationAfter(cs, cc)
	if err != nil {
		return nil, err
	}
	if cc.Context, err = proto.Marshal(after); err != nil {
		return nil, err
	}
	return cc, nil
}

// Configuration is log.Options.Configuration: what an entry without records says the group's members are from there on.
func Configuration(t log.EntryType, data []byte) ([]byte, error) {
	if t != log.EntryMetaV2 {
		return nil, fmt.Errorf("%w: a change of members in the format of another version", log.ErrFormat)
	}
	cc, err := decodeChange(data)
	if err != nil {
		return nil, err
	}
	return cc.GetContext(), nil
}

func changesMembers(e *raftpb.Entry) bool {
	return e.GetType() != raftpb.EntryNormal && len(e.GetData()) > 0
}

func decodeChange(data []byte) (*raftpb.ConfChangeV2, error) {
	cc := &raftpb.ConfChangeV2{}
	if err := proto.Unmarshal(data, cc); err != nil {
		return nil, fmt.Errorf("%w: a change of members: %w", log.ErrCorrupt, err)
	}
	if len(cc.GetContext()) == 0 {
		return nil, fmt.Errorf("%w: a change of members that does not say what it leads to", log.ErrFormat)
	}
	return cc, nil
}

func decodeConfiguration(b []byte) (*raftpb.ConfState, error) {
	cs := &raftpb.ConfState{}
	if err := proto.Unmarshal(b, cs); err != nil {
		return nil, fmt.Errorf("%w: a group's members: %w", log.ErrCorrupt, err)
	}
	return cs, nil
}

// members lists everybody in a configuration, voters first.
func members(cs *raftpb.ConfState) []uint64 {
	out := slices.Clone(cs.GetVoters())
	for _, more := range [][]uint64{cs.GetVotersOutgoing(), cs.GetLearners(), cs.GetLearnersNext()} {
		for _, id := range more {
			if !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

// withLearner is a configuration with id in it. Raft takes a raftSnapshot only from a configuration that names the receiver, and one at the
// horizon may be older than the receiver's membership; the change that makes it a member follows in the log.
func withLearner(cs *raftpb.ConfState, id uint64) *raftpb.ConfState {
	if slices.Contains(members(cs), id) {
		return cs
	}
	cs = proto.Clone(cs).(*raftpb.ConfState)
	cs.Learners = append(cs.Learners, id)
	return cs
}

// sameConfiguration compares what a change led to with what it says, for a member that may be in its configuration ahead of the log.
func sameConfiguration(got, want *raftpb.ConfState, self uint64) error {
	return got.Equivalent(withLearner(want, self))
}

func isJoint(cs *raftpb.ConfState) bool { return len(cs.GetVotersOutgoing()) > 0 }

// onlyVoter reports that id is alone in a configuration.
func onlyVoter(cs *raftpb.ConfState, id uint64) bool {
	all := members(cs)
	return len(all) == 1 && all[0] == id && slices.Contains(cs.GetVoters(), id)
}
