package admin

import (
	"context"
	"strconv"
)

// cluster shows what this node sees of its cluster; it asks no other node.
func (c *collector) cluster(emit emitter) (hidden int) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o := c.opts.Cluster.Overview(ctx)
	states := map[string]int{"alive": 0, "dead": 0, "draining": 0}
	leads, follows := 0, 0
	for _, n := range o.Nodes {
		if n.Alive {
			states["alive"]++
		} else {
			states["dead"]++
		}
		if n.Draining {
			states["draining"]++
		}
		if n.ID == o.Node {
			leads, follows = n.Leaders, max(n.Replicas-n.Leaders, 0)
		}
	}
	for state, count := range states {
		emit("rowtrail_cluster_nodes", float64(count), state)
	}
	emit("rowtrail_cluster_controller", float64(o.Controller.Leader))
	emit("rowtrail_cluster_is_controller", flag(o.Controller.Leader == o.Node))
	emit("rowtrail_cluster_partitions", float64(o.Partitions))
	emit("rowtrail_cluster_under_replicated_partitions", float64(len(o.UnderReplicated)))
	emit("rowtrail_cluster_offline_partitions", float64(len(o.Offline)))
	emit("rowtrail_cluster_not_preferred_leaders", float64(o.NotPreferred))
	emit("rowtrail_cluster_moves", float64(len(o.Moves)))
	emit("rowtrail_replica_count", float64(leads), "leader")
	emit("rowtrail_replica_count", float64(follows), "follower")
	series := 0
	for _, l := range c.opts.Cluster.Lags(false) {
		if l.Internal {
			continue
		}
		if series++; series > maxSeries {
			hidden++
			continue
		}
		emit("rowtrail_replica_lag_entries", float64(l.Entries), l.Topic, strconv.Itoa(int(l.Partition)), strconv.Itoa(int(l.Node)))
	}
	m := c.opts.Cluster.Metrics()
	emit("rowtrail_raft_elections_total", float64(m.Elections))
	emit("rowtrail_raft_leader_changes_total", float64(m.LeaderChanges))
	emit("rowtrail_insync_shrinks_total", float64(m.InSyncShrinks))
	emit("rowtrail_insync_expands_total", float64(m.InSyncExpands))
	emit("rowtrail_raftsnapshots_sending", float64(m.Transfers.Sending))
	emit("rowtrail_raftsnapshot_sent_bytes_total", float64(m.Transfers.SentBytes))
	emit("rowtrail_raftsnapshot_received_bytes_total", float64(m.Transfers.ReceivedBytes))
	emit("rowtrail_raftsnapshot_failures_total", float64(m.Transfers.Failed))
	for _, n := range o.Nodes {
		if n.ID != o.Node {
			emit("rowtrail_peer_connected", flag(m.Connected[n.ID]), strconv.Itoa(int(n.ID)))
		}
	}
	emit("rowtrail_peer_connections", float64(m.Peers.Accepted), "accepted")
	emit("rowtrail_peer_connections", float64(m.Peers.Dialed), "dialed")
	emit("rowtrail_peer_sent_bytes_total", float64(m.Peers.SentBytes))
	emit("rowtrail_peer_received_bytes_total", float64(m.Peers.ReceivedBytes))
	emit("rowtrail_peer_queue_bytes", float64(m.Peers.QueueBytes))
	emit("rowtrail_peer_dropped_frames_total", float64(m.Peers.DroppedFrames))
	return hidden
}
