package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/configs"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// progressEvery is how often commands that wait look again.
const progressEvery = time.Second

func (a *app) clusterCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Show the cluster, and let nodes join, drain and leave",
		Long: `Show the cluster, and let nodes join, drain and leave. Any node answers for all, over its HTTP listener; changes are taken on the
machine of a node alone. docs/cluster.md tells how a cluster is founded, changed and restarted.`,
		Example: "  rowtrail cluster status",
		Args:    args(),
		RunE: func(*cobra.Command, []string) error {
			return usage(errors.New("cluster: a subcommand is missing, as status; see `rowtrail cluster --help`"))
		},
	}
	c.AddCommand(a.clusterStatusCommand(), a.clusterJoinCommand(), a.clusterDrainCommand(), a.clusterUndrainCommand(), a.clusterRemoveCommand(),
		a.clusterMovesCommand(), a.clusterReassignCommand(), a.clusterCancelCommand(), a.clusterLeadersCommand())
	return c
}

func (a *app) overview(ctx context.Context) (cluster.Overview, error) {
	var o cluster.Overview
	err := a.ask(ctx, &o, "cluster")
	return o, err
}

func (a *app) clusterStatusCommand() *cobra.Command {
	var check bool
	var wait string
	c := &cobra.Command{
		Use:   "status",
		Short: "Print nodes, controllers, and partitions that lack a replica or a leader",
		Long: `Print nodes, controllers, and partitions that lack a replica or a leader. With --wait it waits until every node is alive and every replica
in sync, and fails if that takes longer: between two nodes of a rolling restart that is what to wait for.`,
		Example: "  rowtrail cluster status\n  rowtrail cluster status --wait 5m\n  rowtrail cluster status --check --output json",
		Args:    args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			limit := time.Duration(0)
			if wait != "" {
				var err error
				if limit, err = configs.ParseDuration(wait); err != nil {
					return usage(fmt.Errorf("--wait: %w", err))
				}
			}
			return a.clusterStatus(cmd.Context(), limit, check || wait != "")
		},
	}
	c.Flags().BoolVar(&check, "check", false, "exit with 1 unless every node is alive and every replica in sync")
	c.Flags().StringVar(&wait, "wait", "", "wait until it is so, at most for this time span (5m)")
	a.httpFlag(c)
	return c
}

func (a *app) clusterStatus(ctx context.Context, wait time.Duration, check bool) error {
	deadline := time.Now().Add(wait)
	for {
		o, err := a.overview(ctx)
		switch {
		case err == nil && o.Healthy():
			return a.printOverview(&o)
		case time.Now().Before(deadline): // a node that restarts does not answer, either
			if !sleep.For(ctx, progressEvery) {
				return ctx.Err()
			}
			continue
		case err != nil:
			return err
		}
		if err := a.printOverview(&o); err != nil {
			return err
		}
		if check {
			return errors.New("the cluster is not whole: " + strings.Join(ailments(&o), ", "))
		}
		return nil
	}
}

// ailments are what is not as it should be, in a few words each.
func ailments(o *cluster.Overview) []string {
	var out []string
	for _, n := range o.Nodes {
		if !n.Alive {
			out = append(out, fmt.Sprintf("node %d is not alive", n.ID))
		}
	}
	if o.Controller.Leader < 0 {
		out = append(out, "the controller has no leader")
	}
	if n := len(o.Offline); n > 0 {
		out = append(out, count(n, "partition")+" offline")
	}
	if n := len(o.UnderReplicated); n > 0 {
		out = append(out, count(n, "partition")+" under-replicated")
	}
	return out
}

// listedPartitions is how many partitions of a kind a table names; --output json has all.
const listedPartitions = 20

func (a *app) printOverview(o *cluster.Overview) error {
	if a.json() {
		return a.printJSON(o)
	}
	t := newTable(a.out, "NODE", "STATE", "RACK", "CONTROLLER", "REPLICAS", "LEADERS", "PREFERRED", "KAFKA", "PEERS", "VERSION")
	for i := range o.Nodes {
		n := &o.Nodes[i]
		t.row(n.ID, stateOf(n), n.Rack, n.Controller, n.Replicas, n.Leaders, n.Preferred, n.Kafka, n.Address, n.Version)
	}
	if err := t.flush(); err != nil {
		return err
	}
	leader := "none is known"
	if o.Controller.Leader >= 0 {
		leader = fmt.Sprintf("node %d", o.Controller.Leader)
	}
	_, err := fmt.Fprintf(a.out, "\nCluster %s, asked at node %d. Controller: %s, epoch %d, %d of %s alive.\n%s: %d offline, %d under-replicated, %d moving, %s.\n",
		o.Cluster, o.Node, leader, o.Controller.Epoch, o.Controller.Alive, count(len(o.Controller.Voters), "voter"), count(o.Partitions, "partition"),
		len(o.Offline), len(o.UnderReplicated), len(o.Moves), notPreferred(o, strconv.Itoa(o.NotPreferred)))
	if err != nil {
		return err
	}
	if err := a.printPartitions("OFFLINE", o.Offline); err != nil {
		return err
	}
	return a.printPartitions("UNDER-REPLICATED", o.UnderReplicated)
}

// notPreferred says how many partitions are not led by their preferred replica, and of how many that is not known: nobody leads them, or the node
// has just started and has not heard yet who does.
func notPreferred(o *cluster.Overview, number string) string {
	text := number + " not led by the preferred replica"
	if n := len(o.Offline); n > 0 {
		text += fmt.Sprintf(", not known of %d", n)
	}
	return text
}

func stateOf(n *cluster.NodeOverview) string {
	state := "alive"
	if !n.Alive {
		state = "dead"
	}
	if n.Draining {
		state += ", draining"
	}
	return state
}

func (a *app) printPartitions(head string, list []cluster.PartitionOverview) error {
	if len(list) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(a.out); err != nil {
		return err
	}
	t := newTable(a.out, head, "LEADER", "REPLICAS", "IN SYNC")
	for i, p := range list {
		if i == listedPartitions {
			t.row(fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		t.row(partitionName(p.Topic, p.Partition), p.Leader, nodesText(p.Replicas), nodesText(p.InSync))
	}
	return t.flush()
}

func partitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s-%d", topic, partition)
}

func nodesText(nodes []int32) string {
	texts := make([]string, len(nodes))
	for i, n := range nodes {
		texts[i] = strconv.Itoa(int(n))
	}
	return strings.Join(texts, ",")
}

func (a *app) clusterMovesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "moves",
		Short:   "Print the partitions whose replicas are moving, and how far they are",
		Long:    "Print the partitions whose replicas are moving, and how many entries of the leader's log those that come have still to get.",
		Example: "  rowtrail cluster moves\n  rowtrail cluster moves --output json",
		Args:    args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := a.overview(cmd.Context())
			switch {
			case err != nil:
				return err
			case a.json():
				return a.printJSON(o.Moves)
			}
			return a.printMoves(o.Moves)
		},
	}
	a.httpFlag(c)
	return c
}

func (a *app) printMoves(moves []cluster.MoveOverview) error {
	t := newTable(a.out, "PARTITION", "LEADER", "FROM", "TO", "ENTRIES BEHIND")
	for _, m := range moves {
		t.row(partitionName(m.Topic, m.Partition), m.Leader, nodesText(m.Replicas), nodesText(m.Target), behindText(&m))
	}
	return t.flush()
}

// behindText names the replicas that come.
func behindText(m *cluster.MoveOverview) string {
	var parts []string
	for _, n := range m.Target {
		if slices.Contains(m.Replicas, n) {
			continue
		}
		text := "unknown"
		if behind, ok := m.Behind[n]; ok {
			text = strconv.FormatUint(behind, 10)
		}
		parts = append(parts, fmt.Sprintf("node %d: %s", n, text))
	}
	return strings.Join(parts, ", ")
}

func (a *app) clusterLeadersCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "leaders",
		Short: "Print how many partitions each node leads, and which are led by another than the preferred replica",
		Long: `Print how many partitions each node leads, and which are led by another than the preferred replica, which is the first one. Leadership goes back to it
by itself once it has caught up.`,
		Example: "  rowtrail cluster leaders\n  rowtrail cluster leaders --output json",
		Args:    args(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.clusterLeaders(cmd.Context()) },
	}
	a.httpFlag(c)
	return c
}

// leadersLine is one node of `cluster leaders`.
type leadersLine struct {
	Node      int32 `json:"node"`
	Leaders   int   `json:"leaders"`
	Preferred int   `json:"preferred"`
}

func (a *app) clusterLeaders(ctx context.Context) error {
	o, err := a.overview(ctx)
	if err != nil {
		return err
	}
	lines := make([]leadersLine, len(o.Nodes))
	for i, n := range o.Nodes {
		lines[i] = leadersLine{n.ID, n.Leaders, n.Preferred}
	}
	if a.json() {
		return a.printJSON(map[string]any{"nodes": lines, "notPreferred": o.NotPreferred, "unknown": len(o.Offline)})
	}
	t := newTable(a.out, "NODE", "LEADERS", "PREFERRED")
	for _, l := range lines {
		t.row(l.Node, l.Leaders, l.Preferred)
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "\n%s.\n", notPreferred(&o, count(o.NotPreferred, "partition")))
	return err
}
