package group

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log/broker/group/consumer"
	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/journal/journaltest"
)

func consumerTopics() *consumer.Topics {
	return consumer.NewTopics([]consumer.Topic{{ID: consumer.ID{1}, Name: "a", Partitions: 4}, {ID: consumer.ID{2}, Name: "b", Partitions: 2}})
}

func consumerOptions() Options {
	topics := consumerTopics()
	return Options{Topics: func() *consumer.Topics { return topics }}
}

func beat(c *Coordinator, id string, r consumer.Request) consumer.Response {
	return ask(func(reply func(consumer.Response)) { c.ConsumerHeartbeat(id, &r, true, reply) })
}

func joinAs(member string, topics ...string) consumer.Request {
	return consumer.Request{MemberID: member, RebalanceTimeout: 10_000, Topics: topics, OwnsNothing: true}
}

func beatAs(member string, epoch int32) consumer.Request {
	return consumer.Request{MemberID: member, Epoch: epoch, RebalanceTimeout: -1}
}

func offsetsOf(topic string, partition int32) []Offset {
	return []Offset{{journal.TopicPartition{Topic: topic, Partition: partition}, Committed{Offset: 3, LeaderEpoch: -1}}}
}

func commitAs(c *Coordinator, r CommitRequest) int16 {
	return ask(func(reply func([]int16)) { c.Commit(r, reply) })[0]
}

func classicJoin(c *Coordinator, id string) JoinResult {
	return ask(func(reply func(JoinResult)) {
		c.Join(id, JoinRequest{Session: 10 * time.Second, Rebalance: time.Minute, ProtocolType: "consumer", Protocols: []Protocol{{"range", nil}}}, reply)
	})
}

// Invariant 1: an assignment is given out when it is committed, and no answer that knows of it before.
func TestConsumerAnswersWaitForTheLog(t *testing.T) {
	l := &journaltest.Log{}
	c, stop := run(l, consumerOptions())
	defer stop()
	if r := beat(c, "g", joinAs("m1", "a")); r.Code != 0 || r.Epoch != 1 {
		t.Fatalf("%+v", r)
	}
	l.Hold()
	answers := make(chan consumer.Response, 2)
	again := joinAs("m1", "a")
	for range 2 { // the second one changes nothing, and knows what the first one wrote
		r := joinAs("m1", "a", "b")
		c.ConsumerHeartbeat("g", &r, true, func(r consumer.Response) { answers <- r })
	}
	c.ConsumerHeartbeat("other", &again, true, func(consumer.Response) {})
	select {
	case r := <-answers:
		t.Fatalf("answered before it was committed: %+v", r)
	case <-time.After(20 * time.Millisecond):
	}
	l.Flow()
	for range 2 {
		if r := <-answers; r.Code != 0 || r.Epoch != 2 || len(r.Assigned) != 6 {
			t.Fatalf("%+v", r)
		}
	}
}

// Invariant 8: a load finds the group as it was, in the log as written and in the copy that a rollover makes.
func TestConsumerGroupSurvivesRestart(t *testing.T) {
	for name, rollover := range map[string]int64{"log": 0, "copy": 1} {
		t.Run(name, func(t *testing.T) {
			l := &journaltest.Log{}
			opts := consumerOptions()
			opts.RolloverBytes = rollover
			c, stop := run(l, opts)
			static := joinAs("m1", "a")
			instance := "i"
			static.InstanceID = &instance
			beat(c, "g", static)
			beat(c, "g", joinAs("m2", "a", "b"))
			beat(c, "g", beatAs("m1", 1))
			if code := commitAs(c, CommitRequest{Group: "g", MemberID: "m2", Generation: 2, MemberEpochs: true, Offsets: offsetsOf("b", 0)}); code != 0 {
				t.Fatalf("commit: %d", code)
			}
			beat(c, "left", joinAs("m", "a"))
			leave := beatAs("m", -1)
			beat(c, "left", leave)
			before := dump(c)
			stop()
			l = l.Copy()
			c, stop = run(l, opts)
			defer stop()
			if d := cmp.Diff(before, dump(c)); d != "" {
				t.Fatal(d)
			}
			if r := beat(c, "g", beatAs("m2", 2)); r.Code != 0 || r.Epoch != 2 {
				t.Errorf("heartbeat after the load: %+v", r)
			}
		})
	}
}

// Groups change their type when they are empty, and only then; offsets stay.
func TestGroupsChangeTheirType(t *testing.T) {
	l := &journaltest.Log{}
	c, stop := run(l, consumerOptions())
	defer func() { stop() }()
	if code := commitAs(c, CommitRequest{Group: "g", Generation: -1, Offsets: offsetsOf("a", 0)}); code != 0 {
		t.Fatal(code)
	}
	typeOf := func() string {
		list := ask(func(reply func([]Listed)) { c.List(func(_ int16, list []Listed) { reply(list) }) })
		if len(list) != 1 {
			t.Fatalf("%+v", list)
		}
		return list[0].Type + " " + list[0].State
	}
	member := joinOne(t, c, JoinRequest{Session: 10 * time.Second, Rebalance: time.Minute, ProtocolType: "consumer", Protocols: []Protocol{{"range", nil}}})
	if r := beat(c, "g", joinAs("m1", "a")); r.Code != kerr.GroupIDNotFound.Code {
		t.Errorf("joins a classic group with members: %+v", r)
	}
	if _, each := askLeave(c, "g", member); each[0] != 0 {
		t.Fatal(each)
	}
	if r := beat(c, "g", beatAs("m1", 1)); r.Code != kerr.GroupIDNotFound.Code {
		t.Errorf("a heartbeat that does not join: %+v", r)
	}
	bad := joinAs("m1")
	expression := "("
	bad.Pattern = &expression
	if r := beat(c, "g", bad); r.Code != kerr.InvalidRegularExpression.Code || typeOf() != "classic Empty" {
		t.Errorf("a refused join: %+v, %s", r, typeOf())
	}
	if r := beat(c, "g", joinAs("m1", "a")); r.Code != 0 || len(r.Assigned) != 4 || typeOf() != "consumer Stable" {
		t.Fatalf("%+v, %s", r, typeOf())
	}
	if r := classicJoin(c, "g"); r.Code != kerr.InconsistentGroupProtocol.Code {
		t.Errorf("a classic member joins a consumer group: %+v", r)
	}
	if code := ask(func(reply func(int16)) { c.Heartbeat("g", "m1", "", 1, reply) }); code != kerr.UnknownMemberID.Code {
		t.Errorf("a classic heartbeat: %d", code)
	}
	if d := ask(func(reply func(Description)) { c.Describe("g", func(_ int16, d Description) { reply(d) }) }); d.State != Dead || !d.Consumer {
		t.Errorf("described as a classic group: %+v", d)
	}
	if code := ask(func(reply func(int16)) { c.Delete("g", reply) }); code != kerr.NonEmptyGroup.Code {
		t.Errorf("delete: %d", code)
	}
	stop()
	l = l.Copy()
	c, stop = run(l, consumerOptions())
	if typeOf() != "consumer Stable" {
		t.Errorf("after a restart it is %s", typeOf())
	}
	if _, each := askLeave(c, "g", "m1"); each[0] != 0 { // as an admin does
		t.Fatal(each)
	}
	if r := classicJoin(c, "g"); r.Code != 0 || typeOf() != "classic CompletingRebalance" {
		t.Errorf("%+v, %s", r, typeOf())
	}
	if f := fetch(c, "g", false); len(f.list) != 1 || f.list[0].Offset != 3 {
		t.Errorf("offsets: %+v", f)
	}
	stop()
	l = l.Copy()
	c, stop = run(l, consumerOptions())
	if d := dump(c); len(d) != 1 {
		t.Errorf("the records of the consumer group came back: %q", d)
	}
}

func TestConsumerGroupOffsets(t *testing.T) {
	l := &journaltest.Log{}
	c, stop := run(l, consumerOptions())
	defer stop()
	beat(c, "g", joinAs("m1", "a"))
	beat(c, "g", joinAs("m2", "b"))
	beat(c, "g", beatAs("m1", 1)) // both are in epoch 2
	producer := &journal.Producer{ID: 7}
	for _, tc := range []struct {
		name string
		r    CommitRequest
		want int16
	}{
		{"present epoch", CommitRequest{MemberID: "m1", Generation: 2, MemberEpochs: true, Offsets: offsetsOf("a", 0)}, 0},
		{"epoch before, still owned", CommitRequest{MemberID: "m1", Generation: 1, MemberEpochs: true, Offsets: offsetsOf("a", 0)}, 0},
		{"epoch before, not owned", CommitRequest{MemberID: "m1", Generation: 1, MemberEpochs: true, Offsets: offsetsOf("b", 0)}, kerr.StaleMemberEpoch.Code},
		{"epoch to come", CommitRequest{MemberID: "m1", Generation: 3, MemberEpochs: true, Offsets: offsetsOf("a", 0)}, kerr.StaleMemberEpoch.Code},
		{"nobody", CommitRequest{MemberID: "m9", Generation: 2, MemberEpochs: true, Offsets: offsetsOf("a", 0)}, kerr.UnknownMemberID.Code},
		{"an admin", CommitRequest{Generation: -1, MemberEpochs: true, Offsets: offsetsOf("a", 0)}, kerr.UnknownMemberID.Code},
		{"an old client", CommitRequest{MemberID: "m1", Generation: 2, Offsets: offsetsOf("a", 0)}, kerr.UnsupportedVersion.Code},
		{"transaction", CommitRequest{MemberID: "m1", Generation: 2, Producer: producer, Offsets: offsetsOf("a", 1)}, 0},
		{"transaction of an epoch to come", CommitRequest{MemberID: "m1", Generation: 3, Producer: producer, Offsets: offsetsOf("a", 1)}, kerr.IllegalGeneration.Code},
		{"transaction without a member", CommitRequest{Generation: -1, Producer: producer, Offsets: offsetsOf("a", 1)}, 0},
	} {
		tc.r.Group = "g"
		if code := commitAs(c, tc.r); code != tc.want {
			t.Errorf("commit, %s: %d, want %d", tc.name, code, tc.want)
		}
	}
	for _, tc := range []struct {
		member string
		epoch  int32
		want   int16
	}{{"m1", 2, 0}, {"m1", 1, kerr.StaleMemberEpoch.Code}, {"m9", 2, kerr.UnknownMemberID.Code}, {"", -1, 0}} {
		code := ask(func(reply func(int16)) {
			c.Fetch(FetchRequest{Group: "g", MemberID: tc.member, MemberEpoch: tc.epoch}, func(code int16, _ []Fetched) { reply(code) })
		})
		if code != tc.want {
			t.Errorf("fetch as %q in epoch %d: %d, want %d", tc.member, tc.epoch, code, tc.want)
		}
	}
	if code, each := askDeleteOffsets(c, "g", journal.TopicPartition{Topic: "a", Partition: 0}, journal.TopicPartition{Topic: "x", Partition: 0}); code != 0 || each[0] != kerr.GroupSubscribedToTopic.Code || each[1] != 0 {
		t.Errorf("delete offsets: %d, %v", code, each)
	}
}

func askDeleteOffsets(c *Coordinator, group string, list ...journal.TopicPartition) (code int16, each []int16) {
	done := make(chan struct{})
	c.DeleteOffsets(group, list, func(c int16, e []int16) { code, each = c, e; close(done) })
	<-done
	return code, each
}

// Members whose session ends leave their partitions to the others; offsets of topics that nobody reads any more expire, and in the end
// the group itself.
func TestConsumerGroupsExpire(t *testing.T) {
	l := &journaltest.Log{}
	now := time.Unix(1_000_000, 0)
	var mu sync.Mutex
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	opts := consumerOptions()
	opts.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	opts.OffsetsRetention, opts.ExpiryInterval = time.Hour, time.Millisecond
	opts.Consumer.SessionTimeout = 30 * time.Minute
	c, stop := run(l, opts)
	defer stop()
	beat(c, "g", joinAs("m1", "a"))
	beat(c, "g", joinAs("m2", "a"))
	for _, topic := range []string{"a", "b"} {
		if code := commitAs(c, CommitRequest{Group: "g", MemberID: "m2", Generation: 2, MemberEpochs: true, Offsets: offsetsOf(topic, 0)}); code != 0 {
			t.Fatal(code)
		}
	}
	pass(20 * time.Minute)
	beat(c, "g", beatAs("m2", 2))
	pass(11 * time.Minute) // m1 is gone
	dump(c)                // the tick follows this turn
	if r := beat(c, "g", beatAs("m2", 2)); r.Epoch != 3 || len(r.Assigned) != 4 {
		t.Fatalf("%+v", r)
	}
	await := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Second); len(fetch(c, "g", false).list) != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("offsets: %+v, want %d", fetch(c, "g", false), want)
			}
		}
	}
	await(2)
	pass(29*time.Minute + 30*time.Second)
	if r := beat(c, "g", beatAs("m2", 3)); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	await(1) // b is not read
	pass(31 * time.Minute)
	await(0) // nobody is left
	for deadline := time.Now().Add(5 * time.Second); len(dump(c)) > 0; time.Sleep(time.Millisecond) {
		if pass(time.Millisecond); time.Now().After(deadline) {
			t.Fatalf("the group is still there: %q", dump(c))
		}
	}
}
