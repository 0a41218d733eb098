package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/rowtrail/rowtrail/log/broker/group"
	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// TestOffsetsOfMissingTopicsEndWithTheirCoordinator: the topic was deleted, and the coordinator ended before it had deleted the group's offsets. The
// next one does, and keeps those of topics that exist.
func TestOffsetsOfMissingTopicsEndWithTheirCoordinator(t *testing.T) {
	c := serveCluster(t, 3)
	adm := kadm.NewClient(c.client())
	if _, err := adm.CreateTopic(t.Context(), 1, 3, nil, "stays"); err != nil {
		t.Fatal(err)
	}
	partition := c.nodes[0].groups.PartitionFor("g")
	keeper := c.leader(group.Topic, partition)
	time.Sleep(2 * forgetRetry) // all have looked at what they coordinate
	req := group.CommitRequest{Group: "g", Generation: -1}
	for _, topic := range []string{"stays", "gone"} {
		req.Offsets = append(req.Offsets, group.Offset{TopicPartition: journal.TopicPartition{Topic: topic}, Committed: group.Committed{Offset: 7, LeaderEpoch: -1}})
	}
	waitLong(t, "the commit", func() bool {
		codes, ok := await(t.Context(), func(reply func([]int16)) { keeper.groups.Commit(req, reply) })
		return ok && codes[0] == 0 && codes[1] == 0
	})
	has := func() map[string]bool {
		out := map[string]bool{}
		next := c.leader(group.Topic, partition)
		lags, _ := await(t.Context(), next.groups.Lags)
		for _, l := range lags {
			out[l.Topic] = true
		}
		return out
	}
	if got := has(); !got["stays"] || !got["gone"] {
		t.Fatalf("offsets of %v", got)
	}
	keeper.stop()
	waitLong(t, "the offsets of a topic that is missing to end", func() bool {
		got := has()
		return got["stays"] && !got["gone"]
	})
}
