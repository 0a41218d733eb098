package cli

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/configs"
)

// maxOffsetFile bounds the file of --from-file.
const maxOffsetFile = 16 << 20

// resetFlags are the flags of `groups reset`. One of the targets is given.
type resetFlags struct {
	topics   []string
	all      bool
	execute  bool
	dryRun   bool
	earliest bool
	latest   bool
	current  bool
	offset   int64
	shift    int64
	datetime string
	duration string
	file     string
}

// resetLine is one partition of `groups reset`.
type resetLine struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"` // -1: nothing committed
	New       int64  `json:"new"`
	Note      string `json:"note,omitempty"`
}

// resetReport is what `groups reset` prints.
type resetReport struct {
	Group    string      `json:"group"`
	Executed bool        `json:"executed"`
	Offsets  []resetLine `json:"offsets"`
}

func (a *app) groupsResetCommand() *cobra.Command {
	var f resetFlags
	c := &cobra.Command{
		Use:   "reset GROUP (--topic TOPIC[:PARTITION,...] | --all-topics | --from-file FILE) TARGET",
		Short: "Move the committed offsets of a group that has no members",
		Long: `Move the committed offsets of a group that has no members. TARGET is one of the --to-..., --shift-by, --by-duration and
--from-file flags. Nothing is changed without --execute: what would be is printed. Offsets before a partition's start or behind its
end become its start or end. A group that does not exist is made. A partition without records since --to-datetime goes to its end, as one without a committed offset does
with --to-current.`,
		Example: `  rowtrail groups reset billing --topic shop.public.orders --to-earliest
  rowtrail groups reset billing --all-topics --to-datetime 2026-01-31T12:00:00Z --execute
  rowtrail groups reset billing --topic shop.public.orders:0,2 --shift-by=-100 --execute
  rowtrail groups reset billing --from-file offsets.csv --execute`,
		Args: args("GROUP"),
		RunE: func(cmd *cobra.Command, given []string) error {
			target, err := f.target(cmd.Flags().Changed, time.Now())
			if err != nil {
				return usage(err)
			}
			return a.administer(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				return a.resetGroup(ctx, adm, given[0], f, target)
			})
		},
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.topics, "topic", nil, "a topic, or some of its partitions (orders:0,2); may be repeated")
	flags.BoolVar(&f.all, "all-topics", false, "all topics that the group has committed offsets of")
	flags.BoolVar(&f.earliest, "to-earliest", false, "to the start of the partition")
	flags.BoolVar(&f.latest, "to-latest", false, "to the end of the partition")
	flags.BoolVar(&f.current, "to-current", false, "to the committed offset")
	flags.Int64Var(&f.offset, "to-offset", 0, "to this offset")
	flags.Int64Var(&f.shift, "shift-by", 0, "to the committed offset plus this number, which may be negative")
	flags.StringVar(&f.datetime, "to-datetime", "", "to the first record at or after a time (2026-01-31T12:00:00Z)")
	flags.StringVar(&f.duration, "by-duration", "", "to the first record of the last span of time (PT1H30M, 90m or 7d)")
	flags.StringVar(&f.file, "from-file", "", "to the offsets of a CSV file with lines of topic,partition,offset")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print what would change, which is what happens without --execute")
	flags.BoolVar(&f.execute, "execute", false, "change the offsets")
	a.serverFlag(c)
	return c
}

// resetTarget says where to.
type resetTarget struct {
	kind string         // a flag's name
	at   int64          // to-offset, shift-by
	time time.Time      // to-datetime, by-duration
	list []resetFromRow // from-file
}

type resetFromRow struct {
	topic     string
	partition int32
	offset    int64
}

// target checks that the flags name one target, and what of.
func (f *resetFlags) target(changed func(string) bool, now time.Time) (resetTarget, error) {
	all := []string{"to-earliest", "to-latest", "to-current", "to-offset", "shift-by", "to-datetime", "by-duration", "from-file"}
	given := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !changed(name) })
	switch {
	case len(given) != 1:
		return resetTarget{}, fmt.Errorf("groups reset: give exactly one of --%s", strings.Join(all, ", --"))
	case f.execute && f.dryRun:
		return resetTarget{}, errors.New("groups reset: --execute and --dry-run exclude each other")
	case f.all && len(f.topics) > 0, f.file != "" && (f.all || len(f.topics) > 0):
		return resetTarget{}, errors.New("groups reset: --topic, --all-topics and --from-file exclude each other")
	case !f.all && len(f.topics) == 0 && f.file == "":
		return resetTarget{}, errors.New("groups reset: say which offsets: --topic TOPIC[:PARTITION,...], --all-topics or --from-file FILE")
	}
	t := resetTarget{kind: given[0]}
	var err error
	switch t.kind {
	case "to-offset":
		t.at = f.offset
	case "shift-by":
		t.at = f.shift
	case "to-datetime":
		at, ok := admin.ParseTime(f.datetime, now)
		if !ok {
			return t, fmt.Errorf("--to-datetime %q is not a time; write it as 2026-01-31T12:00:00Z", f.datetime)
		}
		t.time = at
	case "by-duration":
		var span time.Duration
		if span, err = parseSpan(f.duration); err == nil {
			t.time = now.Add(-span)
		}
	case "from-file":
		t.list, err = readOffsetFile(f.file)
	}
	return t, err
}

var isoSpan = regexp.MustCompile(`^P(?:(\d{1,5})D)?(?:T(?:(\d{1,7})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?$`)

// parseSpan reads a span of time in ISO 8601, as Kafka's tools take it, or as the node's file does.
func parseSpan(text string) (time.Duration, error) {
	if m := isoSpan.FindStringSubmatch(text); m != nil && text != "P" && !strings.HasSuffix(text, "T") {
		var span time.Duration
		for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
			n, _ := strconv.ParseInt(m[i+1], 10, 64) // digits, or nothing
			span += time.Duration(n) * unit
		}
		return span, nil
	}
	span, err := configs.ParseDuration(text)
	if err != nil || span < 0 {
		return 0, fmt.Errorf("--by-duration %q is not a span of time; write PT1H30M, 90m or 7d", text)
	}
	return span, nil
}

func readOffsetFile(name string) ([]resetFromRow, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--from-file: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	r := csv.NewReader(io.LimitReader(file, maxOffsetFile))
	r.FieldsPerRecord, r.TrimLeadingSpace = 3, true
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("--from-file %s: %w; write lines of topic,partition,offset", name, err)
	}
	list := make([]resetFromRow, 0, len(rows))
	for i, row := range rows {
		partition, err := strconv.ParseInt(row[1], 10, 32)
		offset, err2 := strconv.ParseInt(row[2], 10, 64)
		if err != nil || err2 != nil {
			return nil, fmt.Errorf("--from-file %s, record %d: %q and %q are not both whole numbers; write lines of topic,partition,offset", name, i+1, row[1], row[2])
		}
		list = append(list, resetFromRow{row[0], int32(partition), offset})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("--from-file %s is empty; write lines of topic,partition,offset", name)
	}
	return list, nil
}

func (a *app) resetGroup(ctx context.Context, adm *kadm.Client, group string, f resetFlags, target resetTarget) error {
	if err := refuseActive(ctx, adm, group, f.all); err != nil {
		return err
	}
	committed, err := adm.FetchOffsets(ctx, group)
	if err != nil {
		return fmt.Errorf("read the offsets of %s: %w", group, err)
	}
	scope, err := resetScope(ctx, adm, f, target, committed)
	if err != nil {
		return err
	}
	bounds, err := readBounds(ctx, adm, scope, target)
	if err != nil {
		return err
	}
	lines, err := planReset(target, committed, scope, bounds)
	if err != nil {
		return err
	}
	report := resetReport{Group: group, Executed: f.execute, Offsets: lines}
	if f.execute {
		if err := commitReset(ctx, adm, group, lines); err != nil {
			return err
		}
	}
	return a.printReset(report)
}

// refuseActive is an error when the group has members, whose commits would win; with must, also when it does not exist.
func refuseActive(ctx context.Context, adm *kadm.Client, group string, must bool) error {
	listed, err := adm.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	g, ok := listed[group]
	switch {
	case !ok && must:
		return notFound("group %q does not exist; `rowtrail groups` lists them", group)
	case ok && g.State != "Empty" && g.State != "Dead":
		return fmt.Errorf("group %s has members (it is %s); stop them first, because their commits would win", group, g.State)
	}
	return nil
}

// resetScope lists the partitions whose offsets move.
func resetScope(ctx context.Context, adm *kadm.Client, f resetFlags, target resetTarget, committed kadm.OffsetResponses) (kadm.TopicsSet, error) {
	wanted := map[string][]int32{} // nil: all partitions
	switch {
	case f.all:
		committed.Each(func(o kadm.OffsetResponse) { wanted[o.Topic] = append(wanted[o.Topic], o.Partition) })
		if len(wanted) == 0 {
			return nil, errors.New("the group has no committed offsets; name topics with --topic")
		}
	case target.kind == "from-file":
		for _, row := range target.list {
			wanted[row.topic] = append(wanted[row.topic], row.partition)
		}
	default:
		for _, text := range f.topics {
			topic, partitions, err := parseTopicPartitions(text)
			if err != nil {
				return nil, usage(err)
			}
			if _, twice := wanted[topic]; twice {
				return nil, usage(fmt.Errorf("--topic names %s twice; write all its partitions into one", topic))
			}
			wanted[topic] = partitions
		}
	}
	return existing(ctx, adm, wanted, f.all)
}

// existing turns what is wanted into partitions that exist; skip leaves out topics that do not.
func existing(ctx context.Context, adm *kadm.Client, wanted map[string][]int32, skip bool) (kadm.TopicsSet, error) {
	names := make([]string, 0, len(wanted))
	for name := range wanted {
		names = append(names, name)
	}
	slices.Sort(names)
	details, err := adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	set := kadm.TopicsSet{}
	for _, name := range names {
		d, ok := details[name]
		if !ok || d.Err != nil {
			if skip {
				continue
			}
			return nil, notFound("topic %q does not exist; `rowtrail topics` lists them", name)
		}
		partitions := wanted[name]
		if partitions == nil {
			partitions = d.Partitions.Numbers()
		}
		for _, p := range partitions {
			if _, ok := d.Partitions[p]; !ok {
				return nil, notFound("topic %s has no partition %d; it has %d", name, p, len(d.Partitions))
			}
			set.Add(name, p)
		}
	}
	return set, nil
}

// parseTopicPartitions reads TOPIC or TOPIC:0,2.
func parseTopicPartitions(text string) (topic string, partitions []int32, err error) {
	topic, list, some := strings.Cut(text, ":")
	if topic == "" {
		return "", nil, fmt.Errorf("--topic %q names no topic; write TOPIC or TOPIC:0,2", text)
	}
	if !some {
		return topic, nil, nil
	}
	for _, part := range strings.Split(list, ",") {
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil || n < 0 {
			return "", nil, fmt.Errorf("--topic %q: %q is no partition; write TOPIC or TOPIC:0,2", text, part)
		}
		partitions = append(partitions, int32(n))
	}
	return topic, partitions, nil
}

// resetBounds are the offsets that a plan needs to know.
type resetBounds struct{ start, end, at kadm.ListedOffsets }

func readBounds(ctx context.Context, adm *kadm.Client, scope kadm.TopicsSet, target resetTarget) (b resetBounds, err error) {
	topics := scope.Topics()
	if len(topics) == 0 {
		return b, nil
	}
	if b.start, err = adm.ListStartOffsets(ctx, topics...); err == nil {
		b.end, err = adm.ListEndOffsets(ctx, topics...)
	}
	if err == nil && !target.time.IsZero() {
		b.at, err = adm.ListOffsetsAfterMilli(ctx, target.time.UnixMilli(), topics...)
	}
	if err == nil {
		err = errors.Join(b.start.Error(), b.end.Error(), b.at.Error())
	}
	if err != nil {
		return b, fmt.Errorf("list offsets: %w", err)
	}
	return b, nil
}

// planReset says where each partition's offset goes.
func planReset(target resetTarget, committed kadm.OffsetResponses, scope kadm.TopicsSet, b resetBounds) ([]resetLine, error) {
	lines := []resetLine{}
	for _, tp := range scope.Sorted() {
		for _, p := range tp.Partitions {
			line := resetLine{Topic: tp.Topic, Partition: p, Committed: -1}
			if o, ok := committed.Lookup(tp.Topic, p); ok {
				if o.Err != nil {
					return nil, fmt.Errorf("offset of %s-%d: %w", tp.Topic, p, o.Err)
				}
				line.Committed = o.At
			}
			start, _ := b.start.Lookup(tp.Topic, p)
			end, _ := b.end.Lookup(tp.Topic, p)
			at, _ := b.at.Lookup(tp.Topic, p)
			switch target.kind {
			case "to-earliest":
				line.New = start.Offset
			case "to-latest":
				line.New = end.Offset
			case "to-current":
				line.New = line.Committed
				if line.Committed < 0 {
					line.New, line.Note = end.Offset, "nothing is committed: the end"
				}
			case "to-offset":
				line.New = target.at
			case "shift-by":
				if line.Committed < 0 {
					return nil, fmt.Errorf("%s-%d has no committed offset to shift; use --to-earliest, --to-latest or --to-offset", tp.Topic, p)
				}
				line.New = line.Committed + target.at
				if target.at > 0 && line.New < line.Committed { // beyond what an offset can be
					line.New = end.Offset + 1
				}
			case "to-datetime", "by-duration":
				line.New = at.Offset
			case "from-file":
				for _, row := range target.list {
					if row.topic == tp.Topic && row.partition == p {
						line.New = row.offset
					}
				}
			}
			line.clip(start.Offset, end.Offset)
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// clip keeps an offset within the partition.
func (l *resetLine) clip(start, end int64) {
	switch {
	case l.New < start:
		l.Note = fmt.Sprintf("%d is before the start", l.New)
		l.New = start
	case l.New > end:
		l.Note = fmt.Sprintf("%d is behind the end", l.New)
		l.New = end
	}
}

func commitReset(ctx context.Context, adm *kadm.Client, group string, lines []resetLine) error {
	var offsets kadm.Offsets
	for _, l := range lines {
		offsets.Add(kadm.Offset{Topic: l.Topic, Partition: l.Partition, At: l.New, LeaderEpoch: -1})
	}
	switch err := adm.CommitAllOffsets(ctx, group, offsets); {
	case errors.Is(err, kerr.UnknownMemberID):
		return fmt.Errorf("group %s has members; stop them first, because their commits would win", group)
	case err != nil:
		return fmt.Errorf("commit the offsets of %s: %w", group, err)
	}
	return nil
}

func (a *app) printReset(report resetReport) error {
	if a.json() {
		return a.printJSON(report)
	}
	t := newTable(a.out, "TOPIC", "PARTITION", "COMMITTED", "NEW", "NOTE")
	for _, l := range report.Offsets {
		t.row(l.Topic, l.Partition, l.Committed, l.New, l.Note)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if !report.Executed {
		_, _ = fmt.Fprintln(a.err, "nothing was changed; add --execute to change the offsets")
	}
	return nil
}
