package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/sleep"
)

// hangingLine is a transaction that is open in a partition and that no coordinator will end.
type hangingLine struct {
	Topic            string    `json:"topic"`
	Partition        int32     `json:"partition"`
	StartOffset      int64     `json:"startOffset"`
	ProducerID       int64     `json:"producerId"`
	ProducerEpoch    int16     `json:"producerEpoch"`
	CoordinatorEpoch int32     `json:"coordinatorEpoch"`
	LastWrite        time.Time `json:"lastWrite"`
}

func newHangingLine(p kadm.DescribedProducer) hangingLine {
	return hangingLine{Topic: p.Topic, Partition: p.Partition, StartOffset: p.CurrentTxnStartOffset, ProducerID: p.ProducerID,
		ProducerEpoch: p.ProducerEpoch, CoordinatorEpoch: p.CoordinatorEpoch, LastWrite: time.UnixMilli(p.LastTimestamp).UTC()}
}

func (a *app) findHanging() *cobra.Command {
	return &cobra.Command{
		Use:   "find-hanging [TOPIC]",
		Short: "Find transactions that are open in a partition and known to no coordinator",
		Long: `Find transactions that are open in a partition while no coordinator knows of them, so that nothing will ever end them: readers of
committed records stop in front of them. Rowtrail does not leave such transactions; other brokers may.`,
		Example: "  rowtrail transactions find-hanging\n  rowtrail transactions find-hanging orders --output json",
		Args:    args("[TOPIC]"),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.administer(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				var where kadm.TopicsSet
				if len(given) == 1 {
					topics, err := adm.ListTopics(ctx, given[0])
					if err != nil {
						return fmt.Errorf("list topics: %w", err)
					}
					if !topics.Has(given[0]) {
						return notFound("topic %q does not exist; `rowtrail topics` lists them", given[0])
					}
					where = topics.TopicsSet()
				}
				lines, err := hangingLines(ctx, adm, where)
				if err != nil {
					return err
				}
				if a.json() {
					return a.printJSON(lines)
				}
				t := newTable(a.out, "TOPIC", "PARTITION", "START OFFSET", "PRODUCER ID", "EPOCH", "LAST WRITE")
				for _, l := range lines {
					t.row(l.Topic, l.Partition, l.StartOffset, l.ProducerID, l.ProducerEpoch, l.LastWrite.Format(time.RFC3339))
				}
				return t.flush()
			})
		},
	}
}

// hangingLines are the transactions that are open in a partition before and after the coordinators were asked, and unknown
// to them: one that began or ended meanwhile is none.
func hangingLines(ctx context.Context, adm *kadm.Client, where kadm.TopicsSet) ([]hangingLine, error) {
	before, err := openInPartitions(ctx, adm, where)
	if err != nil || len(before) == 0 {
		return []hangingLine{}, err
	}
	known, err := transactionLines(ctx, adm, nil, nil)
	if err != nil {
		return nil, err
	}
	after, err := openInPartitions(ctx, adm, where)
	if err != nil {
		return nil, err
	}
	still := map[hangingLine]bool{}
	for _, l := range after {
		still[l.place()] = true
	}
	lines := []hangingLine{}
	for _, l := range before {
		if _, held := holder(known, l); !held && still[l.place()] {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// place is what names a transaction in a partition.
func (l hangingLine) place() hangingLine {
	return hangingLine{Topic: l.Topic, Partition: l.Partition, StartOffset: l.StartOffset, ProducerID: l.ProducerID}
}

// holder finds the transactional id whose coordinator will end a transaction of a partition.
func holder(known []transactionLine, l hangingLine) (string, bool) {
	for i := range known {
		if known[i].ProducerID != l.ProducerID {
			continue
		}
		for _, p := range known[i].Partitions {
			if p.Topic == l.Topic && p.Partition == l.Partition {
				return known[i].ID, true
			}
		}
	}
	return "", false
}

func openInPartitions(ctx context.Context, adm *kadm.Client, where kadm.TopicsSet) ([]hangingLine, error) {
	described, err := adm.DescribeProducers(ctx, where)
	if err != nil {
		return nil, fmt.Errorf("describe producers: %w", err)
	}
	var lines []hangingLine
	for _, topic := range described.Sorted() {
		for _, p := range topic.Partitions.Sorted() {
			if p.Err != nil {
				return nil, fmt.Errorf("describe producers of %s-%d: %w", p.Topic, p.Partition, p.Err)
			}
			for _, producer := range p.ActiveProducers.Sorted() {
				if producer.CurrentTxnStartOffset >= 0 {
					lines = append(lines, newHangingLine(producer))
				}
			}
		}
	}
	return lines, nil
}

func (a *app) abortTransaction() *cobra.Command {
	var start, producer int64
	c := &cobra.Command{
		Use:   "abort ID | TOPIC PARTITION",
		Short: "Abort the open transaction of a transactional id, or one that hangs in a partition",
		Long: `With an ID, abort its open transaction by fencing its producer, which cannot write under its present epoch any more.

With a TOPIC and a PARTITION, abort a transaction that hangs there, as find-hanging shows it: the one that begins at --start-offset, or
that of --producer-id. One that a coordinator knows of is refused: abort it by its transactional id.`,
		Example: "  rowtrail transactions abort rowtrail-connector-shop\n  rowtrail transactions abort orders 3 --start-offset 1042",
		Args:    args("ID or TOPIC", "[PARTITION]"),
		RunE: func(cmd *cobra.Command, given []string) error {
			byPlace := cmd.Flags().Changed("start-offset") || cmd.Flags().Changed("producer-id")
			switch {
			case len(given) == 1 && byPlace:
				return usage(errors.New("--start-offset and --producer-id need a TOPIC and a PARTITION"))
			case len(given) == 1:
				return a.abortByID(cmd.Context(), given[0])
			case !byPlace:
				return usage(errors.New("--start-offset or --producer-id must say which transaction of the partition is meant; `rowtrail transactions find-hanging` shows them"))
			}
			partition, err := strconv.ParseInt(given[1], 10, 32)
			if err != nil || partition < 0 {
				return usage(fmt.Errorf("partition %q is no number", given[1]))
			}
			return a.abortByPlace(cmd.Context(), given[0], int32(partition), start, producer)
		},
	}
	c.Flags().Int64Var(&start, "start-offset", -1, "where the transaction begins in the partition")
	c.Flags().Int64Var(&producer, "producer-id", -1, "whose transaction it is")
	return c
}

// aborted prints what was aborted.
func (a *app) aborted(what string, document any) error {
	if a.json() {
		return a.printJSON(document)
	}
	_, err := fmt.Fprintf(a.out, "aborted %s\n", what)
	return err
}

func (a *app) abortByPlace(ctx context.Context, topic string, partition int32, start, producer int64) error {
	return a.administer(ctx, func(ctx context.Context, adm *kadm.Client) error {
		var where kadm.TopicsSet
		where.Add(topic, partition)
		open, err := openInPartitions(ctx, adm, where)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			return notFound("there is no partition %s-%d; `rowtrail topics` lists them", topic, partition)
		}
		if err != nil {
			return err
		}
		for _, l := range open {
			if start >= 0 && l.StartOffset != start || producer >= 0 && l.ProducerID != producer {
				continue
			}
			known, err := transactionLines(ctx, adm, []int64{l.ProducerID}, nil)
			if err != nil {
				return err
			}
			if id, held := holder(known, l); held {
				return fmt.Errorf("the transaction at offset %d of %s-%d does not hang: it is that of transactional id %q; run `rowtrail transactions abort %s`",
					l.StartOffset, topic, partition, id, id)
			}
			if err := writeAbort(ctx, adm, l, where); err != nil {
				return err
			}
			return a.aborted(fmt.Sprintf("the transaction at offset %d of %s-%d", l.StartOffset, topic, partition), l)
		}
		return notFound("no such transaction is open in %s-%d; `rowtrail transactions find-hanging %s` shows those that are", topic, partition, topic)
	})
}

// writeAbort ends a transaction in its partition.
func writeAbort(ctx context.Context, adm *kadm.Client, l hangingLine, where kadm.TopicsSet) error {
	written, err := adm.WriteTxnMarkers(ctx, kadm.TxnMarkers{ProducerID: l.ProducerID, ProducerEpoch: l.ProducerEpoch,
		CoordinatorEpoch: max(l.CoordinatorEpoch, 0), Topics: where})
	if err != nil {
		return fmt.Errorf("write abort marker: %w", err)
	}
	for _, m := range written {
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				if p.Err != nil {
					return fmt.Errorf("write abort marker to %s-%d: %w", p.Topic, p.Partition, p.Err)
				}
			}
		}
	}
	return nil
}

// fenceRetry is the pause before a coordinator that is completing a transaction is asked again.
const fenceRetry = 50 * time.Millisecond

func (a *app) abortByID(ctx context.Context, id string) error {
	client, adm, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	l, err := describedTransaction(ctx, adm, id)
	if err != nil {
		return err
	}
	if l.State != "Ongoing" {
		return fmt.Errorf("transactional id %q has no open transaction: its state is %s", id, l.State)
	}
	if err := fence(ctx, client, id, l.TimeoutMs); err != nil {
		return fmt.Errorf("fence the producer of transactional id %q: %w", id, err)
	}
	return a.aborted("the transaction of transactional id "+strconv.Quote(id), l)
}

// fence takes a transactional id over: its open transaction is aborted and its producer has an old epoch.
func fence(ctx context.Context, client *kgo.Client, id string, timeoutMs int32) error {
	for {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &id, timeoutMs
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		if err = kerr.ErrorForCode(resp.ErrorCode); !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		if !sleep.For(ctx, fenceRetry) {
			return ctx.Err()
		}
	}
}
