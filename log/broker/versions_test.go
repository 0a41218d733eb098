package broker

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/rowtrail/rowtrail/log/broker/group"
)

// Clients of every age form groups and run transactions.
func TestCoordinatorsServeOldClients(t *testing.T) {
	s := serve(t, shortSessions)
	for name, v := range map[string]*kversion.Versions{
		"0.11": kversion.V0_11_0(), "1.0": kversion.V1_0_0(), "2.0": kversion.V2_0_0(), "2.2": kversion.V2_2_0(), "2.4": kversion.V2_4_0(),
		"2.8": kversion.V2_8_0(), "3.5": kversion.V3_5_0(), "3.9": kversion.V3_9_0(), "4.0": kversion.V4_0_0(), "newest": kversion.Stable(),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := within(t, 30*time.Second)
			topic, id := "events-"+name, "g-"+name
			createTopic(t, s.client(t, true), topic, 2)
			old := kgo.MaxVersions(v)
			cl := s.client(t, true, old, kgo.TransactionalID("t-"+name))
			begin(t, cl)
			produceAll(t, cl, topic, "a", "b")
			end(t, cl, kgo.TryAbort)
			begin(t, cl)
			produceAll(t, cl, topic, "c", "d")
			end(t, cl, kgo.TryCommit)

			sess, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(s.addr), old, kgo.TransactionalID("s-"+name),
				kgo.ConsumerGroup(id), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			if err != nil {
				t.Fatal(err)
			}
			defer sess.Close()
			var got []string
			for len(got) < 2 {
				fs := sess.PollFetches(ctx)
				if err := fs.Err0(); err != nil {
					t.Fatal(err)
				}
				if err := sess.Begin(); err != nil {
					t.Fatal(err)
				}
				fs.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
				if ok, err := sess.End(ctx, kgo.TryCommit); err != nil || !ok {
					t.Fatalf("end: %v, %v", ok, err)
				}
			}
			if slices.Sort(got); fmt.Sprint(got) != "[c d]" {
				t.Fatalf("read %v", got)
			}
			adm := kadm.NewClient(s.client(t, true, old))
			waitFor(t, "the offsets", func() bool {
				offsets, err := adm.FetchOffsets(ctx, id)
				return err == nil && len(offsets.Offsets()[topic]) > 0
			})
			d, err := adm.DescribeGroups(ctx, id)
			if g := d[id]; err != nil || g.State != "Stable" || len(g.Members) != 1 {
				t.Fatalf("described: %+v, %v", d, err)
			}
			if l, err := adm.ListGroups(ctx); err != nil || l[id].ProtocolType != "consumer" {
				t.Fatalf("listed: %+v, %v", l, err)
			}
		})
	}
}

// The log of offsets stays bounded, and loads to the same offsets.
func TestOffsetsTopicStaysSmall(t *testing.T) {
	dir := t.TempDir()
	small := func(o *Options) {
		o.Coordinators.Groups.RolloverBytes = 8 << 10
		o.Coordinators.GroupPartitions = 1
	}
	l := live(t, dir, small)
	cl := l.client(t)
	createTopic(t, cl, "events", 1)
	ctx := within(t, 30*time.Second)
	commit := func(adm *kadm.Client, at int64) {
		var os kadm.Offsets
		os.Add(kadm.Offset{Topic: "events", At: at, LeaderEpoch: -1})
		if res, err := adm.CommitOffsets(ctx, "g", os); err != nil || res.Error() != nil {
			t.Fatal(res, err)
		}
	}
	adm := kadm.NewClient(cl)
	for i := range int64(400) {
		commit(adm, i)
	}
	cl.Close()
	start := func() int64 {
		r, err := l.node.Replica(group.Topic, 0)
		if err != nil {
			t.Fatal(err)
		}
		return r.Log().Marks().LogStart
	}
	waitFor(t, "the start to move", func() bool { return start() > 100 })
	l.end(t)
	l = live(t, dir, small)
	defer l.end(t)
	cl = l.client(t)
	defer cl.Close()
	got, err := kadm.NewClient(cl).FetchOffsets(ctx, "g")
	if o, _ := got.Lookup("events", 0); err != nil || o.At != 399 {
		t.Fatalf("%+v, %v", o, err)
	}
	if start() == 0 {
		t.Error("the log starts at 0 again")
	}
}

// Clients of versions 2 to 4 may say how long an offset is kept.
func TestOldCommitsExpireWhenTheySay(t *testing.T) {
	s := serve(t, func(o *Options) { o.Coordinators.Groups.ExpiryInterval = time.Millisecond })
	create(t, s, "t", 3, nil)
	c := dial(t, s.addr)
	commit := func(version int16, partition int32, retention int64) {
		t.Helper()
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation, req.RetentionTimeMillis = version, "g", -1, retention
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic = "t"
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset = partition, 7
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		if p := askRaw[*kmsg.OffsetCommitResponse](t, c, req).Topics[0].Partitions[0]; p.ErrorCode != 0 {
			t.Fatalf("version %d: %+v", version, p)
		}
	}
	commit(2, 0, -1)
	commit(4, 1, math.MaxInt64)
	commit(5, 2, 1) // has no such field
	adm := kadm.NewClient(s.client(t, true))
	committed := func() (list []int32) {
		offsets, err := adm.FetchOffsets(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range offsets.Sorted() {
			list = append(list, o.Partition)
		}
		return list
	}
	for version := int16(2); version <= 4; version++ {
		commit(version, 0, 1)
		waitFor(t, "the offset to expire", func() bool { return fmt.Sprint(committed()) == "[1 2]" })
	}
}
