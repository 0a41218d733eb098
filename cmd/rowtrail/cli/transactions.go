package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/configs"
)

// transactionStates are the names that --state takes.
//
//nolint:gochecknoglobals // immutable table
var transactionStates = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"}

// transactionLine is one transactional id of `transactions`.
type transactionLine struct {
	ID            string       `json:"transactionalId"`
	State         string       `json:"state"`
	ProducerID    int64        `json:"producerId"`
	ProducerEpoch int16        `json:"producerEpoch"`
	Coordinator   int32        `json:"coordinator"`
	TimeoutMs     int32        `json:"timeoutMs"`
	Started       *time.Time   `json:"started,omitempty"` // of the open transaction
	Partitions    []joinedLine `json:"partitions"`
	Error         string       `json:"error,omitempty"`
}

type joinedLine struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// open says how long a transaction has been open.
func (l *transactionLine) open(now time.Time) (time.Duration, bool) {
	if l.Started == nil || l.State == "Empty" || strings.HasPrefix(l.State, "Complete") {
		return 0, false
	}
	return now.Sub(*l.Started), true
}

// duration is that for people.
func (l *transactionLine) duration(now time.Time) string {
	if d, ok := l.open(now); ok {
		return d.Round(time.Second).String()
	}
	return ""
}

func (a *app) transactionsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "transactions",
		Short: "List, describe and abort transactions",
		Example: "  rowtrail transactions list --state Ongoing\n  rowtrail transactions describe rowtrail-connector-shop\n" +
			"  rowtrail transactions abort rowtrail-connector-shop",
		Args: args(),
		RunE: func(*cobra.Command, []string) error {
			return usage(errors.New("transactions: a command is missing: list, describe, abort or find-hanging; see `rowtrail transactions --help`"))
		},
	}
	for _, sub := range []*cobra.Command{a.listTransactions(), a.describeTransaction(), a.abortTransaction(), a.findHanging()} {
		a.serverFlag(sub)
		c.AddCommand(sub)
	}
	return c
}

func (a *app) listTransactions() *cobra.Command {
	var states []string
	var producers []int64
	var atLeast string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List transactional ids with the state of their last transaction",
		Example: "  rowtrail transactions list\n  rowtrail transactions list --state Ongoing --duration 5m --output json",
		Args:    args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, s := range states {
				if !slices.Contains(transactionStates, s) {
					return usage(fmt.Errorf("--state %q is none of %s", s, strings.Join(transactionStates, ", ")))
				}
			}
			longer, err := configs.ParseDuration(atLeast)
			switch {
			case err != nil:
				return usage(fmt.Errorf("--duration: %w", err))
			case longer < 0:
				return usage(fmt.Errorf("--duration %v is negative", longer))
			}
			return a.administer(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				lines, err := transactionLines(ctx, adm, producers, states)
				if err != nil {
					return err
				}
				now := time.Now()
				lines = slices.DeleteFunc(lines, func(l transactionLine) bool {
					d, open := l.open(now)
					return longer > 0 && (!open || d < longer)
				})
				if a.json() {
					return a.printJSON(lines)
				}
				return a.printTransactions(lines, now)
			})
		},
	}
	c.Flags().StringSliceVar(&states, "state", nil, "only these states: "+strings.Join(transactionStates, ", "))
	c.Flags().Int64SliceVar(&producers, "producer-id", nil, "only these producer ids")
	c.Flags().StringVar(&atLeast, "duration", "0s", "only transactions that have been open for at least so long (90s, 5m, 1d)")
	return c
}

func (a *app) printTransactions(lines []transactionLine, now time.Time) error {
	t := newTable(a.out, "TRANSACTIONAL ID", "STATE", "PRODUCER ID", "EPOCH", "OPEN FOR", "PARTITIONS", "ERROR")
	for _, l := range lines {
		t.row(l.ID, l.State, l.ProducerID, l.ProducerEpoch, l.duration(now), len(l.Partitions), l.Error)
	}
	return t.flush()
}

// transactionLines lists transactional ids, and describes them.
func transactionLines(ctx context.Context, adm *kadm.Client, producers []int64, states []string) ([]transactionLine, error) {
	listed, err := adm.ListTransactions(ctx, producers, states)
	if err != nil {
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	lines := []transactionLine{}
	if len(listed) == 0 {
		return lines, nil
	}
	described, err := adm.DescribeTransactions(ctx, listed.TransactionalIDs()...)
	if err != nil {
		return nil, fmt.Errorf("describe transactions: %w", err)
	}
	for _, d := range described.Sorted() {
		switch {
		case errors.Is(d.Err, kerr.TransactionalIDNotFound), len(states) > 0 && d.Err == nil && !slices.Contains(states, d.State):
			continue // gone, or gone on, since it was listed
		}
		lines = append(lines, newTransactionLine(d))
	}
	return lines, nil
}

func newTransactionLine(d kadm.DescribedTransaction) transactionLine {
	l := transactionLine{ID: d.TxnID, State: d.State, ProducerID: d.ProducerID, ProducerEpoch: d.ProducerEpoch,
		Coordinator: d.Coordinator, TimeoutMs: d.TimeoutMillis, Partitions: []joinedLine{}}
	if d.Err != nil {
		l.Error = d.Err.Error()
	}
	if d.StartTimestamp > 0 {
		started := time.UnixMilli(d.StartTimestamp).UTC()
		l.Started = &started
	}
	for topic, partitions := range d.Topics {
		for p := range partitions {
			l.Partitions = append(l.Partitions, joinedLine{topic, p})
		}
	}
	slices.SortFunc(l.Partitions, func(a, b joinedLine) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return l
}

func (a *app) describeTransaction() *cobra.Command {
	return &cobra.Command{
		Use:     "describe ID",
		Short:   "Describe a transactional id and what it has open",
		Example: "  rowtrail transactions describe rowtrail-connector-shop --output json",
		Args:    args("ID"),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.administer(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				l, err := describedTransaction(ctx, adm, given[0])
				if err != nil {
					return err
				}
				if a.json() {
					return a.printJSON(l)
				}
				return a.printTransaction(l)
			})
		},
	}
}

func describedTransaction(ctx context.Context, adm *kadm.Client, id string) (transactionLine, error) {
	described, err := adm.DescribeTransactions(ctx, id)
	if err != nil {
		return transactionLine{}, fmt.Errorf("describe transactions: %w", err)
	}
	d := described[id]
	switch {
	case errors.Is(d.Err, kerr.TransactionalIDNotFound):
		return transactionLine{}, notFound("transactional id %q does not exist; `rowtrail transactions list` lists them", id)
	case d.Err != nil:
		return transactionLine{}, fmt.Errorf("describe transactional id %q: %w", id, d.Err)
	}
	return newTransactionLine(d), nil
}

func (a *app) printTransaction(l transactionLine) error {
	t := newTable(a.out)
	t.row("transactional id", l.ID)
	t.row("state", l.State)
	t.row("producer", fmt.Sprintf("id %d, epoch %d", l.ProducerID, l.ProducerEpoch))
	t.row("coordinator", l.Coordinator)
	t.row("timeout", time.Duration(l.TimeoutMs)*time.Millisecond)
	if now := time.Now(); l.duration(now) != "" {
		t.row("open for", fmt.Sprintf("%s, since %s", l.duration(now), l.Started.Format(time.RFC3339)))
	}
	for _, p := range l.Partitions {
		t.row("partition", fmt.Sprintf("%s-%d", p.Topic, p.Partition))
	}
	return t.flush()
}
