package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/log/broker/group/consumer"
	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/journal/journaltest"
	"github.com/rowtrail/rowtrail/log/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run drives a coordinator of one partition until the returned function is called.
func run(l *journaltest.Log, opts Options) (*Coordinator, func()) {
	c := New(opts)
	c.Open([]journal.Partition{l.Partition()})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(ctx) })
	for end := time.Now().Add(10 * time.Second); c.Serving("") == kerr.CoordinatorLoadInProgress.Code && time.Now().Before(end); {
		time.Sleep(50 * time.Microsecond)
	}
	return c, func() { cancel(); wg.Wait() }
}

func ask[T any](start func(reply func(T))) T {
	ch := make(chan T, 1)
	start(func(v T) { ch <- v })
	return <-ch
}

// dump is all that a coordinator knows: the records of its state, and what is pending.
func dump(c *Coordinator) map[string]string {
	return ask(func(reply func(map[string]string)) {
		first(c).j.Do(func(err error) {
			m := map[string]string{}
			if err != nil {
				m["error"] = err.Error()
				reply(m)
				return
			}
			first(c).State(func(r journal.Record) { m[string(r.Key)] = string(r.Value) })
			for id, k := range first(c).groups {
				for pid, offsets := range k.offsets.pending {
					for tp, o := range offsets {
						m[fmt.Sprintf("pending %s %d %v", id, pid, tp)] = fmt.Sprint(o)
					}
				}
			}
			reply(m)
		})
	})
}

type fetchResult struct {
	code int16
	list []Fetched
}

func fetch(c *Coordinator, id string, stable bool, list ...journal.TopicPartition) fetchResult {
	return ask(func(reply func(fetchResult)) {
		c.Fetch(FetchRequest{Group: id, MemberEpoch: -1, Partitions: list, Stable: stable}, func(code int16, list []Fetched) { reply(fetchResult{code, list}) })
	})
}

// Offsets behave as a map of the last committed ones, whatever the order of commits, transactions and deletions; and a
// load of the log at any moment finds the very state that the running coordinator has (invariant 8).
func TestOffsetsAreTheFoldOfTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &journaltest.Log{}
		rollover := int64(rapid.SampledFrom([]int{1 << 10, 1 << 30}).Draw(t, "rollover"))
		opts := Options{RolloverBytes: rollover, Limits: Limits{MinSessionTimeout: time.Millisecond}}
		c, stop := run(l, opts)
		defer func() { stop() }()
		type key struct {
			group string
			tp    journal.TopicPartition
		}
		committed := map[key]int64{}
		pending := map[int64]map[key]int64{}
		inUse := map[int64]bool{}
		id := rapid.SampledFrom([]string{"a", "b"})
		tp := rapid.Custom(func(t *rapid.T) journal.TopicPartition {
			return journal.TopicPartition{Topic: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "topic"), Partition: int32(rapid.IntRange(0, 2).Draw(t, "partition"))}
		})
		pid := rapid.Int64Range(1, 3)
		offset := rapid.Int64Range(0, 1000)
		commit := func(t *rapid.T, k key, at int64, p *journal.Producer) {
			_, epoch, _ := l.Leader()
			codes := ask(func(reply func([]int16)) {
				c.Commit(CommitRequest{Group: k.group, Generation: -1, Producer: p, LeaderEpoch: epoch,
					Offsets: []Offset{{k.tp, Committed{Offset: at, LeaderEpoch: 5, Metadata: "m"}}}}, reply)
			})
			if codes[0] != 0 {
				t.Fatalf("commit: %d", codes[0])
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"commit": func(t *rapid.T) {
				k, at := key{id.Draw(t, "group"), tp.Draw(t, "tp")}, offset.Draw(t, "offset")
				commit(t, k, at, nil)
				committed[k] = at
			},
			"txn": func(t *rapid.T) {
				k, at, p := key{id.Draw(t, "group"), tp.Draw(t, "tp")}, offset.Draw(t, "offset"), pid.Draw(t, "pid")
				commit(t, k, at, &journal.Producer{ID: p})
				if pending[p] == nil {
					pending[p] = map[key]int64{}
				}
				pending[p][k] = at
				inUse[p] = true
			},
			"marker": func(t *rapid.T) {
				p, ok := pid.Draw(t, "pid"), rapid.Bool().Draw(t, "commit")
				l.Put(record.EndTxn{ProducerID: p, Commit: ok}.Build(0))
				c.EndTxn(0, p, ok)
				if ok {
					for k, at := range pending[p] {
						committed[k] = at
					}
				}
				delete(pending, p)
			},
			"delete offset": func(t *rapid.T) {
				k := key{id.Draw(t, "group"), tp.Draw(t, "tp")}
				code := ask(func(reply func(int16)) {
					c.DeleteOffsets(k.group, []journal.TopicPartition{k.tp}, func(code int16, _ []int16) { reply(code) })
				})
				if code == 0 {
					delete(committed, k)
					for _, m := range pending {
						delete(m, k)
					}
				}
			},
			"delete group": func(t *rapid.T) {
				id := id.Draw(t, "group")
				code := ask(func(reply func(int16)) { c.Delete(id, reply) })
				known := false
				drop := func(m map[key]int64) {
					for k := range m {
						if k.group == id {
							known = true
							delete(m, k)
						}
					}
				}
				drop(committed)
				for _, m := range pending {
					drop(m)
				}
				if known && code != 0 {
					t.Fatalf("delete of a group without members: %d", code)
				}
			},
			"forget topic": func(t *rapid.T) {
				topic := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "topic")
				if code := ask(func(reply func(int16)) {
					c.ForgetTopics(func(name string) bool { return name == topic }, reply)
				}); code != 0 {
					t.Fatalf("forget: %d", code)
				}
				dump(c) // behind it in the mailbox
				for _, m := range append(slices.Collect(maps.Values(pending)), committed) {
					maps.DeleteFunc(m, func(k key, _ int64) bool { return k.tp.Topic == topic })
				}
			},
			"crash": func(t *rapid.T) {
				before := dump(c)
				stop()
				l = l.Copy()
				c, stop = run(l, opts)
				if d := cmp.Diff(before, dump(c)); d != "" {
					t.Fatalf("the load found another state:\n%s", d)
				}
			},
			"": func(t *rapid.T) {
				for _, g := range []string{"a", "b"} {
					res := fetch(c, g, true)
					if res.code != 0 {
						t.Fatalf("fetch: %d", res.code)
					}
					got := map[journal.TopicPartition]Fetched{}
					for _, f := range res.list {
						got[f.TopicPartition] = f
					}
					for _, topic := range []string{"x", "y"} {
						for p := range int32(3) {
							k := key{g, journal.TopicPartition{Topic: topic, Partition: p}}
							unstable := false
							for _, m := range pending {
								_, ok := m[k]
								unstable = unstable || ok
							}
							f, there := got[k.tp]
							at, ok := committed[k]
							switch {
							case unstable && !ok && !there: // all are those that were committed
							case unstable && f.Code != kerr.UnstableOffsetCommit.Code:
								t.Fatalf("%v is unstable and was answered %+v", k, f)
							case !unstable && there != ok, !unstable && ok && (f.Offset != at || f.LeaderEpoch != 5 || f.Metadata != "m"):
								t.Fatalf("%v is %d (%v) and was answered %+v (%v)", k, at, ok, f, there)
							}
						}
					}
				}
			},
		})
	})
}

// Members and their assignment are found again after a restart, and their sessions begin anew.
func TestGroupSurvivesRestart(t *testing.T) {
	l := &journaltest.Log{}
	now := time.Unix(1_000_000, 0)
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	opts := Options{Now: clock}
	c, stop := run(l, opts)
	member := joinOne(t, c, JoinRequest{InstanceID: "i", ClientID: "c", ClientHost: "/h", Session: 10 * time.Second,
		Rebalance: time.Minute, ProtocolType: "consumer", Protocols: []Protocol{{"range", []byte("meta")}}})
	before := dump(c)
	stop()
	mu.Lock()
	now = now.Add(time.Hour)
	mu.Unlock()
	l = l.Copy()
	c, stop = run(l, opts)
	defer func() { stop() }()
	if d := cmp.Diff(before, dump(c)); d != "" {
		t.Fatal(d)
	}
	type described struct {
		code int16
		d    Description
	}
	got := ask(func(reply func(described)) {
		c.Describe("g", func(code int16, d Description) { reply(described{code, d}) })
	})
	want := Description{Group: "g", ProtocolType: "consumer", Protocol: "range", State: Stable,
		Members: []MemberDescription{{MemberID: member, InstanceID: "i", ClientID: "c", ClientHost: "/h", Metadata: []byte("meta"), Assignment: []byte("mine")}}}
	if d := cmp.Diff(described{0, want}, got, cmp.AllowUnexported(described{})); d != "" {
		t.Fatal(d)
	}
	if code := ask(func(reply func(int16)) { c.Heartbeat("g", member, "i", 1, reply) }); code != 0 {
		t.Fatalf("heartbeat after the restart: %d", code)
	}
}

func joinOne(t testing.TB, c *Coordinator, r JoinRequest) string {
	t.Helper()
	res := ask(func(reply func(JoinResult)) { c.Join("g", r, reply) })
	if res.Code != 0 || res.Leader != res.MemberID {
		t.Fatalf("join: %+v", res)
	}
	sres := ask(func(reply func(SyncResult)) {
		c.Sync("g", SyncRequest{MemberID: res.MemberID, InstanceID: r.InstanceID, Generation: res.Generation,
			Assignments: map[string][]byte{res.MemberID: []byte("mine")}}, reply)
	})
	if sres.Code != 0 || string(sres.Assignment) != "mine" {
		t.Fatalf("sync: %+v", sres)
	}
	return res.MemberID
}

// Invariant 1: an assignment and a commit are answered when they are committed, not before.
func TestAnswersWaitForTheLog(t *testing.T) {
	l := &journaltest.Log{}
	c, stop := run(l, Options{})
	defer stop()
	res := ask(func(reply func(JoinResult)) {
		c.Join("g", JoinRequest{Session: 10 * time.Second, Rebalance: time.Minute, ProtocolType: "consumer", Protocols: []Protocol{{"range", nil}}}, reply)
	})
	l.Hold()
	synced := make(chan SyncResult, 1)
	c.Sync("g", SyncRequest{MemberID: res.MemberID, Generation: 1, Assignments: map[string][]byte{res.MemberID: []byte("a")}},
		func(r SyncResult) { synced <- r })
	committed := make(chan []int16, 1)
	c.Commit(CommitRequest{Group: "other", Generation: -1, Offsets: []Offset{{journal.TopicPartition{Topic: "t", Partition: 0}, Committed{Offset: 3}}}},
		func(codes []int16) { committed <- codes })
	if f := fetch(c, "other", false, journal.TopicPartition{Topic: "t", Partition: 0}); f.list[0].Offset != -1 {
		t.Fatalf("an offset was answered before it was committed: %+v", f)
	}
	select {
	case <-synced:
		t.Fatal("the assignment was given out before it was committed")
	case <-committed:
		t.Fatal("the commit was answered before it was committed")
	case <-time.After(20 * time.Millisecond):
	}
	l.Flow()
	if r := <-synced; r.Code != 0 || string(r.Assignment) != "a" {
		t.Fatalf("%+v", r)
	}
	if codes := <-committed; codes[0] != 0 {
		t.Fatalf("%v", codes)
	}
	if f := fetch(c, "other", false, journal.TopicPartition{Topic: "t", Partition: 0}); f.list[0].Offset != 3 {
		t.Fatalf("%+v", f)
	}
}

// expiring are options by which offsets are kept for an hour of a clock that pass alone moves.
func expiring() (opts Options, pass func(time.Duration)) {
	now := time.Unix(1_000_000, 0)
	var mu sync.Mutex
	pass = func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	return Options{Now: clock, OffsetsRetention: time.Hour, ExpiryInterval: time.Millisecond}, pass
}

func TestOffsetsExpire(t *testing.T) {
	l := &journaltest.Log{}
	opts, pass := expiring()
	c, stop := run(l, opts)
	defer stop()
	commit := func(id string) {
		codes := ask(func(reply func([]int16)) {
			c.Commit(CommitRequest{Group: id, Generation: -1, Offsets: []Offset{{journal.TopicPartition{Topic: "t", Partition: 0}, Committed{Offset: 3}}}}, reply)
		})
		if codes[0] != 0 {
			t.Fatal(codes)
		}
	}
	commit("old")
	pass(40 * time.Minute)
	commit("new")
	pass(40 * time.Minute)
	deadline := time.Now().Add(5 * time.Second)
	for len(dump(c)) != 1 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if f := fetch(c, "old", false); len(f.list) != 0 {
		t.Errorf("the old offset is still there: %+v", f)
	}
	if f := fetch(c, "new", false); len(f.list) != 1 {
		t.Errorf("the new offset is gone")
	}
}

// An offset that was committed with a retention of its own expires by it, sooner or later than others, also after a restart.
func TestOffsetsWithTheirOwnRetentionExpireByIt(t *testing.T) {
	l := &journaltest.Log{}
	opts, pass := expiring()
	c, stop := run(l, opts)
	member := joinOne(t, c, JoinRequest{Session: time.Minute, Rebalance: time.Minute, ProtocolType: "consumer", Protocols: []Protocol{{"range", nil}}})
	for partition, retention := range map[int32]time.Duration{0: 0, 1: time.Minute, 2: 5 * time.Hour} {
		codes := ask(func(reply func([]int16)) {
			c.Commit(CommitRequest{Group: "g", MemberID: member, Generation: 1, Retention: retention,
				Offsets: []Offset{{journal.TopicPartition{Topic: "t", Partition: partition}, Committed{Offset: 3, LeaderEpoch: -1, Metadata: "m"}}}}, reply)
		})
		if codes[0] != 0 {
			t.Fatal(codes)
		}
	}
	if _, each := askLeave(c, "g", member); each[0] != 0 {
		t.Fatal(each)
	}
	stop()
	c, stop = run(l, opts)
	defer func() { stop() }()
	left := func() (list []int32) {
		for _, f := range fetch(c, "g", false).list {
			if f.Offset != 3 || f.Metadata != "m" {
				t.Fatalf("%+v", f)
			}
			list = append(list, f.Partition)
		}
		return list
	}
	for _, step := range []struct {
		pass time.Duration
		want string
	}{{0, "[0 1 2]"}, {2 * time.Minute, "[0 2]"}, {time.Hour, "[2]"}, {4 * time.Hour, "[]"}} {
		pass(step.pass)
		for deadline := time.Now().Add(5 * time.Second); fmt.Sprint(left()) != step.want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("after %s more: %v, want %s", step.pass, left(), step.want)
			}
		}
	}
}

// While a group has members, offsets of topics that one of them reads stay, however old; others age from their commit on. Once the
// last member has left, all of them age from then on.
func TestOffsetsOfGroupsWithMembersExpire(t *testing.T) {
	l := &journaltest.Log{}
	opts, pass := expiring()
	c, stop := run(l, opts)
	defer stop()
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{"read"}
	member := joinOne(t, c, JoinRequest{Session: 20 * time.Minute, Rebalance: time.Minute, ProtocolType: "consumer",
		Protocols: []Protocol{{"range", meta.AppendTo(nil)}}})
	codes := ask(func(reply func([]int16)) {
		c.Commit(CommitRequest{Group: "g", MemberID: member, Generation: 1, Offsets: []Offset{
			{journal.TopicPartition{Topic: "read", Partition: 0}, Committed{Offset: 1}}, {journal.TopicPartition{Topic: "left", Partition: 0}, Committed{Offset: 2}}}}, reply)
	})
	if codes[0] != 0 || codes[1] != 0 {
		t.Fatal(codes)
	}
	await := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Second); len(fetch(c, "g", false).list) != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("offsets: %+v, want %d", fetch(c, "g", false), want)
			}
		}
	}
	for range 8 {
		await(2)
		pass(9 * time.Minute)
		if code := ask(func(reply func(int16)) { c.Heartbeat("g", member, "", 1, reply) }); code != 0 {
			t.Fatalf("heartbeat: %d", code)
		}
		if opts.Now().Sub(time.Unix(1_000_000, 0)) > time.Hour {
			break
		}
	}
	await(1)
	if f := fetch(c, "g", false).list[0]; f.Topic != "read" {
		t.Fatalf("%+v stayed", f)
	}
	if _, each := askLeave(c, "g", member); each[0] != 0 {
		t.Fatal(each)
	}
	pass(50 * time.Minute)
	dump(c)
	await(1)
	pass(11 * time.Minute)
	await(0)
}

func askLeave(c *Coordinator, group, member string) (code int16, each []int16) {
	done := make(chan struct{})
	c.Leave(group, []Leaver{{MemberID: member}}, func(c int16, e []int16) { code, each = c, e; close(done) })
	<-done
	return code, each
}

// Who is no member may commit to a group without members only, whatever member id it names, unless in a transaction.
func TestCommitOfNonMembers(t *testing.T) {
	l := &journaltest.Log{}
	c, stop := run(l, Options{})
	defer stop()
	commit := func(r CommitRequest) int16 {
		r.Group, r.Offsets = "g", []Offset{{journal.TopicPartition{Topic: "t", Partition: 0}, Committed{Offset: 3}}}
		return ask(func(reply func([]int16)) { c.Commit(r, reply) })[0]
	}
	if code := commit(CommitRequest{Generation: 0, MemberID: "m"}); code != kerr.IllegalGeneration.Code {
		t.Errorf("a generation of a group that is not known: %d", code)
	}
	for range 2 { // the group is not known at first, then empty
		if code := commit(CommitRequest{Generation: -1, MemberID: "m"}); code != 0 {
			t.Errorf("without a generation: %d", code)
		}
	}
	member := joinOne(t, c, JoinRequest{Session: 10 * time.Second, Rebalance: time.Minute, ProtocolType: "consumer", Protocols: []Protocol{{"range", nil}}})
	for _, tc := range []struct {
		name string
		r    CommitRequest
		want int16
	}{
		{"nobody", CommitRequest{Generation: -1}, kerr.UnknownMemberID.Code},
		{"another member", CommitRequest{Generation: 1, MemberID: "m"}, kerr.UnknownMemberID.Code},
		{"an old generation", CommitRequest{Generation: 0, MemberID: member}, kerr.IllegalGeneration.Code},
		{"a producer that knows no generation", CommitRequest{Generation: -1, Producer: &journal.Producer{ID: 7}}, 0},
		{"the member", CommitRequest{Generation: 1, MemberID: member}, 0},
	} {
		if code := commit(tc.r); code != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, code, tc.want)
		}
	}
}

// A group that is too large for its record is refused by itself; its neighbours do not notice.
func TestGroupTooLarge(t *testing.T) {
	l := &journaltest.Log{}
	c, stop := run(l, Options{})
	defer stop()
	res := ask(func(reply func(JoinResult)) {
		c.Join("big", JoinRequest{Session: 10 * time.Second, Rebalance: time.Minute, ProtocolType: "consumer", Protocols: []Protocol{{"range", nil}}}, reply)
	})
	sres := ask(func(reply func(SyncResult)) {
		c.Sync("big", SyncRequest{MemberID: res.MemberID, Generation: 1,
			Assignments: map[string][]byte{res.MemberID: make([]byte, maxGroupBytes)}}, reply)
	})
	if sres.Code != kerr.UnknownServerError.Code || len(l.Batches()) != 0 {
		t.Fatalf("code %d, %d batches", sres.Code, len(l.Batches()))
	}
	joinOne(t, c, JoinRequest{Session: 10 * time.Second, Rebalance: time.Minute, ProtocolType: "consumer", Protocols: []Protocol{{"range", nil}}})
}

func TestInitialRebalanceDelayCollectsMembers(t *testing.T) {
	limits := Limits{InitialRebalanceDelay: 3 * time.Second}.withDefaults()
	h := &modelHost{}
	now := time.Unix(1_000_000, 0)
	g := newGroup("g", &limits, h, now)
	var got []JoinResult
	for range 3 {
		g.Join(JoinRequest{Session: 10 * time.Second, Rebalance: time.Minute, ProtocolType: "p", Protocols: []Protocol{{"x", nil}}}, now,
			func(r JoinResult) { got = append(got, r) })
		now = now.Add(2 * time.Second)
		g.Tick(now)
	}
	if len(got) != 0 {
		t.Fatalf("answered early: %+v", got)
	}
	if want := now.Add(time.Second); !g.Deadline().Equal(want) {
		t.Fatalf("deadline %v, not %v", g.Deadline(), want)
	}
	g.Tick(g.Deadline())
	if len(got) != 3 || got[0].Generation != 1 || len(got[0].Members) != 3 {
		t.Fatalf("%+v", got)
	}
}

// The group of the log's own nodes neither waits for more members nor is bound by what clients may ask for.
func TestOwnGroupIsNotBound(t *testing.T) {
	limits := Limits{InitialRebalanceDelay: 3 * time.Second, MinSessionTimeout: 10 * time.Second, Own: "own"}.withDefaults()
	now := time.Unix(1_000_000, 0)
	for id, want := range map[string]int16{"own": 0, "g": kerr.InvalidSessionTimeout.Code} {
		g := newGroup(id, &limits, &modelHost{}, now)
		var got []JoinResult
		g.Join(JoinRequest{Session: 6 * time.Second, Rebalance: time.Minute, ProtocolType: "p", Protocols: []Protocol{{"x", nil}}}, now,
			func(r JoinResult) { got = append(got, r) })
		g.Tick(now)
		if len(got) != 1 || got[0].Code != want {
			t.Errorf("group %s: %+v", id, got)
		}
	}
}

// Whatever a record holds, folding it ends with an entry or an error.
func FuzzRecords(f *testing.F) {
	r := offsetRecord("g", Offset{journal.TopicPartition{Topic: "t", Partition: 1}, Committed{Offset: 4, Metadata: "m"}})
	f.Add(r.Key, r.Value)
	limits := Limits{}.withDefaults()
	g := newGroup("g", &limits, &modelHost{}, time.Unix(0, 0))
	g.Join(JoinRequest{Session: 10 * time.Second, ProtocolType: "p", Protocols: []Protocol{{"x", []byte("y")}}}, time.Unix(0, 0), func(JoinResult) {})
	r = g.record()
	f.Add(r.Key, r.Value)
	f.Add([]byte{0, 9}, []byte(nil))
	consumers := consumer.New("g", func() consumer.Limits { return consumer.Limits{MaxMembers: 1} })
	join := joinAs("m", "a")
	_, records := consumers.Heartbeat(&join, consumerTopics(), time.Unix(0, 0))
	for _, r := range records {
		f.Add(r.Key, r.Value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		c := &Coordinator{opts: Options{}.withDefaults()}
		s := &shard{c: c}
		s.j = journal.New(journal.Options{})
		s.Reset(0)
		for _, txn := range []bool{false, true} {
			err := s.Apply(journal.Batch{Transactional: txn, Records: []journal.Record{{Key: key, Value: value}}})
			if err == nil {
				s.Loaded(time.Unix(0, 0))
				s.State(func(journal.Record) {})
			} else if errors.Unwrap(err) == nil {
				t.Fatalf("the error says nothing: %v", err)
			}
		}
	})
}

// first is the coordinator's only shard.
func first(c *Coordinator) *shard {
	s, _ := c.shards.At(0)
	return s
}
