package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestElectionsAfterARestart: who asks for preferred leaders while the partitions of a cluster that was started again have none is answered when they
// are elected, with no error.
func TestElectionsAfterARestart(t *testing.T) {
	c := serveCluster(t, 3)
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 10_000
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: 6, ReplicationFactor: 3}}
	if _, err := create.RequestWith(t.Context(), c.client()); err != nil {
		t.Fatal(err)
	}
	for _, x := range c.nodes {
		x.stop()
	}
	c.start(c.nodes...)
	cl := c.client()
	waitLong(t, "nodes that are alive", func() bool {
		return c.nodes[0].node.Alive(2) && c.nodes[0].node.Alive(3)
	})
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewElectLeadersRequestTopic()
	rt.Topic, rt.Partitions = "t", []int32{0, 1, 2, 3, 4, 5}
	req.Topics = append(req.Topics, rt)
	began := time.Now()
	resp, err := cl.SeedBrokers()[0].Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("after %v", time.Since(began))
	for _, p := range resp.(*kmsg.ElectLeadersResponse).Topics[0].Partitions {
		if p.ErrorCode != 0 && p.ErrorCode != kerr.ElectionNotNeeded.Code {
			t.Errorf("partition %d: %v %s", p.Partition, kerr.ErrorForCode(p.ErrorCode), deref(p.ErrorMessage))
		}
	}
}
