package daemon

import (
	"context"
	"fmt"

	"github.com/rowtrail/rowtrail/cluster"
)

// startNode brings up the node's Raft groups. On a blank data directory it waits until the cluster is founded or this node has joined it.
func (d *Daemon) startNode(ctx context.Context) error {
	c := d.cfg.Cluster
	server, client, err := openClusterCertificates(c.TLS, d.logger)
	if err != nil {
		return err
	}
	host, port := d.advertised()
	peers := make([]cluster.Peer, len(c.Peers))
	for i, p := range c.Peers {
		peers[i] = cluster.Peer{ID: p.ID, Address: string(p.Address)}
	}
	d.node, err = cluster.Start(ctx, cluster.Options{
		NodeID: d.cfg.Node.ID, ClusterID: d.cfg.Node.ClusterID, DataDir: d.cfg.Node.DataDir, Store: d.store, Logger: d.logger.With("part", "cluster"),
		Info:  cluster.NodeInfo{Address: d.clusterAddress(), Host: host, Port: port, Rack: d.cfg.Node.Rack, Version: d.opts.Version},
		Peers: peers, Listener: d.peers, ServerTLS: server, ClientTLS: client,
		ReplicaLagTime: c.ReplicaLagTimeMax.Duration(), TransferRate: int64(c.TransferRate),
		DefaultPartitions: d.cfg.Log.NumPartitions, ReplicationFactor: int16(d.cfg.Log.ReplicationFactor), //nolint:gosec // at most 100
		TopicDefaults: d.cfg.Log.TopicDefaults(), Waiting: func(what string) { d.waiting.Store(what) }, OnFatal: d.fail,
	})
	if err != nil {
		return fmt.Errorf("start cluster node: %w", err)
	}
	return nil
}
