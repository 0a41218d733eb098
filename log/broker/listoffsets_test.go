package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
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

// Timestamps with a meaning of their own came with versions of their own, and a partition is asked for once.
func TestListOffsetsKnowsWhatItsVersionKnows(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	c := dial(t, s.addr)
	ask := func(version int16, timestamps ...int64) []int16 {
		t.Helper()
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = version, -1
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = "t"
		for _, ts := range timestamps {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Timestamp, rp.CurrentLeaderEpoch = ts, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		var codes []int16
		for _, p := range askRaw[*kmsg.ListOffsetsResponse](t, c, req).Topics[0].Partitions {
			if codes = append(codes, p.ErrorCode); p.ErrorCode != 0 && (p.Offset != -1 || p.Timestamp != -1) {
				t.Errorf("version %d: %+v", version, p)
			}
		}
		return codes
	}
	unsupported := kerr.UnsupportedVersion.Code
	for timestamp, since := range map[int64]int16{-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11, -7: 12, 0: 1} {
		for version := int16(1); version <= 11; version++ {
			want := int16(0)
			if version < since {
				want = unsupported
			}
			if got := ask(version, timestamp); got[0] != want {
				t.Errorf("%d in version %d: code %d, want %d", timestamp, version, got[0], want)
			}
		}
	}
	if got, invalid := ask(6, -1, -2), kerr.InvalidRequest.Code; got[0] != invalid || got[1] != invalid {
		t.Errorf("a partition that is named twice: %v", got)
	}
}

// The earliest offset is told with the epoch that it was written in, not with that of today's leader.
func TestListOffsetsTellsTheEpochOfTheEarliestOffset(t *testing.T) {
	dir := t.TempDir()
	epochs := func(l *life) (earliest, latest int32) {
		t.Helper()
		adm := kadm.NewClient(l.client(t))
		defer adm.Close()
		starts, err := adm.ListStartOffsets(t.Context(), "t")
		if err != nil || starts.Error() != nil {
			t.Fatal(err, starts.Error())
		}
		ends, err := adm.ListEndOffsets(t.Context(), "t")
		if err != nil || ends.Error() != nil {
			t.Fatal(err, ends.Error())
		}
		return starts["t"][0].LeaderEpoch, ends["t"][0].LeaderEpoch
	}
	l := live(t, dir)
	cl := l.client(t)
	createTopic(t, cl, "t", 1)
	produceAll(t, cl, "t", "a")
	cl.Close()
	first, _ := epochs(l)
	l.end(t)
	l = live(t, dir)
	defer l.end(t)
	if earliest, latest := epochs(l); earliest != first || latest <= first {
		t.Errorf("epochs %d and %d, the record was written in %d", earliest, latest, first)
	}
}
