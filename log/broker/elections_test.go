package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log"
)

// TestElectionsAreWaitedForOnce: an election is waited for while it is new, and a partition without a leader for long is not.
func TestElectionsAreWaitedForOnce(t *testing.T) {
	var e elections
	now := time.Now()
	for _, c := range []struct {
		after time.Duration
		epoch int32
		want  bool
	}{{0, 3, true}, {hintWait / 2, 3, true}, {hintWait, 3, false}, {time.Hour, 3, false}, {time.Hour, 4, true}, {time.Hour + hintWait, 4, false}} {
		if got := e.open(7, c.epoch, now.Add(c.after)); got != c.want {
			t.Errorf("epoch %d after %v: %v", c.epoch, c.after, got)
		}
	}
	e.over(7)
	if !e.open(7, 4, now.Add(2*time.Hour)) {
		t.Error("an election after one that is over is not waited for")
	}
	for i := range log.GroupID(3 * maxLeaderless) {
		e.open(i, 1, now)
	}
	if len(e.since) > maxLeaderless {
		t.Errorf("%d are remembered", len(e.since))
	}
}

// When more is lost than is remembered, nobody waits for it for ever.
func TestElectionsOfMoreThanAreRemembered(t *testing.T) {
	var e elections
	now := time.Now()
	for round := range 2 {
		waiting := 0
		for g := range log.GroupID(2 * maxLeaderless) {
			if e.open(g, 1, now.Add(time.Duration(round)*hintWait)) {
				waiting++
			}
		}
		if want := []int{maxLeaderless, 0}[round]; waiting != want {
			t.Errorf("round %d: %d partitions are waited for, want %d", round, waiting, want)
		}
	}
}

// TestMetadataOfHandOversNamesLeaders: leadership goes round, and whoever asks for metadata meanwhile, wherever, is told of a leader; without a
// majority it is told of who is left, and waits for that once.
func TestMetadataOfHandOversNamesLeaders(t *testing.T) {
	c := serveCluster(t, 3)
	cl := c.client()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 10_000
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: 4, ReplicationFactor: 3}}
	if _, err := create.RequestWith(t.Context(), cl); err != nil {
		t.Fatal(err)
	}
	alone := 0 // partitions that node 1 stands in for
	ask := func(node int32) (without int, took time.Duration) {
		req := kmsg.NewPtrMetadataRequest()
		topic := "t"
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
		began := time.Now()
		resp, err := cl.Broker(int(node)).Request(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		alone = 0
		for _, p := range resp.(*kmsg.MetadataResponse).Topics[0].Partitions {
			if p.Leader < 0 {
				without++
			}
			if p.Leader == 1 && len(p.OfflineReplicas) == 2 {
				alone++
			}
		}
		return without, time.Since(began)
	}
	asked := 0
	for i := range 9 {
		for p := range int32(4) {
			nodes := []int32{int32(i%3) + 1, int32((i+1)%3) + 1, int32((i+2)%3) + 1}
			if err := c.nodes[0].node.Reassign(t.Context(), "t", p, nodes); err != nil {
				t.Fatal(err)
			}
		}
		for until := time.Now().Add(700 * time.Millisecond); time.Now().Before(until); asked++ {
			for node := range int32(3) {
				if n, _ := ask(node + 1); n > 0 {
					t.Fatalf("round %d: node %d names no leader of %d partitions", i, node+1, n)
				}
			}
		}
	}
	t.Logf("asked %d times", asked)
	c.nodes[1].stop()
	c.nodes[2].stop()
	waitLong(t, "node 1 in the leaders' place", func() bool { _, _ = ask(1); return alone == 4 })
	if _, took := ask(1); took > hintWait/2 {
		t.Errorf("metadata of partitions without a leader takes %v, again", took)
	}
}
