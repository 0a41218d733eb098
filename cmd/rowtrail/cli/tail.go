package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/connectors/event"
)

// tailStall is how long tail waits for records that the partitions' ends promise.
const tailStall = 30 * time.Second

type tailFlags struct {
	from      string
	max       int64
	partition int32
	follow    bool
}

// recordLine is one record of `tail`.
type recordLine struct {
	Topic     string          `json:"topic"`
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"`
	Timestamp time.Time       `json:"timestamp"`
	Key       json.RawMessage `json:"key"`
	Value     json.RawMessage `json:"value"`
	Headers   []headerLine    `json:"headers,omitempty"`
	Position  *positionLine   `json:"position,omitempty"`
}

type headerLine struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// positionLine is a change record's place in its source.
type positionLine struct {
	Commit     string    `json:"commit,omitempty"` // LSN, GTID or file:pos
	CommitTime time.Time `json:"commitTime"`
	Order      uint64    `json:"order"`
}

func (a *app) tailCommand() *cobra.Command {
	var f tailFlags
	c := &cobra.Command{
		Use:   "tail TOPIC",
		Short: "Print records of a topic",
		Long: `Print committed records of a topic: the last ten of each partition, or from a point on, up to the end of the topic as it is
now, or on and on with --follow.`,
		Example: `  rowtrail tail shop.public.orders
  rowtrail tail shop.public.orders --from beginning --max 100 --output json
  rowtrail tail shop.public.orders --from 2026-01-31T12:00:00Z --follow`,
		Args: args("TOPIC"),
		RunE: func(cmd *cobra.Command, given []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return a.tail(ctx, given[0], f)
		},
	}
	c.Flags().StringVar(&f.from, "from", "-10", "where to start: beginning, end, an offset, a number of records before the end (-10), a time or a span before now (-5m, -7d)")
	c.Flags().Int64Var(&f.max, "max", 0, "stop after this many records (0: no limit)")
	c.Flags().Int32Var(&f.partition, "partition", -1, "read this partition only")
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "wait for new records until interrupted")
	a.serverFlag(c)
	return c
}

func (a *app) tail(ctx context.Context, topic string, f tailFlags) error {
	if f.max < 0 {
		return usage(fmt.Errorf("--max %d is negative", f.max))
	}
	client, adm, err := a.kafka(ctx, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer client.Close()
	next, ends, last, err := tailRange(ctx, adm, topic, f)
	if err != nil {
		return err
	}
	if last > 0 {
		if next, err = locateLast(ctx, client, topic, last, next, ends); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	assign := map[int32]kgo.Offset{}
	for p, at := range next {
		if f.follow || at < ends[p] {
			assign[p] = kgo.NewOffset().At(at)
		}
	}
	if len(assign) == 0 {
		return nil
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: assign})
	return a.printRecords(ctx, client, f, next, ends)
}

// printRecords prints until the ends, the limit or an interrupt. Control records and aborted transactions take offsets
// too: control records are kept so that reaching an end is noticed.
func (a *app) printRecords(ctx context.Context, client *kgo.Client, f tailFlags, next, ends map[int32]int64) error {
	printed, places := int64(0), placesOf{}
	if !a.json() {
		if _, err := fmt.Fprintf(a.out, "%-12s %-27s %s\n", "OFFSET", "TIME", "KEY VALUE"); err != nil {
			return err
		}
	}
	for f.follow || behind(next, ends) {
		poll, cancel := ctx, context.CancelFunc(func() {})
		if !f.follow {
			poll, cancel = context.WithTimeout(ctx, tailStall)
		}
		fetches := client.PollFetches(poll)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err0(); errors.Is(err, context.DeadlineExceeded) {
			return stalled()
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("read %s, partition %d: %w", e.Topic, e.Partition, e.Err)
		}
		for iter := fetches.RecordIter(); !iter.Done(); {
			r := iter.Next()
			next[r.Partition] = r.Offset + 1
			if r.Attrs.IsControl() || !f.follow && r.Offset >= ends[r.Partition] {
				continue
			}
			if err := a.printRecord(r, places); err != nil {
				return err
			}
			if printed++; printed == f.max {
				return nil
			}
		}
	}
	return nil
}

func behind(next, ends map[int32]int64) bool {
	for p, at := range next {
		if at < ends[p] {
			return true
		}
	}
	return false
}

// tailRange resolves --from to a first offset and an end for each partition. With last, the last so many records are asked for.
func tailRange(ctx context.Context, adm *kadm.Client, topic string, f tailFlags) (next, ends map[int32]int64, last int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	lines, err := topicLines(ctx, adm, []string{topic})
	if err != nil {
		return nil, nil, 0, err
	}
	from, err := parseFrom(f.from, time.Now())
	if err != nil {
		return nil, nil, 0, usage(err)
	}
	var timed kadm.ListedOffsets
	if from.at != nil {
		if timed, err = adm.ListOffsetsAfterMilli(ctx, from.at.UnixMilli(), topic); err != nil {
			return nil, nil, 0, fmt.Errorf("find offsets of a time: %w", err)
		}
	}
	next, ends = map[int32]int64{}, map[int32]int64{}
	for _, p := range lines[0].Partitions {
		if f.partition >= 0 && p.Partition != f.partition {
			continue
		}
		if p.Start < 0 || p.LastStable < 0 {
			return nil, nil, 0, fmt.Errorf("partition %d of %s has no leader now; try again", p.Partition, topic)
		}
		ends[p.Partition] = p.LastStable
		start := from.offset
		switch {
		case from.at != nil:
			start = p.LastStable
			if o, ok := timed.Lookup(topic, p.Partition); ok && o.Err == nil && o.Offset >= 0 {
				start = o.Offset
			}
		case from.last > 0:
			start = p.Start
		case from.end:
			start = p.LastStable
		}
		next[p.Partition] = max(start, p.Start)
	}
	if len(next) == 0 {
		return nil, nil, 0, notFound("topic %s has no partition %d; it has %d", topic, f.partition, len(lines[0].Partitions))
	}
	return next, ends, from.last, nil
}

// start is a parsed --from: an offset unless one of the others is set.
type start struct {
	offset int64
	last   int64
	end    bool
	at     *time.Time
}

func parseFrom(text string, now time.Time) (start, error) {
	switch text {
	case "beginning", "start":
		return start{}, nil
	case "end":
		return start{end: true}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 0 || strings.HasPrefix(text, "-") {
			return start{last: -n, end: n == 0}, nil
		}
		return start{offset: n}, nil
	}
	if at, ok := admin.ParseTime(text, now); ok {
		return start{at: &at}, nil
	}
	return start{}, fmt.Errorf("--from %q is no place to start; write beginning, end, an offset, -10 for the last ten, a time (2026-01-31T12:00:00Z) or a span before now (-5m, -7d)", text)
}

// placesOf are the places of the records of each partition.
type placesOf map[int32]*admin.Places

func (p placesOf) of(r *kgo.Record, commit uint64) string {
	if p[r.Partition] == nil {
		p[r.Partition] = &admin.Places{}
	}
	return p[r.Partition].Of(r.Value, commit)
}

func (a *app) printRecord(r *kgo.Record, places placesOf) error {
	line := recordLine{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UTC(), Key: admin.Text(r.Key), Value: admin.Text(r.Value)}
	if !a.json() {
		_, err := fmt.Fprintf(a.out, "%-12s %-27s %s %s\n", fmt.Sprintf("%d@%d", r.Partition, r.Offset),
			line.Timestamp.Format("2006-01-02T15:04:05.999Z07:00"), printable(string(line.Key)), printable(string(line.Value)))
		return err
	}
	for _, h := range r.Headers {
		if h.Key == event.PositionHeader {
			if p, err := event.ParsePosition(h.Value); err == nil {
				line.Position = &positionLine{Commit: places.of(r, p.Commit), CommitTime: time.UnixMicro(p.CommitTime).UTC(), Order: p.Order}
				continue
			}
		}
		line.Headers = append(line.Headers, headerLine{Key: h.Key, Value: admin.Text(h.Value)})
	}
	return a.printJSON(line)
}
