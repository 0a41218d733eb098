package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/cmd/rowtrail/daemon"
	"github.com/rowtrail/rowtrail/configs"
)

func (a *app) clusterJoinCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "join -c FILE",
		Short: "Ask the peers of a node's file whether the node would be let into their cluster",
		Long: `Ask the peers of a node's file whether the node would be let into their cluster, and change nothing. Starting it is what joins: a node on a
blank data directory whose cluster.peers name nodes of a cluster becomes one of it, and a drained or new node is given replicas by itself.`,
		Example: "  rowtrail cluster join -c node4.yaml && rowtrail serve -c node4.yaml",
		Args:    args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			return a.clusterJoin(cmd.Context(), cfg)
		},
	}
	return c
}

// joinTimeout bounds asking all peers.
const joinTimeout = 30 * time.Second

func (a *app) clusterJoin(ctx context.Context, cfg *configs.Config) error {
	if !cfg.Cluster.Enabled() {
		return fmt.Errorf("%s: cluster.listen is empty, so the node is a cluster by itself; set it, and cluster.peers to nodes of the cluster", cfg.File())
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	o, err := daemon.CheckJoin(ctx, cfg, a.version)
	if err != nil {
		return err
	}
	if a.json() {
		err = a.printJSON(o)
	} else {
		err = a.printJoin(cfg, &o)
	}
	if err == nil && o.Problem != "" {
		err = errors.New(o.Problem)
	}
	return err
}

func (a *app) printJoin(cfg *configs.Config, o *cluster.JoinOutlook) error {
	t := newTable(a.out, "PEER", "ADDRESS", "CLUSTER", "ERROR")
	for _, p := range o.Peers {
		t.row(p.ID, p.Address, p.Cluster, p.Error)
	}
	if err := t.flush(); err != nil || o.Problem != "" {
		return err
	}
	text := fmt.Sprintf("node %d would found a cluster with its peers", cfg.Node.ID)
	switch {
	case o.Member:
		text = fmt.Sprintf("node %d is in cluster %s already", cfg.Node.ID, o.Cluster)
	case o.Cluster != "":
		text = fmt.Sprintf("node %d would join cluster %s", cfg.Node.ID, o.Cluster)
	}
	_, err := fmt.Fprintf(a.out, "\n%s; start it: rowtrail serve -c %s\n", text, cfg.File())
	return err
}
