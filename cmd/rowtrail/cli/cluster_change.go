package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// nodeID reads a node's number.
func nodeID(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, usage(fmt.Errorf("%q is no node's number; `rowtrail cluster status` lists them", text))
	}
	return int32(n), nil
}

func (a *app) clusterDrainCommand() *cobra.Command {
	var leave bool
	c := &cobra.Command{
		Use:   "drain NODE",
		Short: "Move everything away from a node, and wait until it is done",
		Long: `Move everything away from a node, and wait until it is done, printing how far it is. Nothing is placed there any more until ` + "`rowtrail cluster undrain`" + `.
What was begun goes on when the command is interrupted; with --no-wait it does not wait at all.`,
		Example: "  rowtrail cluster drain 3\n  rowtrail cluster drain 3 --no-wait",
		Args:    args("NODE"),
		RunE: func(cmd *cobra.Command, given []string) error {
			node, err := nodeID(given[0])
			if err != nil {
				return err
			}
			if err := a.post(cmd.Context(), admin.DrainRequest{Node: node, On: true}, "cluster", "drain"); err != nil {
				return err
			}
			if leave {
				return a.done("node %d is draining; `rowtrail cluster moves` shows how far it is", node)
			}
			return a.waitDrained(cmd.Context(), node)
		},
	}
	c.Flags().BoolVar(&leave, "no-wait", false, "do not wait until it is done")
	a.httpFlag(c)
	return c
}

// done says what was done.
func (a *app) done(format string, arguments ...any) error {
	text := fmt.Sprintf(format, arguments...)
	if a.json() {
		return a.printJSON(map[string]string{"done": text})
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// drainProgress is a line of `cluster drain`.
type drainProgress struct {
	Node     int32 `json:"node"`
	Replicas int   `json:"replicas"` // still on the node
	Moving   int   `json:"moving"`   // partitions of the cluster
	Stuck    int   `json:"stuck"`    // that no other node can take
}

// unanswered is how often in a row a node may not answer while a command waits for progress.
const unanswered = 15

func (a *app) waitDrained(ctx context.Context, node int32) error {
	var said drainProgress
	failures := 0
	for first := true; ; first = false {
		o, err := a.overview(ctx)
		if err != nil {
			if failures++; failures > unanswered || ctx.Err() != nil {
				return err
			}
		} else {
			failures = 0
			now, ok := progressOf(&o, node)
			switch {
			case !ok:
				return notFound("node %d was removed meanwhile", node)
			case now.Replicas == 0:
				return a.done("node %d is drained: nothing is on it; `rowtrail cluster remove %d` takes it out of the cluster", node, node)
			case now.Stuck == now.Replicas && now.Moving == 0:
				return fmt.Errorf("node %d keeps %s that no other node can take: they would need another node that is alive and not draining; add one, or give the partitions fewer replicas with `rowtrail cluster reassign`; it goes on draining then, unless `rowtrail cluster undrain %d` takes that back",
					node, count(now.Replicas, "replica"), node)
			}
			if first || now != said {
				said = now
				if err := a.printProgress(now); err != nil {
					return err
				}
			}
		}
		if !sleep.For(ctx, progressEvery) {
			return ctx.Err()
		}
	}
}

func progressOf(o *cluster.Overview, node int32) (drainProgress, bool) {
	for _, n := range o.Nodes {
		if n.ID == node {
			return drainProgress{node, n.Replicas, len(o.Moves), n.Stuck}, true
		}
	}
	return drainProgress{}, false
}

func (a *app) printProgress(p drainProgress) error {
	if a.json() {
		return a.printJSON(p)
	}
	text := fmt.Sprintf("node %d: %s left, %s moving", p.Node, count(p.Replicas, "replica"), count(p.Moving, "partition"))
	if p.Stuck > 0 {
		text += fmt.Sprintf(", %d without a node to go to", p.Stuck)
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

func (a *app) clusterUndrainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "undrain NODE",
		Short:   "Let replicas be placed on a drained node again",
		Long:    "Let replicas be placed on a drained node again. The cluster moves some there by itself, a few at a time.",
		Example: "  rowtrail cluster undrain 3",
		Args:    args("NODE"),
		RunE: func(cmd *cobra.Command, given []string) error {
			node, err := nodeID(given[0])
			if err != nil {
				return err
			}
			if err := a.post(cmd.Context(), admin.DrainRequest{Node: node}, "cluster", "drain"); err != nil {
				return err
			}
			return a.done("node %d takes replicas again", node)
		},
	}
	a.httpFlag(c)
	return c
}

func (a *app) clusterRemoveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "remove NODE",
		Short: "Take a drained node out of the cluster",
		Long: `Take a drained node out of the cluster, for good: its process ends by itself, and refuses to start with the data directory that it has. Remove it from
cluster.peers of the others. On an empty data directory it would join as a new node.`,
		Example: "  rowtrail cluster remove 3",
		Args:    args("NODE"),
		RunE: func(cmd *cobra.Command, given []string) error {
			node, err := nodeID(given[0])
			if err != nil {
				return err
			}
			if err := a.post(cmd.Context(), admin.RemoveRequest{Node: node}, "cluster", "remove"); err != nil {
				return err
			}
			return a.done("node %d is out of the cluster; its process ends, and does not start again on its data directory", node)
		},
	}
	a.httpFlag(c)
	return c
}

func (a *app) clusterReassignCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "reassign TOPIC PARTITION NODES",
		Short: "Move a partition's replicas to nodes, the first of which is to lead",
		Long: `Move a partition's replicas to nodes, the first of which is to lead; more or fewer than there are is a change of the replication factor. It returns
when the move is decided; ` + "`rowtrail cluster moves`" + ` shows how far it is.`,
		Example: "  rowtrail cluster reassign shop.public.orders 0 1,2,4",
		Args:    args("TOPIC", "PARTITION", "NODES"),
		RunE: func(cmd *cobra.Command, given []string) error {
			partition, err := partitionNumber(given[1])
			if err != nil {
				return err
			}
			r := admin.ReassignRequest{Topic: given[0], Partition: partition}
			for text := range strings.SplitSeq(given[2], ",") {
				node, err := nodeID(strings.TrimSpace(text))
				if err != nil {
					return err
				}
				r.Nodes = append(r.Nodes, node)
			}
			if err := a.post(cmd.Context(), r, "cluster", "reassign"); err != nil {
				return err
			}
			return a.done("%s moves to nodes %s", partitionName(r.Topic, r.Partition), nodesText(r.Nodes))
		},
	}
	a.httpFlag(c)
	return c
}

func partitionNumber(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, usage(fmt.Errorf("%q is no partition's number", text))
	}
	return int32(n), nil
}

func (a *app) clusterCancelCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "cancel [TOPIC] [PARTITION]",
		Short: "Cancel a partition's move, or with --all every move",
		Long: `Cancel a partition's move, or with --all every move. Its replicas stay where they were, and what was copied is deleted. A draining node's moves are
begun again by the cluster: undrain it first.`,
		Example: "  rowtrail cluster cancel shop.public.orders 0\n  rowtrail cluster cancel --all",
		Args:    args("[TOPIC]", "[PARTITION]"),
		RunE: func(cmd *cobra.Command, given []string) error {
			if all == (len(given) > 0) || len(given) == 1 {
				return usage(errors.New("cluster cancel: name a topic and a partition, or --all"))
			}
			if all {
				return a.cancelAll(cmd.Context())
			}
			partition, err := partitionNumber(given[1])
			if err != nil {
				return err
			}
			if err := a.post(cmd.Context(), admin.ReassignRequest{Topic: given[0], Partition: partition}, "cluster", "reassign"); err != nil {
				return err
			}
			return a.done("the move of %s is cancelled", partitionName(given[0], partition))
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every move that is under way")
	a.httpFlag(c)
	return c
}

func (a *app) cancelAll(ctx context.Context) error {
	o, err := a.overview(ctx)
	if err != nil {
		return err
	}
	cancelled := 0
	for _, m := range o.Moves {
		err := a.post(ctx, admin.ReassignRequest{Topic: m.Topic, Partition: m.Partition}, "cluster", "reassign")
		if f := (*failure)(nil); errors.As(err, &f) && f.code == ExitNotFound {
			continue // over meanwhile
		}
		if err != nil {
			return err
		}
		cancelled++
	}
	return a.done("%s cancelled", count(cancelled, "move"))
}
