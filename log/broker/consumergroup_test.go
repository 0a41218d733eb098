package broker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/rowtrail/rowtrail/log/broker/group"
	"github.com/rowtrail/rowtrail/log/broker/group/consumer"
)

func quickHeartbeats(o *Options) {
	o.Coordinators.Groups.Consumer = consumer.Limits{SessionTimeout: 2 * time.Second, HeartbeatInterval: 50 * time.Millisecond}
}

// Members of the consumer protocol come, leave and are cut off while records are produced, and topics that their expression
// matches are created meanwhile: every record is delivered, and the offsets end at the end of the topics.
func TestConsumerGroupMembersComeAndGo(t *testing.T) {
	for name, balancer := range map[string]kgo.GroupBalancer{"uniform": kgo.StickyBalancer(), "range": kgo.RangeBalancer()} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, quickHeartbeats)
			producer := s.client(t, true)
			const topics, each = 3, 1000
			topic := func(i int) string { return fmt.Sprintf("events-%d", i) }
			createTopic(t, producer, topic(0), 6)
			createTopic(t, producer, "other", 2)
			var y tally
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var wg sync.WaitGroup
			member := func() *kgo.Client {
				cl := s.client(t, false, kgo.ConsumerGroup("g"), kgo.ServerSideBalancer(), kgo.Balancers(balancer), kgo.ConsumeRegex(), kgo.ConsumeTopics("events-[0-9]"),
					kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll(),
					kgo.RebalanceTimeout(3*time.Second), kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(200*time.Millisecond))
				wg.Go(func() {
					for {
						fs := cl.PollFetches(ctx)
						if ctx.Err() != nil || fs.IsClientClosed() {
							cl.AllowRebalance()
							return
						}
						fs.EachRecord(func(r *kgo.Record) { y.add(r.Topic + string(r.Value)) })
						_ = cl.CommitUncommittedOffsets(ctx)
						cl.AllowRebalance()
					}
				})
				return cl
			}
			clients := []*kgo.Client{member()}
			for i := range topics {
				if i > 0 {
					createTopic(t, producer, topic(i), 3)
				}
				for j := range each {
					producer.Produce(ctx, &kgo.Record{Topic: topic(i), Key: fmt.Append(nil, j), Value: fmt.Append(nil, j)}, nil)
					if j%500 == 250 {
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
			}
			if err := producer.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			waitLong(t, "every record", func() bool { return y.count() == topics*each })
			adm := kadm.NewClient(producer)
			var d kadm.DescribedConsumerGroup
			waitLong(t, "a stable group", func() bool {
				groups, err := adm.DescribeConsumerGroups(ctx, "g")
				d = groups["g"]
				return err == nil && d.State == "Stable" && len(d.Members) == len(clients)
			})
			if d.Epoch != d.AssignmentEpoch || d.AssignorName != name {
				t.Errorf("described as %+v", d)
			}
			seen := map[string]bool{}
			for _, m := range d.Members {
				for topic, partitions := range m.Assignment {
					for p := range partitions {
						seen[fmt.Sprint(topic, p)] = true
					}
				}
			}
			if len(seen) != 6+3+3 {
				t.Errorf("%d partitions are assigned: %v", len(seen), seen)
			}
			waitLong(t, "the offsets", func() bool {
				sum := int64(0)
				for _, l := range s.GroupLags() {
					if l.Group != "g" || l.LagEvents != 0 || l.Members != len(clients) || l.State != "Stable" {
						return false
					}
					sum += l.Committed
				}
				return sum == topics*each
			})
			listed, err := adm.ListGroupsByType(ctx, []string{"Consumer"})
			if err != nil || len(listed) != 1 || listed["g"].GroupType != "consumer" || listed["g"].State != "Stable" {
				t.Errorf("listed: %+v, %v", listed, err)
			}
			if listed, err := adm.ListGroupsByType(ctx, []string{"classic"}); err != nil || len(listed) != 0 {
				t.Errorf("listed as classic: %+v, %v", listed, err)
			}
			stop()
			wg.Wait()
		})
	}
}

func ask848(t *testing.T, cl *kgo.Client, change func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatResponse {
	t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.RebalanceTimeoutMillis = "g", 5000
	req.SubscribedTopicNames, req.Topics = []string{"events"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	change(req)
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// What a heartbeat and a description say on the wire, and what the APIs of classic groups say of such a group.
func TestConsumerGroupOnTheWire(t *testing.T) {
	s := serve(t, quickHeartbeats)
	cl := s.client(t, true)
	createTopic(t, cl, "events", 2)
	none := func(*kmsg.ConsumerGroupHeartbeatRequest) {}
	if r := ask848(t, cl, none); r.ErrorCode != kerr.InvalidRequest.Code || r.ErrorMessage == nil {
		t.Errorf("a join without a member id: %+v", r)
	}
	old := s.client(t, true, kgo.MaxVersions(maxHeartbeat(0)))
	r := ask848(t, old, none)
	if r.ErrorCode != 0 || r.MemberID == nil || r.MemberEpoch != 1 || r.HeartbeatIntervalMillis != 50 || r.Assignment == nil ||
		len(r.Assignment.Topics) != 1 || !slices.Equal(r.Assignment.Topics[0].Partitions, []int32{0, 1}) {
		t.Fatalf("a join of version 0: %+v", r)
	}
	id := r.Assignment.Topics[0].TopicID
	if id != s.node.Catalog().Topics["events"].ID {
		t.Errorf("topic id %x", id)
	}
	keep := func(q *kmsg.ConsumerGroupHeartbeatRequest) {
		q.MemberID, q.MemberEpoch, q.RebalanceTimeoutMillis, q.SubscribedTopicNames, q.Topics = *r.MemberID, 1, -1, nil, nil
	}
	if again := ask848(t, cl, keep); again.ErrorCode != 0 || again.Assignment != nil || again.MemberEpoch != 1 {
		t.Errorf("a heartbeat that changes nothing: %+v", again)
	}

	adm := kadm.NewClient(cl)
	described, err := adm.DescribeConsumerGroups(t.Context(), "g", "nope")
	if err != nil {
		t.Fatal(err)
	}
	m := described["g"].Members
	if len(m) != 1 || m[0].MemberID != *r.MemberID || m[0].MemberEpoch != 1 || m[0].ClientHost == "" || !slices.Equal(m[0].SubscribedTopics, []string{"events"}) {
		t.Errorf("described: %+v", described["g"])
	}
	if described["nope"].Err == nil {
		t.Errorf("a group that is not known: %+v", described["nope"])
	}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{"g"}
	classic, err := describe.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	if g := classic.Groups[0]; g.State != "Dead" || g.ErrorCode != kerr.GroupIDNotFound.Code || *g.ErrorMessage != "Group g is not a classic group." {
		t.Errorf("described as a classic group: %+v", g)
	}
	// The topic grows and goes, and the member is told.
	if _, err := adm.CreatePartitions(t.Context(), 1, "events"); err != nil {
		t.Fatal(err)
	}
	if more := ask848(t, cl, keep); more.MemberEpoch != 2 || more.Assignment == nil || len(more.Assignment.Topics[0].Partitions) != 3 {
		t.Errorf("after a partition was added: %+v", more)
	}
	if _, err := adm.DeleteTopics(t.Context(), "events"); err != nil {
		t.Fatal(err)
	}
	gone := ask848(t, cl, func(q *kmsg.ConsumerGroupHeartbeatRequest) {
		keep(q)
		q.MemberEpoch, q.Topics = 2, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	})
	if gone.MemberEpoch != 3 || gone.Assignment == nil || len(gone.Assignment.Topics) != 0 {
		t.Errorf("after the topic was deleted: %+v", gone)
	}
}

// maxHeartbeat is the newest version of everything but ConsumerGroupHeartbeat.
func maxHeartbeat(version int16) *kversion.Versions {
	v := kversion.Tip()
	v.SetMaxKeyVersion(int16(kmsg.ConsumerGroupHeartbeat), version)
	return v
}

func TestAnExpressionMatchesInternalTopics(t *testing.T) {
	s := serve(t, quickHeartbeats)
	cl := s.client(t, true)
	createTopic(t, cl, "events", 1)
	expression := "__consumer_.*"
	r := ask848(t, cl, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.MemberID, r.SubscribedTopicNames, r.SubscribedTopicRegex = "m", nil, &expression
	})
	offsets, ok := s.node.Catalog().Topics[group.Topic]
	if !ok || r.ErrorCode != 0 || r.Assignment == nil || len(r.Assignment.Topics) != 1 ||
		r.Assignment.Topics[0].TopicID != offsets.ID || len(r.Assignment.Topics[0].Partitions) != len(offsets.Partitions) {
		t.Errorf("%s: %+v, want the partitions of %s", expression, r, group.Topic)
	}
}
