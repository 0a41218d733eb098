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

	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
)

// trimLine is one partition of `topics delete-records`.
type trimLine struct {
	Partition int32  `json:"partition"`
	Start     int64  `json:"start"` // as it is
	Before    int64  `json:"before"`
	Error     string `json:"error,omitempty"`
}

type trimReport struct {
	Topic      string     `json:"topic"`
	Executed   bool       `json:"executed"`
	Partitions []trimLine `json:"partitions"`
}

// trimPoint is what --before says: an offset, the end, or a time.
type trimPoint struct {
	offset int64
	end    bool
	at     *time.Time
}

func (a *app) topicsDeleteRecordsCommand() *cobra.Command {
	var before string
	var execute, dryRun bool
	c := &cobra.Command{
		Use:   "delete-records TOPIC[:PARTITION,...] --before POINT",
		Short: "Delete the oldest records of a topic",
		Long: `Delete the records of a topic, or of some of its partitions, before a point: an offset, end, a time, or a span before now (-7d). What is
deleted is gone from state and history queries too. Nothing is deleted without --execute: what would be is printed. The records of a
topic that is only compacted go by key and cannot be deleted so.`,
		Example: `  rowtrail topics delete-records orders --before 2026-01-31T00:00:00Z
  rowtrail topics delete-records orders:0,2 --before 1000 --execute`,
		Args: args("TOPIC[:PARTITION,...]"),
		RunE: func(cmd *cobra.Command, given []string) error {
			topic, partitions, err := parseTopicPartitions(given[0])
			if err != nil {
				return usage(fmt.Errorf("%q is no topic with partitions; write TOPIC or TOPIC:0,2", given[0]))
			}
			point, err := parseTrimPoint(before, time.Now())
			switch {
			case err != nil:
				return usage(err)
			case execute && dryRun:
				return usage(errors.New("topics delete-records: --execute and --dry-run exclude each other"))
			}
			return a.administer(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				return a.deleteRecords(ctx, adm, topic, partitions, point, execute)
			})
		},
	}
	flags := c.Flags()
	flags.StringVar(&before, "before", "", "delete what is before this: an offset, end, a time (2026-01-31T12:00:00Z) or a span before now (-7d)")
	flags.BoolVar(&dryRun, "dry-run", false, "print what would be deleted, which is what happens without --execute")
	flags.BoolVar(&execute, "execute", false, "delete the records")
	a.serverFlag(c)
	return c
}

func parseTrimPoint(text string, now time.Time) (trimPoint, error) {
	if text == "" {
		return trimPoint{}, errors.New("topics delete-records: say up to where: --before POINT")
	}
	if text == "end" {
		return trimPoint{end: true}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return trimPoint{offset: n}, nil
	}
	if at, ok := admin.ParseTime(text, now); ok {
		return trimPoint{at: &at}, nil
	}
	return trimPoint{}, fmt.Errorf("--before %q is no point; write an offset, end, a time (2026-01-31T12:00:00Z) or a span before now (-7d)", text)
}

func (a *app) deleteRecords(ctx context.Context, adm *kadm.Client, topic string, partitions []int32, point trimPoint, execute bool) error {
	set, err := existing(ctx, adm, map[string][]int32{topic: partitions}, false)
	if err != nil {
		return err
	}
	if err := refuseCompacted(ctx, adm, topic); err != nil {
		return err
	}
	report := trimReport{Topic: topic, Executed: execute}
	if report.Partitions, err = planTrim(ctx, adm, topic, set, point); err != nil {
		return err
	}
	failed := 0
	if execute {
		if failed, err = trim(ctx, adm, &report); err != nil {
			return err
		}
	}
	if a.json() {
		err = a.printJSON(report)
	} else {
		err = a.printTrim(report)
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("records of %d of %d partitions were not deleted", failed, len(report.Partitions))
	}
	return err
}

// refuseCompacted says before anything is planned what the node would say to a deletion.
func refuseCompacted(ctx context.Context, adm *kadm.Client, topic string) error {
	resources, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return fmt.Errorf("describe topic %s: %w", topic, err)
	}
	for _, r := range resources {
		for _, c := range r.Configs {
			if c.Key == "cleanup.policy" && c.MaybeValue() == "compact" {
				return fmt.Errorf("topic %s is only compacted: its records go by key; with cleanup.policy compact,delete (`rowtrail topics alter`) they can be deleted", topic)
			}
		}
	}
	return nil
}

// planTrim finds the offset before which each partition loses its records: within what it has.
func planTrim(ctx context.Context, adm *kadm.Client, topic string, set kadm.TopicsSet, point trimPoint) ([]trimLine, error) {
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	var times kadm.ListedOffsets
	if point.at != nil {
		if times, err = adm.ListOffsetsAfterMilli(ctx, point.at.UnixMilli(), topic); err != nil {
			return nil, fmt.Errorf("find offsets by time: %w", err)
		}
	}
	var lines []trimLine
	for _, tp := range set.Sorted() {
		for _, p := range tp.Partitions {
			s, _ := starts.Lookup(topic, p)
			e, _ := ends.Lookup(topic, p)
			at, _ := times.Lookup(topic, p)
			if err := errors.Join(s.Err, e.Err, at.Err); err != nil {
				return nil, fmt.Errorf("offsets of %s-%d: %w", topic, p, err)
			}
			before := point.offset
			switch {
			case point.end:
				before = e.Offset
			case point.at != nil:
				before = at.Offset // the end, where no record is so late
			}
			lines = append(lines, trimLine{Partition: p, Start: s.Offset, Before: min(max(before, s.Offset), e.Offset)})
		}
	}
	return lines, nil
}

// trim deletes what the report plans, and notes what could not be.
func trim(ctx context.Context, adm *kadm.Client, report *trimReport) (failed int, err error) {
	var offsets kadm.Offsets
	for _, l := range report.Partitions {
		offsets.AddOffset(report.Topic, l.Partition, l.Before, -1)
	}
	rs, err := adm.DeleteRecords(ctx, offsets)
	if err != nil {
		return 0, fmt.Errorf("delete records of %s: %w", report.Topic, err)
	}
	for i := range report.Partitions {
		l := &report.Partitions[i]
		switch r := rs[report.Topic][l.Partition]; {
		case errors.Is(r.Err, kerr.PolicyViolation):
			l.Error = "the topic is only compacted: its records go by key"
		case r.Err != nil:
			l.Error = r.Err.Error()
		default:
			l.Before = max(l.Before, r.LowWatermark)
			continue
		}
		failed++
	}
	return failed, nil
}

func (a *app) printTrim(report trimReport) error {
	t := newTable(a.out, "PARTITION", "START", "NEW START", "ERROR")
	for _, l := range report.Partitions {
		t.row(l.Partition, l.Start, l.Before, l.Error)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if !report.Executed {
		_, _ = fmt.Fprintln(a.err, "nothing was deleted; add --execute to delete what is before the new start")
	}
	return nil
}
