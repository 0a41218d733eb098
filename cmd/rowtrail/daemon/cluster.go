package daemon

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/configs"
)

// startNode brings up the node's Raft groups. On a blank data directory it waits until the cluster is founded or this node has joined it.
func (d *Daemon) startNode(ctx context.Context) error {
	c := d.cfg.Cluster
	server, client, err := openClusterCertificates(d.cfg, d.logger)
	if err != nil {
		return err
	}
	host, port := d.advertised()
	d.node, err = cluster.Start(ctx, cluster.Options{
		NodeID: d.cfg.Node.ID, ClusterID: d.cfg.Node.ClusterID, DataDir: d.cfg.Node.DataDir, Store: d.store, Logger: d.logger.With("part", "cluster"),
		Info:  cluster.NodeInfo{Address: d.clusterAddress(), Host: host, Port: port, Rack: d.cfg.Node.Rack, Version: d.opts.Version},
		Peers: peersOf(d.cfg), Listener: d.peers, ServerTLS: server, ClientTLS: client,
		ReplicaLagTime: c.ReplicaLagTimeMax.Duration(), TransferRate: int64(c.TransferRate),
		DefaultPartitions: d.cfg.Log.NumPartitions, ReplicationFactor: int16(d.cfg.Log.ReplicationFactor), //nolint:gosec // at most 100
		TopicDefaults: d.cfg.Log.TopicDefaults(), Waiting: func(what string) { d.waiting.Store(what) }, OnFatal: d.fail,
	})
	if err != nil {
		return fmt.Errorf("start cluster node: %w", err)
	}
	return nil
}

// CheckJoin asks the peers of a node that does not run whether they would let it into their cluster.
func CheckJoin(ctx context.Context, cfg *configs.Config, version string) (cluster.JoinOutlook, error) {
	_, client, err := openClusterCertificates(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return cluster.JoinOutlook{}, err
	}
	return cluster.CheckJoin(ctx, cluster.JoinCheck{
		NodeID: cfg.Node.ID, ClusterID: cfg.Node.ClusterID, DataDir: cfg.Node.DataDir, Peers: peersOf(cfg), ClientTLS: client,
		Info: cluster.NodeInfo{Address: string(cfg.ClusterAddress()), Rack: cfg.Node.Rack, Version: version},
	})
}

func peersOf(cfg *configs.Config) []cluster.Peer {
	peers := make([]cluster.Peer, len(cfg.Cluster.Peers))
	for i, p := range cfg.Cluster.Peers {
		peers[i] = cluster.Peer{ID: p.ID, Address: string(p.Address)}
	}
	return peers
}
