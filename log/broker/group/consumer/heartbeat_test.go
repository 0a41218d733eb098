package consumer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// script drives one group of topics a (4 partitions) and b (2).
type script struct {
	t      *testing.T
	g      *Group
	topics *Topics
	now    time.Time
}

func newScript(t *testing.T) *script {
	limits := Limits{SessionTimeout: 30 * time.Second, MaxMembers: 3}.WithDefaults()
	return &script{t: t, g: New("g", func() Limits { return limits }), now: time.Unix(1_000_000, 0),
		topics: NewTopics([]Topic{{ID: ID{1}, Name: "a", Partitions: 4}, {ID: ID{2}, Name: "b", Partitions: 2}})}
}

func (s *script) send(r Request) Response {
	s.t.Helper()
	if refused := r.Check(true); refused != nil {
		return *refused
	}
	resp, _ := s.g.Heartbeat(&r, s.topics, s.now)
	return resp
}

func ptr(text string) *string { return &text }

func joins(id string, topics ...string) Request {
	return Request{MemberID: id, RebalanceTimeout: 10_000, Topics: topics, OwnsNothing: true}
}

// beats is a heartbeat that says nothing, or with partitions of topic a what the member owns.
func beats(id string, epoch int32, owned ...int32) Request {
	r := Request{MemberID: id, Epoch: epoch, RebalanceTimeout: -1}
	for _, p := range owned {
		r.Owned = append(r.Owned, TopicPartition{ID{1}, p})
	}
	return r
}

func (s *script) want(got Response, want string) {
	s.t.Helper()
	text := fmt.Sprintf("epoch %d", got.Epoch)
	if e := kerr.TypedErrorForCode(got.Code); e != nil {
		text = e.Message
	}
	if got.Assigned != nil {
		text += ":"
		for _, tp := range got.Assigned {
			text += fmt.Sprintf(" %c%d", 'a'+tp.Topic[0]-1, tp.Partition)
		}
	}
	if text != want {
		s.t.Errorf("got %q, want %q (%s)", text, want, got.Message)
	}
}

func TestRequestsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Request
		want string
	}{
		{"no member id", Request{RebalanceTimeout: 1, Topics: []string{"a"}, OwnsNothing: true}, "INVALID_REQUEST"},
		{"empty instance", Request{MemberID: "m", InstanceID: ptr(""), RebalanceTimeout: 1, Topics: []string{"a"}, OwnsNothing: true}, "INVALID_REQUEST"},
		{"empty rack", Request{MemberID: "m", RackID: ptr(""), RebalanceTimeout: 1, Topics: []string{"a"}, OwnsNothing: true}, "INVALID_REQUEST"},
		{"epoch -3", Request{MemberID: "m", Epoch: -3}, "INVALID_REQUEST"},
		{"a dynamic member that will be back", Request{MemberID: "m", Epoch: -2}, "INVALID_REQUEST"},
		{"join without a timeout", Request{MemberID: "m", RebalanceTimeout: -1, Topics: []string{"a"}, OwnsNothing: true}, "INVALID_REQUEST"},
		{"join with partitions", Request{MemberID: "m", RebalanceTimeout: 1, Topics: []string{"a"}, Owned: []TopicPartition{{ID{1}, 0}}}, "INVALID_REQUEST"},
		{"join that does not say what it owns", Request{MemberID: "m", RebalanceTimeout: 1, Topics: []string{"a"}}, "INVALID_REQUEST"},
		{"join without a subscription", Request{MemberID: "m", RebalanceTimeout: 1, OwnsNothing: true}, "INVALID_REQUEST"},
		{"too long a subscription", joins("m", strings.Repeat("x", maxSubscriptionBytes+1)), "INVALID_REQUEST"},
		{"assignor", Request{MemberID: "m", RebalanceTimeout: 1, Topics: []string{"a"}, OwnsNothing: true, Assignor: ptr("sticky")}, "UNSUPPORTED_ASSIGNOR"},
		{"expression", Request{MemberID: "m", RebalanceTimeout: 1, Pattern: ptr("a("), OwnsNothing: true}, "INVALID_REGULAR_EXPRESSION"},
		{"long expression", Request{MemberID: "m", RebalanceTimeout: 1, Pattern: ptr(strings.Repeat("x", maxPatternBytes+1)), OwnsNothing: true}, "INVALID_REGULAR_EXPRESSION"},
		{"fine", joins("m", "a"), ""},
	} {
		refused := c.r.Check(true)
		got := ""
		if refused != nil {
			got = kerr.TypedErrorForCode(refused.Code).Message
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	first := Request{RebalanceTimeout: 1, Topics: []string{"a"}, OwnsNothing: true}
	if refused := first.Check(false); refused != nil {
		t.Errorf("in version 0 the coordinator makes the id: %+v", refused)
	}
}

// A second member is given partitions only when the first has let go of them, and each is led on by its own heartbeats.
func TestPartitionsMoveWhenTheyAreRevoked(t *testing.T) {
	s := newScript(t)
	s.want(s.send(joins("m1", "a")), "epoch 1: a0 a1 a2 a3")
	s.want(s.send(beats("m1", 1, 0, 1, 2, 3)), "epoch 1")
	s.want(s.send(joins("m2", "a")), "epoch 2:")
	if s.g.State() != "Reconciling" {
		t.Errorf("state %s", s.g.State())
	}
	s.want(s.send(beats("m1", 1)), "epoch 1: a0 a1")
	s.want(s.send(beats("m2", 2)), "epoch 2")
	s.want(s.send(beats("m1", 1, 0, 1, 3)), "epoch 1") // a3 is still being revoked
	s.want(s.send(beats("m2", 2)), "epoch 2")
	s.want(s.send(beats("m1", 1, 0, 1)), "epoch 2")
	s.want(s.send(beats("m2", 2)), "epoch 2: a2 a3")
	s.want(s.send(beats("m2", 2, 2, 3)), "epoch 2")
	if s.g.State() != "Stable" {
		t.Errorf("state %s", s.g.State())
	}
}

func TestEpochsAreFenced(t *testing.T) {
	s := newScript(t)
	s.want(s.send(beats("m1", 1)), "UNKNOWN_MEMBER_ID")
	s.want(s.send(joins("m1", "a")), "epoch 1: a0 a1 a2 a3")
	s.want(s.send(beats("m1", 2)), "FENCED_MEMBER_EPOCH")
	s.want(s.send(joins("m2", "b")), "epoch 2: b0 b1")
	s.want(s.send(beats("m1", 1, 0, 1, 2, 3)), "epoch 2") // this answer is lost
	s.want(s.send(beats("m1", 1)), "FENCED_MEMBER_EPOCH") // it must say what it owns
	over := beats("m1", 1, 0)
	over.Owned = append(over.Owned, TopicPartition{ID{2}, 0})
	s.want(s.send(over), "FENCED_MEMBER_EPOCH") // more than it may
	s.want(s.send(beats("m1", 1, 0, 1)), "epoch 2")
	s.want(s.send(joins("m1", "a")), "epoch 2: a0 a1 a2 a3") // fenced, it comes back under its id
	s.want(s.send(beats("m1", 0+2)), "epoch 2")
	s.want(s.send(joins("m3", "a")), "epoch 3:")
	s.want(s.send(joins("m4", "a")), "GROUP_MAX_SIZE_REACHED")
}

func TestMembersThatAreSilentOrDoNotRevokeAreRemoved(t *testing.T) {
	s := newScript(t)
	s.send(joins("m1", "a"))
	s.send(joins("m2", "a"))
	s.want(s.send(beats("m1", 1, 0, 1, 2, 3)), "epoch 1: a0 a1")
	if want := s.now.Add(10 * time.Second); !s.g.Deadline().Equal(want) {
		t.Errorf("deadline %v, want the end of the rebalance %v", s.g.Deadline(), want)
	}
	s.now = s.now.Add(9 * time.Second)
	s.g.Tick(s.now)
	s.want(s.send(beats("m1", 1)), "epoch 1") // alive, but it does not revoke
	s.now = s.now.Add(time.Second)
	s.g.Tick(s.now)
	s.want(s.send(beats("m1", 1)), "UNKNOWN_MEMBER_ID")
	s.want(s.send(beats("m2", 2)), "epoch 3: a0 a1 a2 a3")
	s.now = s.now.Add(30*time.Second - 1)
	s.g.Tick(s.now)
	if s.g.Empty() {
		t.Fatal("removed before its session ended")
	}
	s.now = s.now.Add(1)
	s.g.Tick(s.now)
	if !s.g.Empty() || s.g.State() != "Empty" {
		t.Fatalf("not removed: %+v", s.g.Describe())
	}
}

func TestStaticMembersComeBackToTheirPartitions(t *testing.T) {
	s := newScript(t)
	static := func(id string, epoch int32) Request {
		r := beats(id, epoch)
		if epoch == 0 {
			r = joins(id, "a")
		}
		r.InstanceID = ptr("i")
		return r
	}
	s.want(s.send(static("m1", 0)), "epoch 1: a0 a1 a2 a3")
	s.want(s.send(static("m2", 0)), "UNRELEASED_INSTANCE_ID")
	s.want(s.send(joins("m3", "a")), "epoch 2:")
	r := static("m1", 1)
	r.OwnsNothing = true
	s.want(s.send(r), "epoch 2: a0 a1")
	s.want(s.send(beats("m3", 2)), "epoch 2: a2 a3")
	s.want(s.send(static("m1", -2)), "epoch -2")
	s.want(s.send(beats("m3", 2)), "epoch 2") // its place is kept
	s.want(s.send(static("m2", 0)), "epoch 2: a0 a1")
	s.want(s.send(static("m1", 2)), "FENCED_INSTANCE_ID")
	s.want(s.send(static("m2", -1)), "epoch -1")
	s.want(s.send(beats("m3", 2)), "epoch 3: a0 a1 a2 a3")
	if s.g.Members() != 1 {
		t.Errorf("%d members", s.g.Members())
	}
}

func TestTopicsComeAndGo(t *testing.T) {
	s := newScript(t)
	r := joins("m1", "new")
	r.Pattern = ptr("a|c.*")
	s.want(s.send(r), "epoch 1: a0 a1 a2 a3")
	s.topics = NewTopics([]Topic{{ID: ID{1}, Name: "a", Partitions: 4}, {ID: ID{3}, Name: "cc", Partitions: 1}, {ID: ID{4}, Name: "xcc", Partitions: 1}})
	s.want(s.send(beats("m1", 1)), "epoch 2: a0 a1 a2 a3 c0")
	s.topics = NewTopics([]Topic{{ID: ID{1}, Name: "a", Partitions: 5}, {ID: ID{3}, Name: "cc", Partitions: 1}, {ID: ID{9}, Name: "unrelated", Partitions: 1}})
	s.want(s.send(beats("m1", 2)), "epoch 3: a0 a1 a2 a3 a4 c0")
	s.topics = NewTopics([]Topic{{ID: ID{3}, Name: "cc", Partitions: 1}, {ID: ID{2}, Name: "new", Partitions: 1}})
	r = beats("m1", 3)
	r.Owned = []TopicPartition{{ID{3}, 0}} // the client has dropped the deleted topic
	s.want(s.send(r), "epoch 4: b0 c0")
	if got := s.g.Subscribed(); !got["new"] || !got["cc"] || got["a"] {
		t.Errorf("subscribed: %v", got)
	}
	r = beats("m1", 4)
	r.RebalanceTimeout, r.Topics, r.Pattern, r.OwnsNothing = 10_000, []string{"new"}, ptr(""), true
	s.want(s.send(r), "epoch 5: b0")
	if len(s.g.patterns) != 0 {
		t.Errorf("an expression that nobody uses is kept: %v", s.g.patterns)
	}
}

// A commit under an epoch that the member has left counts for the partitions that it had then and has still (KIP-1251).
func TestCommitsOfAnEarlierEpoch(t *testing.T) {
	s := newScript(t)
	s.send(joins("m1", "a"))
	s.send(joins("m2", "b"))
	s.want(s.send(beats("m1", 1)), "epoch 2")
	if ok, _ := s.g.MayCommit("nobody", 1); ok {
		t.Error("a member that is none may commit")
	}
	if ok, _ := s.g.MayCommit("m1", 3); ok {
		t.Error("a member may commit under an epoch that it has not reached")
	}
	if ok, stale := s.g.MayCommit("m1", 1); !ok || stale(TopicPartition{ID{1}, 0}) || !stale(TopicPartition{ID{2}, 0}) {
		t.Error("the epoch before the last")
	}
	if ok, stale := s.g.MayCommit("m2", 1); !ok || !stale(TopicPartition{ID{2}, 0}) {
		t.Error("a partition that was given later than the epoch of the commit")
	}
	if ok, stale := s.g.MayCommit("m2", 2); !ok || stale(TopicPartition{ID{2}, 0}) {
		t.Error("the present epoch")
	}
}

func TestAdminsRemoveMembers(t *testing.T) {
	s := newScript(t)
	r := joins("m1", "a")
	r.InstanceID = ptr("i")
	s.send(r)
	for _, c := range []struct {
		member, instance string
		want             int16
	}{
		{"m9", "", kerr.UnknownMemberID.Code}, {"", "j", kerr.UnknownMemberID.Code}, {"m1", "j", kerr.FencedInstanceID.Code}, {"", "i", 0},
	} {
		if code, _ := s.g.Remove(c.member, c.instance); code != c.want {
			t.Errorf("remove %q %q: %d, want %d", c.member, c.instance, code, c.want)
		}
	}
	if !s.g.Empty() {
		t.Error("it is still there")
	}
}
