package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A group that has read every record has no lag, although the log ends with a transaction marker that nobody reads.
func TestGroupLagPassesMarkers(t *testing.T) {
	s := serve(t, shortSessions)
	producer := s.client(t, true, kgo.TransactionalID("lag"))
	createTopic(t, producer, "events", 1)
	commit := func(records int) {
		t.Helper()
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for range records {
			producer.Produce(t.Context(), &kgo.Record{Topic: "events", Value: []byte("x"), Timestamp: time.Now().Add(-time.Minute)}, nil)
		}
		if err := producer.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := producer.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	commit(3)
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: "events", At: 3, LeaderEpoch: -1})
	responses, err := kadm.NewClient(s.client(t, true)).CommitOffsets(t.Context(), "g", offsets)
	if err == nil {
		err = responses.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	lag := func() GroupLag {
		t.Helper()
		lags := s.GroupLags()
		if len(lags) != 1 {
			t.Fatalf("%d lags: %+v", len(lags), lags)
		}
		return lags[0]
	}
	waitLong(t, "the marker", func() bool { return lag().End == 4 })
	if l := lag(); l.LagEvents != 0 || l.LagBytes != 0 || l.LagSeconds != 0 {
		t.Errorf("everything is read: %+v", l)
	}
	commit(1)
	waitLong(t, "the second marker", func() bool { return lag().End == 6 })
	if l := lag(); l.LagEvents == 0 || l.LagBytes == 0 || l.LagSeconds < 55 || l.LagSeconds > 300 {
		t.Errorf("one record of a minute ago is not read: %+v", l)
	}
}
