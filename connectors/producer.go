package connectors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// bufferedBytes bounds what the Kafka client holds.
	bufferedBytes = 16 << 20
	// linger lets batches grow under load; a commit flushes and so does not wait for it.
	linger = 5 * time.Millisecond
	// maxRecordBytes is the largest record batch, and the max.message.bytes of topics that are created here.
	maxRecordBytes = 16 << 20
	metadataMinAge = 50 * time.Millisecond
)

// transactionTimeouts are asked for in turn: a transaction may have to stay open for as long as one table is loaded or one
// source transaction is read, but brokers cap it (15 minutes by default in Apache Kafka).
func transactionTimeouts() []time.Duration {
	return []time.Duration{24 * time.Hour, time.Hour, 15 * time.Minute}
}

// openProducer asks for the longest transaction timeout that the log allows.
func (w *Writer) openProducer(ctx context.Context, deps Deps) error {
	timeouts := transactionTimeouts()
	for i, timeout := range timeouts {
		client, err := kgo.NewClient(append(append([]kgo.Opt{}, deps.Client...),
			kgo.ClientID("rowtrail-connector-"+w.opts.Name),
			kgo.TransactionalID("rowtrail-connector-"+w.opts.Name),
			kgo.TransactionTimeout(timeout),
			kgo.RequiredAcks(kgo.AllISRAcks()),
			kgo.RecordPartitioner(partitioner{}),
			kgo.ProducerBatchCompression(codec(w.opts.Compression)),
			kgo.ProducerBatchMaxBytesFn(w.topics.maxBytes),
			kgo.ProducerLinger(linger),
			kgo.MetadataMinAge(metadataMinAge), // a topic that was just created is known soon
			kgo.MaxBufferedRecords(1<<20),
			kgo.MaxBufferedBytes(bufferedBytes),
		)...)
		if err != nil {
			return fmt.Errorf("open log producer: %w", err)
		}
		_, _, err = client.ProducerID(ctx)
		if err == nil {
			w.client, w.timeout = client, timeout
			return nil
		}
		client.Close()
		if errors.Is(err, kerr.InvalidTransactionTimeout) && i+1 < len(timeouts) {
			continue
		}
		return fmt.Errorf("fence former instance of connector %s in the log: %w", w.opts.Name, err)
	}
	return nil
}

func codec(name string) kgo.CompressionCodec {
	switch name {
	case "none":
		return kgo.NoCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "lz4":
		return kgo.Lz4Compression()
	default: // about the CPU of the others, and a third of their bytes to replicate and store
		return kgo.ZstdCompression().WithLevel(1)
	}
}

// explain turns errors that a restart does not heal into a Fault.
func (w *Writer) explain(err error) error {
	// A transaction that the log gave up for its age ends with the same errors as one that was fenced.
	fenced := errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.TransactionalIDAuthorizationFailed)
	switch {
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed), errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return &Fault{Problem: "the log refuses connector " + w.opts.Name, Err: err, Remedy: "allow its principal to write to " + w.opts.Prefix + ".* and to use transactional id rowtrail-connector-" + w.opts.Name}
	case fenced && time.Since(w.since) < w.timeout:
		return &Fault{Problem: "another instance of connector " + w.opts.Name + " took over and fenced this one", Err: err, Remedy: "run the connector in one place only, or give this one another name"}
	}
	return err
}

func (w *Writer) produceError(r *kgo.Record, err error) error {
	if errors.Is(err, kerr.MessageTooLarge) {
		table, _ := w.topics.tables.Load(r.Topic)
		collection, _ := table.(string) // none: a topic of the connector's own
		return &Fault{
			Collection: collection,
			Problem:    fmt.Sprintf("a record of %d bytes is too large for topic %s", len(r.Key)+len(r.Value), r.Topic), Err: err,
			Remedy: fmt.Sprintf("raise max.message.bytes of topic %s and restart the connector, or leave the column out with column.exclude.list", r.Topic),
		}
	}
	return fmt.Errorf("write to topic %s: %w", r.Topic, err)
}
