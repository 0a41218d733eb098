package cluster

import (
	"cmp"
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// DefaultReplicaLagTime is how long a follower may be behind and still count as in sync (replica.lag.time.max.ms).
const DefaultReplicaLagTime = 30 * time.Second

// Bounds of the horizon rule: a member that is away for longer, or while the tail grows larger, is not waited for before compaction; it
// gets a raftSnapshot.
const (
	horizonTime  = 10 * time.Minute
	horizonBytes = 1 << 30
)

// follower is what a leader knows of one member.
type follower struct {
	match uint64 // durable there up to this index
	seen  int64  // the tick at which it had last caught up with where the leader was when it looked before
	heard int64  // the tick at which it had last been heard of lately
}

// inSync tracks how far the members of a group are. It belongs to the leader and counts time in ticks.
type inSync struct {
	lag       int64 // ticks
	ticks     int64
	looked    int64  // when the leader last looked where all are
	last      uint64 // the leader's last index when it looked before
	followers map[uint64]*follower
}

// begin starts a leader's term. Everyone counts as in sync until the lag says otherwise, as the leader before may have known.
func (s *inSync) begin(lag int64) { *s = inSync{lag: lag, followers: map[uint64]*follower{}} }

// see takes a member's progress, and reports whether it is where it was, and counts as caught up. active: it was heard of since Raft last asked for a
// quorum, every electionTicks. Where nothing is appended who is gone has all there is, too.
func (s *inSync) see(id, match uint64, active bool) (still bool) {
	f := s.followers[id]
	if f == nil {
		f = &follower{seen: s.ticks, heard: s.ticks}
		s.followers[id] = f
	} else {
		still = f.match == match
	}
	f.match = match
	if active {
		f.heard = s.ticks
	}
	if match >= s.last && s.ticks-f.heard <= electionTicks {
		f.seen = s.ticks
	}
	return still && f.seen == s.ticks
}

// keep forgets those who are no members any more.
func (s *inSync) keep(ids []uint64) {
	for id := range s.followers {
		if !slices.Contains(ids, id) {
			delete(s.followers, id)
		}
	}
}

// caughtUp reports that a member is where the leader was a moment ago.
func (s *inSync) caughtUp(id uint64) bool {
	f := s.followers[id]
	return f != nil && f.match > 0 && f.seen >= s.looked
}

// inSync are the voters that are, in the order of their node ids.
func (s *inSync) inSync(cs *raftpb.ConfState, self uint64) []int32 {
	var out []int32
	for _, id := range cs.GetVoters() {
		if f := s.followers[id]; id == self || f != nil && s.ticks-f.seen <= s.lag {
			out = append(out, memberOf(id).Node)
		}
	}
	slices.SortFunc(out, cmp.Compare[int32])
	return out
}

// holding reports that an entry is on the disks of as many voters as asked for, or of all there are; between two configurations in either.
func (s *inSync) holding(cs *raftpb.ConfState, index uint64, asked int) bool {
	for _, voters := range [][]uint64{cs.GetVoters(), cs.GetVotersOutgoing()} {
		n := 0
		for _, id := range voters {
			if f := s.followers[id]; f != nil && f.match >= index {
				n++
			}
		}
		if n < min(asked, len(voters)) {
			return false
		}
	}
	return true
}

// shared is up to where all members have the log on their disks, those aside that are not waited for.
func (s *inSync) shared(ids []uint64, tailBytes int64) uint64 {
	index := ^uint64(0)
	for _, id := range ids {
		f := s.followers[id]
		if f == nil {
			return 0
		}
		away := s.ticks - f.seen
		if away > int64(horizonTime/tickInterval) || away > s.lag && tailBytes > horizonBytes {
			continue
		}
		index = min(index, f.match)
	}
	return index
}
