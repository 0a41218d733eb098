package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// groupLine is one consumer group of `groups`; offsetLine one partition that it reads.
type groupLine struct {
	Group    string       `json:"group"`
	State    string       `json:"state"`
	Protocol string       `json:"protocol,omitempty"` // assignor of this generation
	Members  int          `json:"members"`
	Lag      int64        `json:"lag"` // records, all partitions
	Error    string       `json:"error,omitempty"`
	Offsets  []offsetLine `json:"offsets"`
	Assigned []memberLine `json:"assigned,omitempty"`
}

// memberLine is one member of a group that is described.
type memberLine struct {
	Member   string             `json:"member"`
	Instance string             `json:"instance,omitempty"` // of a static member
	Client   string             `json:"client"`
	Host     string             `json:"host"`
	Reads    map[string][]int32 `json:"reads"` // partitions by topic
}

type offsetLine struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"` // -1: nothing committed
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"`
	Member    string `json:"member,omitempty"`
}

func (a *app) groupsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "groups [GROUP]",
		Short:   "List consumer groups with their lag, describe one, or change its offsets",
		Example: "  rowtrail groups\n  rowtrail groups rowtrail-sink-warehouse --output json",
		Args:    args("[GROUP]"),
		RunE:    a.showGroups,
	}
	a.serverFlag(c)
	describe := &cobra.Command{
		Use:     "describe GROUP",
		Short:   "Print a group with its members, offsets and lag (as `rowtrail groups GROUP`)",
		Example: "  rowtrail groups describe rowtrail-sink-warehouse",
		Args:    args("GROUP"),
		RunE:    a.showGroups,
	}
	a.serverFlag(describe)
	c.AddCommand(describe, a.groupsResetCommand(), a.groupsDeleteCommand(), a.groupsDeleteOffsetsCommand())
	return c
}

func (a *app) showGroups(cmd *cobra.Command, given []string) error {
	return a.administer(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
		lines, err := groupLines(ctx, adm, given)
		switch {
		case err != nil:
			return err
		case a.json() && len(given) == 1:
			return a.printJSON(lines[0])
		case a.json():
			return a.printJSON(lines)
		case len(given) == 1:
			return a.printGroup(lines[0])
		}
		return a.printGroups(lines)
	})
}

func (a *app) printGroups(lines []groupLine) error {
	t := newTable(a.out, "GROUP", "STATE", "MEMBERS", "PARTITIONS", "LAG", "ERROR")
	for _, l := range lines {
		t.row(l.Group, l.State, l.Members, len(l.Offsets), l.Lag, l.Error)
	}
	return t.flush()
}

func groupLines(ctx context.Context, adm *kadm.Client, names []string) ([]groupLine, error) {
	lines := []groupLine{}
	listed, err := adm.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	for _, name := range names {
		if _, ok := listed[name]; !ok {
			return nil, notFound("group %q does not exist; `rowtrail groups` lists them", name)
		}
	}
	if len(names) == 0 {
		names = listed.Groups()
	}
	if len(names) == 0 {
		return lines, nil
	}
	var classic, consumers []string
	for _, name := range names {
		if strings.EqualFold(listed[name].GroupType, "consumer") {
			consumers = append(consumers, name)
		} else {
			classic = append(classic, name)
		}
	}
	if len(classic) > 0 {
		lags, err := adm.Lag(ctx, classic...)
		if err != nil {
			return nil, fmt.Errorf("read group lags: %w", err)
		}
		for _, g := range lags.Sorted() {
			lines = append(lines, newGroupLine(g))
		}
	}
	more, err := consumerLines(ctx, adm, consumers)
	if err != nil {
		return nil, err
	}
	lines = append(lines, more...)
	slices.SortFunc(lines, func(a, b groupLine) int { return strings.Compare(a.Group, b.Group) })
	return lines, nil
}

func newGroupLine(g kadm.DescribedGroupLag) groupLine {
	line := groupLine{Group: g.Group, State: g.State, Protocol: g.Protocol, Members: len(g.Members), Offsets: []offsetLine{}}
	for _, m := range g.Members {
		ml := memberLine{Member: m.MemberID, Client: m.ClientID, Host: strings.TrimPrefix(m.ClientHost, "/"), Reads: map[string][]int32{}}
		if m.InstanceID != nil {
			ml.Instance = *m.InstanceID
		}
		if c, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range c.Topics {
				ml.Reads[t.Topic] = slices.Sorted(slices.Values(t.Partitions))
			}
		}
		line.Assigned = append(line.Assigned, ml)
	}
	if err := errors.Join(g.DescribeErr, g.FetchErr); err != nil {
		line.Error = err.Error()
	}
	for _, l := range g.Lag.Sorted() {
		if errors.Is(l.Err, kerr.UnknownTopicOrPartition) {
			continue // the topic is gone, the offset is left
		}
		o := offsetLine{Topic: l.Topic, Partition: l.Partition, Committed: l.Commit.At, End: l.End.Offset, Lag: l.Lag}
		if l.Member != nil {
			o.Member = l.Member.ClientID
		}
		line.Lag += max(l.Lag, 0)
		line.Offsets = append(line.Offsets, o)
	}
	return line
}

func (a *app) printGroup(line groupLine) error {
	if _, err := fmt.Fprintf(a.out, "%s: %s, %d members, %d records behind\n\n", line.Group, line.State, line.Members, line.Lag); err != nil {
		return err
	}
	t := newTable(a.out, "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER")
	for _, o := range line.Offsets {
		t.row(o.Topic, o.Partition, o.Committed, o.End, o.Lag, o.Member)
	}
	if err := t.flush(); err != nil || len(line.Assigned) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(a.out); err != nil {
		return err
	}
	t = newTable(a.out, "MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS")
	for _, m := range line.Assigned {
		t.row(m.Member, m.Instance, m.Client, m.Host, m.partitions())
	}
	return t.flush()
}

// partitions is what the member reads in one cell: orders:0,1 customers:2.
func (m *memberLine) partitions() string {
	var b strings.Builder
	for _, topic := range slices.Sorted(maps.Keys(m.Reads)) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(topic)
		for i, p := range m.Reads[topic] {
			fmt.Fprintf(&b, "%c%d", ":,"[min(i, 1)], p)
		}
	}
	return b.String()
}
