package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A reader of committed records is not told the offset of a record in an open transaction, whatever it asks for.
func TestListOffsetsEndsAtTheLastStableOffset(t *testing.T) {
	s := serve(t)
	cl := s.client(t, true, kgo.TransactionalID("open"))
	createTopic(t, cl, "events", 1)
	offset := func(at int64, level int8) int64 {
		t.Helper()
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.IsolationLevel = -1, level
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = "events"
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Timestamp = at
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(t.Context(), cl)
		if err != nil {
			t.Fatal(err)
		}
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.Offset < 0 && (p.Timestamp != -1 || p.LeaderEpoch != -1) {
			t.Fatalf("%+v", p)
		}
		return p.Offset
	}
	begin(t, cl)
	produceAll(t, cl, "events", "a")
	for _, at := range []int64{-3, 0} {
		if got := offset(at, 1); got != -1 {
			t.Errorf("%d: committed readers get offset %d of an open transaction", at, got)
		}
		if got := offset(at, 0); got != 0 {
			t.Errorf("%d: other readers get offset %d", at, got)
		}
	}
	if committed, all := offset(-1, 1), offset(-1, 0); committed != 0 || all != 1 {
		t.Errorf("ends %d and %d", committed, all)
	}
	end(t, cl, kgo.TryCommit)
	waitFor(t, "the marker", func() bool { return offset(-1, 1) == 2 })
	// The marker is the newest, as in Kafka.
	if first, newest := offset(0, 1), offset(-3, 1); first != 0 || newest != 1 {
		t.Errorf("committed readers get offsets %d and %d", first, newest)
	}
}
