package txn

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// Versions that Kafka 4 writes with transaction.version 2.
const (
	keyVersion   = 0
	valueVersion = 1
)

func key(id string) []byte {
	k := kmsg.TxnMetadataKey{Version: keyVersion, TransactionalID: id}
	return k.AppendTo(nil)
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms < 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// record is the state as the log keeps it.
func (t *Txn) record() journal.Record {
	v := kmsg.NewTxnMetadataValue()
	v.Version, v.ProducerID, v.ProducerEpoch = valueVersion, t.Current.ID, t.Current.Epoch
	v.TimeoutMillis, v.State = int32(t.Timeout.Milliseconds()), kmsg.TransactionState(t.State)
	v.LastUpdateTimestamp, v.StartTimestamp = millis(t.Updated), millis(t.Started)
	v.PreviousProducerID, v.NextProducerID, v.ClientTransactionVersion = t.Previous.ID, t.Next, t.Client
	for _, tp := range t.List() {
		if n := len(v.Topics); n == 0 || v.Topics[n-1].Topic != tp.Topic {
			v.Topics = append(v.Topics, kmsg.TxnMetadataValueTopic{Topic: tp.Topic})
		}
		topic := &v.Topics[len(v.Topics)-1]
		topic.Partitions = append(topic.Partitions, tp.Partition)
	}
	return journal.Record{Key: key(t.ID), Value: v.AppendTo(nil)}
}

// parse reads a record; a nil Txn is a tombstone. What it does not know it refuses (invariant 7).
func parse(r journal.Record) (id string, t *Txn, err error) {
	var k kmsg.TxnMetadataKey
	if err := k.ReadFrom(r.Key); err != nil {
		return "", nil, fmt.Errorf("transaction key: %w", err)
	}
	if k.Version != keyVersion {
		return "", nil, fmt.Errorf("its key has version %d, which this release does not know", k.Version)
	}
	if r.Value == nil {
		return k.TransactionalID, nil, nil
	}
	v := kmsg.NewTxnMetadataValue()
	if err := v.ReadFrom(r.Value); err != nil {
		return "", nil, fmt.Errorf("state of %q: %w", k.TransactionalID, err)
	}
	if v.Version < 0 || v.Version > 1 {
		return "", nil, fmt.Errorf("state of %q: value version %d is not known", k.TransactionalID, v.Version)
	}
	if v.State < 0 || State(v.State) > CompleteAbort {
		return "", nil, fmt.Errorf("state of %q: %d is no state that is kept", k.TransactionalID, v.State)
	}
	if v.ProducerID < 0 || v.ProducerEpoch < 0 {
		return "", nil, fmt.Errorf("state of %q has no producer id", k.TransactionalID)
	}
	if v.ClientTransactionVersion < 0 || v.ClientTransactionVersion > V2 {
		return "", nil, fmt.Errorf("state of %q: transaction version %d is not known", k.TransactionalID, v.ClientTransactionVersion)
	}
	t = newTxn(k.TransactionalID, fromMillis(v.LastUpdateTimestamp))
	t.State, t.Current = State(v.State), Producer{v.ProducerID, v.ProducerEpoch}
	t.Previous, t.Next, t.Client = previous(&v), max(v.NextProducerID, noProducer), V1
	if v.ClientTransactionVersion == V2 {
		t.Client = V2
	}
	t.Timeout, t.Started = time.Duration(v.TimeoutMillis)*time.Millisecond, fromMillis(v.StartTimestamp)
	for _, topic := range v.Topics {
		for _, p := range topic.Partitions {
			t.Partitions[journal.TopicPartition{Topic: topic.Topic, Partition: p}] = struct{}{}
		}
	}
	return t.ID, t, nil
}

// previous is the claim that the current one replaced. The record names its producer id only: its epoch follows.
func previous(v *kmsg.TxnMetadataValue) Producer {
	switch {
	case v.PreviousProducerID < 0:
	case v.PreviousProducerID != v.ProducerID:
		return Producer{v.PreviousProducerID, lastEpoch}
	case v.ProducerEpoch > 0:
		return Producer{v.ProducerID, v.ProducerEpoch - 1}
	}
	return Producer{noProducer, noEpoch}
}
