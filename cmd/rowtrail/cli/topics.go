package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/tasks"
)

// topicLine is one topic of `topics`; partitionLine one of its partitions.
type topicLine struct {
	Name       string            `json:"name"`
	Internal   bool              `json:"internal"`
	Offsets    int64             `json:"offsets"` // between start and end: records, and markers of transactions
	Partitions []partitionLine   `json:"partitions"`
	Config     map[string]string `json:"config,omitempty"` // of one topic that is asked for
}

type partitionLine struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"`      // this and the numbers that follow: -1 is not known
	LeaderEpoch int32   `json:"leaderEpoch"` // counts leaders
	Replicas    []int32 `json:"replicas"`    // the preferred leader first
	InSync      []int32 `json:"inSync"`
	// Offline: no leader is known that is alive. Else the two that follow may be true.
	Offline         bool  `json:"offline"`
	UnderReplicated bool  `json:"underReplicated"`
	NotPreferred    bool  `json:"notPreferred"`
	Start           int64 `json:"start"`
	LastStable      int64 `json:"lastStable"`
	End             int64 `json:"end"`
}

func newPartitionLine(p *kadm.PartitionDetail) partitionLine {
	l := partitionLine{Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: append([]int32{}, p.Replicas...), InSync: append([]int32{}, p.ISR...)}
	slices.Sort(l.InSync)
	if 2*len(p.OfflineReplicas) >= len(p.Replicas) && len(p.OfflineReplicas) > 0 {
		l.Leader = -1 // what is named only stands in for it: it can be read from
	}
	if l.Offline = l.Leader < 0 || slices.Contains(p.OfflineReplicas, p.Leader); !l.Offline {
		l.UnderReplicated = len(p.ISR) < len(p.Replicas)
		l.NotPreferred = len(p.Replicas) > 0 && p.Leader != p.Replicas[0]
	}
	return l
}

// state is what is not as it should be.
func (l *partitionLine) state() string {
	var out []string
	for _, x := range []struct {
		is   bool
		text string
	}{{l.Offline, "offline"}, {l.UnderReplicated, "under-replicated"}, {l.NotPreferred, "not preferred"}} {
		if x.is {
			out = append(out, x.text)
		}
	}
	return strings.Join(out, ", ")
}

func (a *app) topicsCommand() *cobra.Command {
	var internal bool
	c := &cobra.Command{
		Use:   "topics [TOPIC]",
		Short: "List topics, describe one, or create, alter and delete them",
		Long: `List topics, or describe one. OFFSETS counts what the topic holds between its start and its end: records, and the markers of
transactions, which take offsets too; what compaction has removed is counted as well.`,
		Example: "  rowtrail topics\n  rowtrail topics shop.public.orders --output json",
		Args:    args("[TOPIC]"),
	}
	c.RunE = func(cmd *cobra.Command, given []string) error { return a.showTopics(cmd.Context(), given, internal) }
	c.Flags().BoolVar(&internal, "internal", false, "list internal topics too")
	a.serverFlag(c)
	describe := &cobra.Command{
		Use:   "describe TOPIC",
		Short: "Print a topic with its partitions and configuration (as `rowtrail topics TOPIC`)",
		Long: `Print a topic with its partitions and configuration (as ` + "`rowtrail topics TOPIC`" + `). EPOCH counts the leaders of a partition. REPLICAS are nodes, the preferred leader
first; IN SYNC those that the leader counts on. STATE says what is not as it should be: offline (no leader is known that is alive), under-replicated (a replica is not in sync),
not preferred (another replica than the first one leads).`,
		Example: "  rowtrail topics describe shop.public.orders",
		Args:    args("TOPIC"),
		RunE:    func(cmd *cobra.Command, given []string) error { return a.showTopics(cmd.Context(), given, true) },
	}
	a.serverFlag(describe)
	c.AddCommand(describe, a.topicsCreateCommand(), a.topicsAlterCommand(), a.topicsDeleteCommand(), a.topicsDeleteRecordsCommand())
	return c
}

func (a *app) showTopics(ctx context.Context, given []string, internal bool) error {
	return a.administer(ctx, func(ctx context.Context, adm *kadm.Client) error {
		lines, err := topicLines(ctx, adm, given)
		if err != nil {
			return err
		}
		if len(given) == 1 {
			return a.printTopic(ctx, adm, lines[0])
		}
		if !internal {
			lines = slices.DeleteFunc(lines, func(l topicLine) bool { return l.Internal })
		}
		return a.printTopics(lines)
	})
}

func (a *app) printTopics(lines []topicLine) error {
	if a.json() {
		return a.printJSON(lines)
	}
	t := newTable(a.out, "TOPIC", "PARTITIONS", "OFFSETS")
	for _, l := range lines {
		t.row(l.Name, len(l.Partitions), l.Offsets)
	}
	return t.flush()
}

func topicLines(ctx context.Context, adm *kadm.Client, names []string) ([]topicLine, error) {
	details, err := adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	for _, name := range names {
		if d, ok := details[name]; !ok || d.Err != nil {
			return nil, notFound("topic %q does not exist; `rowtrail topics` lists them", name)
		}
	}
	all := details.Names()
	lines := make([]topicLine, 0, len(all))
	if len(all) == 0 {
		return lines, nil
	}
	starts, err := listed(ctx, adm.ListStartOffsets, all)
	if err != nil {
		return nil, fmt.Errorf("list start offsets: %w", err)
	}
	stable, err := listed(ctx, adm.ListCommittedOffsets, all)
	if err != nil {
		return nil, fmt.Errorf("list stable offsets: %w", err)
	}
	ends, err := listed(ctx, adm.ListEndOffsets, all)
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	for _, d := range details.Sorted() {
		line := topicLine{Name: d.Topic, Internal: d.IsInternal || d.Topic == tasks.Topic, Partitions: []partitionLine{}}
		for _, p := range d.Partitions.Sorted() {
			at := func(of kadm.ListedOffsets) int64 {
				o, ok := of.Lookup(d.Topic, p.Partition)
				if !ok || o.Err != nil {
					return -1
				}
				return o.Offset
			}
			part := newPartitionLine(&p)
			part.Start, part.LastStable, part.End = at(starts), at(stable), at(ends)
			if part.Start >= 0 && part.End >= part.Start {
				line.Offsets += part.End - part.Start
			}
			line.Partitions = append(line.Partitions, part)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// known is a number of a table; -1 stands for none.
func known(n int64) string {
	if n < 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// listTimeout bounds one question for offsets: where most replicas of a partition are away nobody tells its end, and a client asks on.
const listTimeout = 5 * time.Second

// listed asks for offsets; those that nobody tells are left out.
func listed(ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error), topics []string) (kadm.ListedOffsets, error) {
	timed, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	offsets, err := list(timed, topics...)
	if err = ofAll(err); err != nil && timed.Err() != nil && ctx.Err() == nil {
		return offsets, nil
	}
	return offsets, err
}

// ofAll is an error of listing offsets, unless all that failed is that of partitions whose leader is down: nothing is known of those.
func ofAll(err error) error {
	var some *kadm.ShardErrors
	if errors.As(err, &some) && (!some.AllFailed || errors.Is(err, kerr.LeaderNotAvailable)) {
		return nil
	}
	return err
}

func (a *app) printTopic(ctx context.Context, adm *kadm.Client, line topicLine) error {
	resources, err := adm.DescribeTopicConfigs(ctx, line.Name)
	if err != nil {
		return fmt.Errorf("describe topic: %w", err)
	}
	line.Config = map[string]string{}
	var names []string
	for _, r := range resources {
		for _, c := range r.Configs {
			line.Config[c.Key] = c.MaybeValue()
			names = append(names, c.Key)
		}
	}
	if a.json() {
		return a.printJSON(line)
	}
	t := newTable(a.out, "PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "STABLE", "END", "STATE")
	for i := range line.Partitions {
		p := &line.Partitions[i]
		t.row(p.Partition, known(int64(p.Leader)), known(int64(p.LeaderEpoch)), nodesText(p.Replicas), nodesText(p.InSync), known(p.Start), known(p.LastStable), known(p.End), p.state())
	}
	if err := t.flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.out); err != nil {
		return err
	}
	slices.Sort(names)
	t = newTable(a.out, "CONFIG", "VALUE")
	for _, name := range names {
		t.row(name, line.Config[name])
	}
	return t.flush()
}
