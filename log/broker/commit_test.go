package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A topic that CreateTopics has answered can be committed to at once, from any connection, by its name and by its id.
// franz-go's kadm may still say UNKNOWN_TOPIC_OR_PARTITION, and does so without asking: see docs/clients.md.
func TestCommitRightAfterCreation(t *testing.T) {
	s := serve(t)
	creator, committer := dial(t, s.addr), dial(t, s.addr)
	exchange := func(c interface {
		Write([]byte) (int, error)
	}, req kmsg.Request) {
		t.Helper()
		if _, err := c.Write(request1(1, req)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 50 {
		creation := kmsg.NewPtrCreateTopicsRequest()
		creation.Version = 7
		creation.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: fmt.Sprint("t", i), NumPartitions: 2, ReplicationFactor: 1}}
		exchange(creator, creation)
		created := decodeAnswer(t, creation, readFramed(t, creator)).(*kmsg.CreateTopicsResponse).Topics[0]
		if created.ErrorCode != 0 {
			t.Fatal(kerr.ErrorForCode(created.ErrorCode))
		}
		for _, version := range []int16{9, 10} {
			commit := kmsg.NewPtrOffsetCommitRequest()
			commit.Version, commit.Group, commit.Generation = version, "g", -1
			commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: created.Topic, TopicID: created.TopicID,
				Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 1, Offset: 1, LeaderEpoch: -1}}}}
			exchange(committer, commit)
			answer := decodeAnswer(t, commit, readFramed(t, committer)).(*kmsg.OffsetCommitResponse)
			if code := answer.Topics[0].Partitions[0].ErrorCode; code != 0 {
				t.Errorf("commit %d in version %d: %v", i, version, kerr.ErrorForCode(code))
			}
		}
	}
}
