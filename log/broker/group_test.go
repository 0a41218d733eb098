package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group"
)

func shortSessions(o *Options) {
	o.Coordinators.Groups.Limits = group.Limits{MinSessionTimeout: 100 * time.Millisecond}
}

// tally counts how often each value was delivered.
type tally struct {
	mu   sync.Mutex
	seen map[string]int
}

func (y *tally) add(v string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.seen == nil {
		y.seen = map[string]int{}
	}
	y.seen[v]++
}

func (y *tally) count() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.seen)
}

func memberOpts(groupID, topic string, more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{kgo.ConsumerGroup(groupID), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(2 * time.Second), kgo.HeartbeatInterval(200 * time.Millisecond), kgo.RebalanceTimeout(3 * time.Second),
	}, more...)
}

// Members come, leave and are cut off while records are produced: every record is delivered, and the offsets end at
// the end of the topic.
func TestGroupMembersComeAndGo(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{
		"cooperative": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
		"eager":       {kgo.Balancers(kgo.RangeBalancer())},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, shortSessions)
			producer := s.client(t, true)
			createTopic(t, producer, "events", 6)
			const total = 3000
			var y tally
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			member := func() *kgo.Client {
				cl := s.client(t, false, memberOpts("g", "events", opts...)...)
				wg.Go(func() {
					for {
						fs := cl.PollFetches(ctx)
						if ctx.Err() != nil || fs.IsClientClosed() {
							cl.AllowRebalance()
							return
						}
						fs.EachRecord(func(r *kgo.Record) { y.add(string(r.Value)) })
						_ = cl.CommitUncommittedOffsets(ctx)
						cl.AllowRebalance()
					}
				})
				return cl
			}
			clients := []*kgo.Client{member()}
			for i := range total {
				producer.Produce(ctx, &kgo.Record{Topic: "events", Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)}, nil)
				if i%500 == 250 {
					if err := producer.Flush(ctx); err != nil {
						t.Fatal(err)
					}
					clients = append(clients, member())
					if len(clients) > 3 {
						clients[0].Close()
						clients = clients[1:]
					}
				}
			}
			if err := producer.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			waitLong(t, "every record", func() bool { return y.count() == total })
			adm := kadm.NewClient(producer)
			waitLong(t, "the offsets", func() bool {
				lags, err := adm.Lag(ctx, "g")
				g := lags["g"]
				return err == nil && g.Error() == nil && g.Lag.Total() == 0 && g.State == "Stable"
			})
			sum := int64(0)
			for _, l := range s.GroupLags() {
				if l.Group != "g" || l.Topic != "events" || l.LagEvents != 0 || l.Members != len(clients) {
					t.Errorf("lag: %+v", l)
				}
				sum += l.Committed
			}
			if sum != total {
				t.Errorf("offsets add up to %d, not %d", sum, total)
			}
			stop()
			wg.Wait()
		})
	}
}

func waitLong(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// A static member that comes back under its name within its session gets its partitions without a rebalance; a second
// one with that name fences the first.
func TestGroupStaticMembers(t *testing.T) {
	s := serve(t, shortSessions)
	adm := kadm.NewClient(s.client(t, true))
	createTopic(t, s.client(t, true), "events", 4)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	start := func(instance string) *kgo.Client {
		cl := s.client(t, false, memberOpts("g", "events", kgo.InstanceID(instance), kgo.SessionTimeout(20*time.Second))...)
		go func() {
			for ctx.Err() == nil {
				fs := cl.PollFetches(ctx)
				cl.AllowRebalance()
				if fs.IsClientClosed() {
					return
				}
			}
		}()
		return cl
	}
	stable := func(members int) kadm.DescribedGroup {
		var g kadm.DescribedGroup
		waitLong(t, "a stable group", func() bool {
			d, err := adm.DescribeGroups(ctx, "g")
			g = d["g"]
			// A cooperative rebalance is over when everybody has partitions: the first of its two generations takes some away.
			idle := slices.ContainsFunc(g.Members, func(m kadm.DescribedGroupMember) bool {
				c, ok := m.Assigned.AsConsumer()
				return !ok || len(c.Topics) == 0
			})
			return err == nil && g.State == "Stable" && len(g.Members) == members && !idle
		})
		return g
	}
	a := start("a")
	start("b")
	before := stable(2)
	assigned := func(g kadm.DescribedGroup) map[string]string {
		m := map[string]string{}
		for _, mem := range g.Members {
			c, _ := mem.Assigned.AsConsumer()
			m[*mem.InstanceID] = fmt.Sprint(c.Topics)
		}
		return m
	}
	a.Close() // leaves nothing: static members do not leave
	start("a")
	var after kadm.DescribedGroup
	waitLong(t, "the member's return", func() bool {
		after = stable(2)
		return fmt.Sprint(memberIDs(after)) != fmt.Sprint(memberIDs(before))
	})
	if x, y := assigned(before), assigned(after); x["a"] != y["a"] || x["b"] != y["b"] {
		t.Fatalf("assignments changed from %v to %v", x, y)
	}

	// Heartbeats of the replaced member are fenced.
	hb := kmsg.NewPtrHeartbeatRequest()
	hb.Group, hb.MemberID, hb.InstanceID, hb.Generation = "g", memberIDs(before)["a"], kmsg.StringPtr("a"), 1
	resp, err := hb.RequestWith(ctx, s.client(t, true))
	if err != nil || resp.ErrorCode != kerr.FencedInstanceID.Code {
		t.Fatalf("heartbeat of the replaced member: %v, %v", resp, err)
	}

	// An admin removes a static member by its instance id.
	left, err := adm.LeaveGroup(ctx, kadm.LeaveGroup("g").InstanceIDs("b"))
	if err != nil || left["b"].Err != nil {
		t.Fatalf("leave: %v, %v", left, err)
	}
}

func memberIDs(g kadm.DescribedGroup) map[string]string {
	m := map[string]string{}
	for _, mem := range g.Members {
		m[*mem.InstanceID] = mem.MemberID
	}
	return m
}

func TestGroupOffsets(t *testing.T) {
	s := serve(t)
	cl := s.client(t, true)
	adm := kadm.NewClient(cl)
	ctx := within(t, 30*time.Second)
	createTopic(t, cl, "a", 2)
	createTopic(t, cl, "b", 1)

	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: "a", Partition: 0, At: 10, LeaderEpoch: 3, Metadata: "note"})
	os.Add(kadm.Offset{Topic: "a", Partition: 1, At: 11, LeaderEpoch: -1})
	os.Add(kadm.Offset{Topic: "b", Partition: 0, At: 12, LeaderEpoch: -1})
	os.Add(kadm.Offset{Topic: "missing", Partition: 0, At: 1, LeaderEpoch: -1})
	os.Add(kadm.Offset{Topic: "b", Partition: 7, At: 1, LeaderEpoch: -1})
	big := make([]byte, 5000)
	for i := range big {
		big[i] = 'x'
	}
	res, err := adm.CommitOffsets(ctx, "g", os)
	if err != nil {
		t.Fatal(err)
	}
	for tp, want := range map[string]error{"a0": nil, "a1": nil, "b0": nil, "missing0": kerr.UnknownTopicOrPartition, "b7": kerr.UnknownTopicOrPartition} {
		r, _ := res.Lookup(tp[:len(tp)-1], int32(tp[len(tp)-1]-'0'))
		if !errors.Is(r.Err, want) {
			t.Errorf("%s: %v", tp, r.Err)
		}
	}
	var tooMuch kadm.Offsets
	tooMuch.Add(kadm.Offset{Topic: "a", Partition: 0, At: 99, Metadata: string(big)})
	res, err = adm.CommitOffsets(ctx, "g", tooMuch)
	if r, _ := res.Lookup("a", 0); err != nil || !errors.Is(r.Err, kerr.OffsetMetadataTooLarge) {
		t.Errorf("metadata of 5000 bytes: %v, %v", r.Err, err)
	}
	got, err := adm.FetchOffsets(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := got.Lookup("a", 0); o.At != 10 || o.LeaderEpoch != 3 || o.Metadata != "note" {
		t.Errorf("a-0 came back as %+v", o)
	}
	if o, _ := got.Lookup("a", 1); o.At != 11 || o.LeaderEpoch != -1 {
		t.Errorf("a-1 came back as %+v", o)
	}

	// Offsets of a deleted topic go with it, and are not found under a new topic of that name.
	if _, err := adm.DeleteTopics(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	createTopic(t, cl, "b", 1)
	waitFor(t, "the offsets of the deleted topic to go", func() bool {
		got, err := adm.FetchOffsets(ctx, "g")
		_, there := got.Lookup("b", 0)
		return err == nil && !there
	})

	var set kadm.TopicsSet
	set.Add("a", 1)
	if res, err := adm.DeleteOffsets(ctx, "g", set); err != nil || res.Error() != nil {
		t.Fatalf("delete offsets: %v, %v", res, err)
	}
	got, _ = adm.FetchOffsets(ctx, "g")
	if _, there := got.Lookup("a", 1); there {
		t.Error("a-1 is still there")
	}
	set = kadm.TopicsSet{}
	set.Add("missing", 0)
	set.Add("a", 7)
	if res, err := adm.DeleteOffsets(ctx, "g", set); err != nil || !errors.Is(res["missing"][0], kerr.UnknownTopicOrPartition) ||
		!errors.Is(res["a"][7], kerr.UnknownTopicOrPartition) {
		t.Errorf("delete offsets of partitions that do not exist: %v, %v", res, err)
	}
	groups, err := adm.ListGroups(ctx)
	if err != nil || groups["g"].State != "Empty" {
		t.Errorf("list: %v, %v", groups, err)
	}
	if res, err := adm.DeleteGroup(ctx, "g"); err != nil || res.Err != nil {
		t.Fatalf("delete group: %v, %v", res, err)
	}
	if res, _ := adm.DeleteGroup(ctx, "g"); !errors.Is(res.Err, kerr.GroupIDNotFound) {
		t.Errorf("delete it again: %v", res.Err)
	}
	got, _ = adm.FetchOffsets(ctx, "g")
	if len(got) != 0 {
		t.Errorf("offsets of a deleted group: %v", got)
	}
}

// The pattern of exactly-once processing, with processors that come and go: offsets and output commit together.
func TestGroupTransactSession(t *testing.T) {
	s := serve(t, shortSessions)
	producer := s.client(t, true)
	createTopic(t, producer, "in", 4)
	createTopic(t, producer, "out", 4)
	const total = 8000
	for i := range total {
		producer.Produce(t.Context(), &kgo.Record{Topic: "in", Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)}, nil)
	}
	if err := producer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	// process runs for a while and is cut off in the middle of whatever it does.
	process := func(id string, life time.Duration) {
		ctx, cancel := context.WithTimeout(ctx, life)
		defer cancel()
		sess, err := kgo.NewGroupTransactSession(append(memberOpts("etl", "in"),
			kgo.SeedBrokers(s.addr), kgo.TransactionalID(id), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			// An instance that is cut off leaves its transaction open, and its input unstable, for so long.
			kgo.TransactionTimeout(2*time.Second),
			kgo.Balancers(kgo.CooperativeStickyBalancer()))...)
		if err != nil {
			t.Error(err)
			return
		}
		defer sess.Client().CloseAllowingRebalance()
		for ctx.Err() == nil {
			fs := sess.PollRecords(ctx, 50)
			if fs.IsClientClosed() || ctx.Err() != nil {
				sess.AllowRebalance()
				return
			}
			if err := sess.Begin(); err != nil {
				return
			}
			var failed atomic.Bool
			fs.EachRecord(func(r *kgo.Record) {
				sess.Produce(ctx, &kgo.Record{Topic: "out", Key: r.Key, Value: r.Value}, func(_ *kgo.Record, err error) {
					if err != nil {
						failed.Store(true)
					}
				})
			})
			_, err := sess.End(ctx, kgo.TransactionEndTry(!failed.Load() && rand.IntN(10) > 0))
			sess.AllowRebalance()
			if err != nil {
				return
			}
		}
	}
	for i := range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				process(fmt.Sprintf("etl-%d", i), 500*time.Millisecond+rand.N(time.Second))
			}
		})
	}
	adm := kadm.NewClient(producer)
	waitLong(t, "all input to be processed", func() bool {
		offsets, err := adm.FetchOffsets(ctx, "etl")
		if err != nil {
			return false
		}
		done := int64(0)
		offsets.Each(func(o kadm.OffsetResponse) { done += o.At })
		return done == total
	})
	stop()
	wg.Wait()
	out := readAll(t, s, "out", kgo.ReadCommitted())
	waitLong(t, "the last markers", func() bool {
		out = readAll(t, s, "out", kgo.ReadCommitted())
		return len(out) >= total
	})
	seen := map[string]int{}
	for _, v := range out {
		seen[v]++
	}
	if len(out) != total || len(seen) != total {
		t.Fatalf("%d records, %d different ones, of %d", len(out), len(seen), total)
	}
}

// librdkafka, by kcat: two members share a topic, commit, and the next one finds nothing left.
func TestGroupKcat(t *testing.T) {
	kcat, err := exec.LookPath("kcat")
	if err != nil {
		t.Skipf("kcat is not installed (apt-get install kcat): %v", err)
	}
	s := serve(t)
	cl := s.client(t, true)
	createTopic(t, cl, "events", 4)
	for i := range 500 {
		cl.Produce(t.Context(), &kgo.Record{Topic: "events", Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)}, nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	read := func() []string {
		ctx := within(t, 30*time.Second)
		cmd := exec.CommandContext(ctx, kcat, "-b", s.addr, "-G", "kcat", "-q", "-e", "-X", "auto.offset.reset=earliest", "events")
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("kcat: %v", err)
		}
		return strings.Fields(string(out))
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]bool{}
	for range 2 {
		wg.Go(func() {
			for _, v := range read() {
				mu.Lock()
				seen[v] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 500 {
		t.Fatalf("%d of 500 records were read", len(seen))
	}
	if rest := read(); len(rest) != 0 {
		t.Fatalf("%d records were read again", len(rest))
	}
	if d, err := kadm.NewClient(cl).DescribeGroups(t.Context(), "kcat"); err != nil || d["kcat"].State != "Empty" {
		t.Fatalf("%+v, %v", d, err)
	}
}

// A client that is cut off while it waits in JoinGroup does not lead the generation that comes of it.
func TestClientsThatAreGoneDoNotLead(t *testing.T) {
	s := serve(t, shortSessions)
	join := func(member string) *kmsg.JoinGroupRequest {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.MemberID, req.ProtocolType = 5, "g", member, "consumer"
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 300_000, 300_000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = "range"
		req.Protocols = append(req.Protocols, p)
		return req
	}
	ask := func(c net.Conn, member string) *kmsg.JoinGroupResponse {
		c.Write(request1(1, join(member)))
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.Version = 5
		if err := resp.ReadFrom(readFramed(t, c)[4:]); err != nil {
			t.Fatal(err)
		}
		return resp
	}
	first := dial(t, s.addr)
	one := ask(first, ask(first, "").MemberID)
	if one.ErrorCode != 0 || one.LeaderID != one.MemberID {
		t.Fatalf("%+v", one)
	}
	gone := dial(t, s.addr)
	id := ask(gone, "").MemberID
	gone.Write(request1(2, join(id)))
	members := func() (d group.Description) {
		ch := make(chan group.Description, 1)
		s.groups.Describe("g", func(_ int16, d group.Description) { ch <- d })
		return <-ch
	}
	waitFor(t, "it to wait", func() bool { return len(members().Members) == 2 })
	connections := s.Stats().Connections
	gone.Close()
	waitFor(t, "it to be gone", func() bool { return s.Stats().Connections < connections })
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = "g", one.MemberID
	first.Write(request1(3, leave))
	readFramed(t, first)
	// It keeps its place for a session, and has not joined.
	if d := members(); d.State != group.PreparingRebalance || len(d.Members) != 1 {
		t.Errorf("the group is %v with %d members", d.State, len(d.Members))
	}
	if resp := ask(dial(t, s.addr), id); resp.ErrorCode != 0 || resp.Generation != one.Generation+1 || resp.LeaderID != id {
		t.Errorf("it came back to %+v", resp)
	}
}
