package broker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/record"
)

// TestHandOversNameTheNextLeader: whatever was on its way to a leader that hands over is answered with who leads next, so that no client has to wait
// for metadata.
func TestHandOversNameTheNextLeader(t *testing.T) {
	c := serveCluster(t, 3)
	cl := c.client()
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), 1, 3, nil, "t"); err != nil {
		t.Fatal(err)
	}
	md, err := adm.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := md["t"].ID
	var over atomic.Bool
	var misled, unnamed [2]atomic.Int32
	ask := func(kind int, lead *clusterBroker) {
		var code int16
		var hint int32
		if kind == 0 {
			code, hint = produceOnce(t, cl, lead.id, id)
		} else {
			_, epoch, _ := lead.node.LeaderOf(lead.node.Catalog().Topics["t"], 0)
			code, hint = fetchOnce(t, cl, lead.id, id, epoch)
		}
		if code != kerr.NotLeaderForPartition.Code && code != kerr.FencedLeaderEpoch.Code {
			return
		}
		misled[kind].Add(1)
		if hint < 0 {
			unnamed[kind].Add(1)
		}
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for !over.Load() {
				ask(i%2, c.leader("t", 0))
			}
		})
	}
	for i := range 12 {
		nodes := []int32{int32(i%3) + 1, int32((i+1)%3) + 1, int32((i+2)%3) + 1}
		if err := c.nodes[0].node.Reassign(t.Context(), "t", 0, nodes); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(20 * time.Second); c.leader("t", 0).id != nodes[0]; {
			if time.Now().After(deadline) {
				t.Fatalf("node %d does not lead", nodes[0])
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	over.Store(true)
	wg.Wait()
	for kind, name := range []string{"produce", "fetch"} {
		t.Logf("%s: %d were at the wrong node", name, misled[kind].Load())
		if misled[kind].Load() == 0 || unnamed[kind].Load() > 0 {
			t.Errorf("%s: %d of %d answers name no leader", name, unnamed[kind].Load(), misled[kind].Load())
		}
	}
}

func produceOnce(t *testing.T, cl *kgo.Client, node int32, id [16]byte) (code int16, hint int32) {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = "t", id
	rp := kmsg.NewProduceRequestTopicPartition()
	var b record.Builder
	b.Append(time.Now().UnixMilli(), nil, []byte("x"))
	rp.Records = b.Build(nil)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := cl.Broker(int(node)).Request(t.Context(), req)
	if err != nil {
		t.Errorf("produce: %v", err)
		return 0, 0
	}
	p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return p.ErrorCode, p.CurrentLeader.LeaderID
}

func fetchOnce(t *testing.T, cl *kgo.Client, node int32, id [16]byte, epoch int32) (code int16, hint int32) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 2000, 1<<20, 1<<20
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = "t", id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.FetchOffset, rp.PartitionMaxBytes = 0, 1<<10
	rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = epoch, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := cl.Broker(int(node)).Request(t.Context(), req)
	if err != nil {
		t.Errorf("fetch: %v", err)
		return 0, 0
	}
	p := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	return p.ErrorCode, p.CurrentLeader.LeaderID
}
