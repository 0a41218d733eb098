package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
)

func TestErrorCodes(t *testing.T) {
	tests := map[error]*kerr.Error{
		log.ErrDiskFull:                       kerr.KafkaStorageError, // clients try again: reads go on, writes resume with space
		log.ErrTooLarge:                       kerr.MessageTooLarge,
		log.ErrDuplicateSequence:              kerr.DuplicateSequenceNumber,
		log.ErrInvalidProducerEpoch:           kerr.InvalidProducerEpoch,
		log.ErrClosed:                         kerr.NotLeaderForPartition,
		cluster.ErrUnknownTopic:               kerr.UnknownTopicOrPartition,
		cluster.ErrOverloaded:                 kerr.RequestTimedOut,
		context.DeadlineExceeded:              kerr.RequestTimedOut,
		kerr.UnknownTopicID:                   kerr.UnknownTopicID,
		refuse(kerr.InvalidTxnState, "words"): kerr.InvalidTxnState,
		errors.New("something else"):          kerr.UnknownServerError,
	}
	for err, want := range tests {
		if got := errorCode(fmt.Errorf("append: %w", err)); got != want.Code {
			t.Errorf("%v: code %d, want %v", err, got, want)
		}
	}
	if errorCode(nil) != 0 || errorMessage(nil) != nil {
		t.Error("no error has a code")
	}
}

func TestLogAppendTime(t *testing.T) {
	s := serve(t)
	kind := "LogAppendTime"
	create(t, s, "t", 1, map[string]*string{"message.timestamp.type": &kind})
	before := time.Now().Add(-time.Second)
	old := &kgo.Record{Value: []byte("v"), Timestamp: time.Unix(1000, 0)}
	cl := s.client(t, false, kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err := cl.ProduceSync(t.Context(), old).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r := consume(t, cl, 1)[0]
	if r.Timestamp.Before(before) || r.Attrs.TimestampType() != 1 {
		t.Errorf("consumed with %v, type %d", r.Timestamp, r.Attrs.TimestampType())
	}
	c := dial(t, s.addr)
	if _, err := c.Write(request1(1, produceRequest("t", -1, batchOf("v")))); err != nil {
		t.Fatal(err)
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = 9
	if err := resp.ReadFrom(readFramed(t, c)[5:]); err != nil {
		t.Fatal(err)
	}
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.LogAppendTime < before.UnixMilli() {
		t.Errorf("produced: %+v", p)
	}
}

func TestDeleteRecordsOfCompactedTopics(t *testing.T) {
	s := serve(t)
	compact, both := "compact", "compact,delete"
	create(t, s, "c", 1, map[string]*string{"cleanup.policy": &compact})
	create(t, s, "b", 1, map[string]*string{"cleanup.policy": &both})
	adm := kadm.NewClient(s.client(t, false))
	r, err := adm.DeleteRecords(t.Context(), kadm.Offsets{"c": {0: {Topic: "c", At: 0}}, "b": {0: {Topic: "b", At: 0}}})
	if err != nil || !errors.Is(r["c"][0].Err, kerr.PolicyViolation) || r["b"][0].Err != nil {
		t.Errorf("%v, %+v", err, r)
	}
}
