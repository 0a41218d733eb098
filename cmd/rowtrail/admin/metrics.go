package admin

import (
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/sink"
)

// maxSeries bounds each of the per-partition and per-group families; what is beyond is counted, not shown.
const maxSeries = 5000

func newRegistry(opts Options) (*prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newCollector(opts),
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return registry, nil
}

// Metric describes one family, for the collector and for docs/metrics.md.
type Metric struct {
	Name   string
	Kind   prometheus.ValueType
	Labels []string
	Help   string
}

// Metrics lists every family of ours; the Go runtime's and the process's come on top.
func Metrics() []Metric {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	connector, snk, group, partition := []string{"connector"}, []string{"sink"}, []string{"group", "topic", "partition"}, []string{"topic", "partition"}
	return []Metric{
		{"rowtrail_build_info", gauge, []string{"version", "go"}, "Always 1; the version is in the labels."},
		{"rowtrail_connections", gauge, nil, "Open network connections of Kafka clients."},
		{"rowtrail_connections_refused_total", counter, []string{"reason"}, "Connections of Kafka clients that were not let in: max_connections or max_connections_per_ip."},
		{"rowtrail_connections_closed_total", counter, []string{"reason"}, "Connections of Kafka clients that ended: client (hung up), idle, slow, malformed, tls, authentication, expired (log-in not renewed), shutdown or error."},
		{"rowtrail_authentication_failures_total", counter, nil, "Log-ins of Kafka clients that failed."},
		{"rowtrail_throttled_seconds_total", counter, []string{"quota"}, "Waits that clients were told because of a client quota, also of connections that then ended."},
		{"rowtrail_request_seconds_total", counter, nil, "Threads' time that requests of Kafka clients took, as the quota request_percentage counts it; 1 in a second is 100 percent."},
		{"rowtrail_ready", gauge, nil, "1 when /readyz answers 200."},

		{"rowtrail_connector_here", gauge, connector, "1 when this node runs the connector. 0: another node or none does, and its other metrics are absent here."},
		{"rowtrail_connector_state", gauge, []string{"connector", "type", "state"}, "1 for the state that the connector is in, 0 for the others."},
		{"rowtrail_connector_lag_bytes", gauge, connector, "Bytes of the source's log that are not in our log yet."},
		{"rowtrail_connector_lag_events", gauge, connector, "Events that are read but not committed in the log yet."},
		{"rowtrail_connector_lag_seconds", gauge, connector, "Age of the oldest source transaction that is read but not committed in the log."},
		{"rowtrail_connector_events_total", counter, connector, "Events committed in the log since the process started."},
		{"rowtrail_connector_transactions_total", counter, connector, "Source transactions committed in the log since the process started."},
		{"rowtrail_connector_bytes_total", counter, connector, "Key and value bytes committed in the log since the process started."},
		{"rowtrail_connector_parked_tables", gauge, connector, "Tables that are parked: their changes wait, raw, until someone mends what stands in their way."},
		{"rowtrail_connector_parked_changes", gauge, connector, "Changes of parked tables that wait."},
		{"rowtrail_connector_parked_bytes", gauge, connector, "Bytes of what waits of parked tables."},
		{"rowtrail_connector_load_tables", gauge, connector, "Tables of the running initial load; absent when none runs."},
		{"rowtrail_connector_load_tables_done", gauge, connector, "Tables of the initial load that are in the log."},
		{"rowtrail_connector_load_rows", gauge, connector, "Rows of the initial load that are read."},
		{"rowtrail_connector_load_rows_estimated", gauge, connector, "Rows that the initial load expects, by the source's statistics."},

		{"rowtrail_sink_here", gauge, snk, "1 when this node runs the sink. 0: another node or none does, and its other metrics are absent here."},
		{"rowtrail_sink_state", gauge, []string{"sink", "type", "state"}, "1 for the state that the sink is in, 0 for the others."},
		{"rowtrail_sink_lag_events", gauge, snk, "Records of the topics that are not applied yet."},
		{"rowtrail_sink_lag_bytes", gauge, snk, "Stored bytes of those records, estimated from each partition's mean."},
		{"rowtrail_sink_lag_seconds", gauge, snk, "Age of the oldest of them; while the target is down since the start, how long there has been lag."},
		{"rowtrail_sink_events_total", counter, snk, "Events applied since the process started."},
		{"rowtrail_sink_transactions_total", counter, snk, "Source transactions applied since the process started."},
		{"rowtrail_sink_poisoned", gauge, snk, "1 when a record that cannot be applied stopped the sink."},

		{"rowtrail_group_lag_events", gauge, group, "Records behind the group's committed offset, up to the end that a reader sees."},
		{"rowtrail_group_lag_bytes", gauge, group, "Stored bytes of those records, estimated from the partition's mean."},
		{"rowtrail_group_lag_seconds", gauge, group, "Age of the oldest record behind the committed offset."},
		{"rowtrail_group_members", gauge, []string{"group", "state"}, "Members of the consumer group."},

		{"rowtrail_partition_high_watermark", gauge, partition, "Offset after the last committed record."},
		{"rowtrail_partition_last_stable_offset", gauge, partition, "Offset up to which transactional readers see."},
		{"rowtrail_partition_log_start_offset", gauge, partition, "Offset of the oldest record."},
		{"rowtrail_partition_bytes", gauge, partition, "Stored bytes of the partition's batches."},
		{"rowtrail_partition_dirty_bytes", gauge, partition, "Stored bytes that compaction has not gone over yet; of compacted topics only, as are the next three."},
		{"rowtrail_partition_dirty_ratio", gauge, partition, "Their share of the partition's stored bytes, which min.cleanable.dirty.ratio is compared with."},
		{"rowtrail_partition_last_compaction_seconds", gauge, partition, "Unix time of the last round of compaction; absent when there was none since the partition was opened."},
		{"rowtrail_partition_compaction_stopped", gauge, partition, "1 when compaction failed and the partition is put aside; the node's log names the place."},
		{"rowtrail_view_lag_records", gauge, []string{"topic"}, "Records that the topic's state and history view has not folded yet."},

		{"rowtrail_cluster_nodes", gauge, []string{"state"}, "Nodes of the cluster by state, as this node sees them: alive, dead or draining (which are one of the others, too)."},
		{"rowtrail_cluster_controller", gauge, nil, "Node that leads the controller's log; -1 when none is known."},
		{"rowtrail_cluster_is_controller", gauge, nil, "1 on the node that leads the controller's log: sum it over the nodes, which should be 1."},
		{"rowtrail_cluster_partitions", gauge, nil, "Partitions of all topics, internal ones too; as this node sees them, as are the next four."},
		{"rowtrail_cluster_under_replicated_partitions", gauge, nil, "Partitions with a leader that have a replica out of sync."},
		{"rowtrail_cluster_offline_partitions", gauge, nil, "Partitions without a leader that is alive."},
		{"rowtrail_cluster_not_preferred_leaders", gauge, nil, "Partitions that another replica than the first one leads. Offline ones are not among them."},
		{"rowtrail_cluster_moves", gauge, nil, "Partitions whose replicas are moving."},
		{"rowtrail_replica_count", gauge, []string{"role"}, "This node's replicas, by what they are: leader or follower."},
		{"rowtrail_replica_lag_entries", gauge, []string{"topic", "partition", "node"}, "Entries of the Raft log that a follower has not got on its disk yet; of the partitions that this node leads."},
		{"rowtrail_raft_elections_total", counter, nil, "Elections that replicas of this node stood in."},
		{"rowtrail_raft_leader_changes_total", counter, nil, "Other leaders than before that replicas of this node followed, or became."},
		{"rowtrail_insync_shrinks_total", counter, nil, "Times that a replica fell out of sync with a partition that this node leads."},
		{"rowtrail_insync_expands_total", counter, nil, "Times that a replica came into sync with a partition that this node leads."},
		{"rowtrail_raftsnapshots_sending", gauge, nil, "RaftSnapshots that are being sent to replicas that begin anew or were away too long."},
		{"rowtrail_raftsnapshot_sent_bytes_total", counter, nil, "Bytes of raftSnapshots sent; cluster.transfer_rate bounds them."},
		{"rowtrail_raftsnapshot_received_bytes_total", counter, nil, "Bytes of raftSnapshots received."},
		{"rowtrail_raftsnapshot_failures_total", counter, nil, "Transfers of raftSnapshots that broke; they go on where they stopped."},
		{"rowtrail_peer_connected", gauge, []string{"node"}, "1 while heartbeats can be sent to the node."},
		{"rowtrail_peer_connections", gauge, []string{"side"}, "Connections between nodes that are open: accepted, or dialed for heartbeats and appends."},
		{"rowtrail_peer_sent_bytes_total", counter, nil, "Bytes of Raft's messages sent to other nodes."},
		{"rowtrail_peer_received_bytes_total", counter, nil, "Bytes of Raft's messages received from other nodes."},
		{"rowtrail_peer_queue_bytes", gauge, nil, "Bytes of Raft's messages that wait to be sent."},
		{"rowtrail_peer_dropped_frames_total", counter, nil, "Frames of Raft's messages that were dropped, as their node could not be reached or did not keep up; Raft repeats them."},

		{"rowtrail_log_syncs_total", counter, nil, "Syncs of the log to disk."},
		{"rowtrail_log_mutations_total", counter, nil, "Turns of partitions made durable; divided by syncs: how many share one."},
		{"rowtrail_log_committed_bytes_total", counter, nil, "Bytes made durable."},
		{"rowtrail_log_disk_bytes", gauge, nil, "Bytes of the log on disk."},
		{"rowtrail_log_garbage_bytes", gauge, nil, "Bytes of the log on disk that no retained record needs and garbage collection has not given back."},
		{"rowtrail_log_slowed_seconds_total", counter, nil, "Time that appends were held back so that garbage collection keeps up."},
		{"rowtrail_log_disk_free_bytes", gauge, nil, "Free bytes of the data directory's file system."},
		{"rowtrail_compaction_rounds_total", counter, nil, "Rounds of compaction since the process started."},
		{"rowtrail_compaction_failures_total", counter, nil, "Rounds that failed."},
		{"rowtrail_compaction_read_bytes_total", counter, nil, "Bytes of batches read for compaction."},
		{"rowtrail_compaction_written_bytes_total", counter, nil, "Bytes of batches that compaction wrote again."},
		{"rowtrail_compaction_reclaimed_bytes_total", counter, nil, "Bytes by which compaction made partitions smaller."},
		{"rowtrail_compaction_removed_records_total", counter, nil, "Records and markers that compaction removed."},
		{"rowtrail_compaction_progress", gauge, nil, "How far the round that is running has come, from 0 to 1; 0 when none is."},
		{"rowtrail_topics", gauge, []string{"internal"}, "Topics of the catalogue."},
		{"rowtrail_metrics_hidden_series", gauge, nil, "Partition and group series left out, because there are more than the limit."},
	}
}

// collector reads the node at each scrape; it keeps nothing.
type collector struct {
	opts  Options
	descs map[string]*prometheus.Desc
	kinds map[string]prometheus.ValueType
}

func newCollector(opts Options) *collector {
	c := &collector{opts: opts, descs: map[string]*prometheus.Desc{}, kinds: map[string]prometheus.ValueType{}}
	for _, m := range Metrics() {
		c.descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
		c.kinds[m.Name] = m.Kind
	}
	return c
}

func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	emit := func(name string, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(c.descs[name], c.kinds[name], value, labels...)
	}
	emit("rowtrail_build_info", 1, c.opts.Version, runtime.Version())
	emit("rowtrail_ready", flag(len(c.opts.Node.NotReady()) == 0))
	c.connectors(emit)
	c.sinks(emit)
	if c.opts.Elsewhere == "" {
		c.log(emit)
	}
}

// log is what only the node that holds the log has.
func (c *collector) log(emit emitter) {
	c.kafka(emit)
	hidden := c.groups(emit) + c.partitions(emit) + c.cluster(emit)
	emit("rowtrail_metrics_hidden_series", float64(hidden))
	stats := c.opts.Storage()
	emit("rowtrail_log_syncs_total", float64(stats.Syncs))
	emit("rowtrail_log_mutations_total", float64(stats.CommittedMutations))
	emit("rowtrail_log_committed_bytes_total", float64(stats.CommittedBytes))
	emit("rowtrail_log_disk_bytes", float64(stats.DiskBytes))
	emit("rowtrail_log_garbage_bytes", float64(stats.GarbageBytes))
	emit("rowtrail_log_slowed_seconds_total", stats.Slowed.Seconds())
	emit("rowtrail_log_disk_free_bytes", float64(stats.FreeBytes))
	emit("rowtrail_compaction_rounds_total", float64(stats.Compaction.Rounds))
	emit("rowtrail_compaction_failures_total", float64(stats.Compaction.Failures))
	emit("rowtrail_compaction_read_bytes_total", float64(stats.Compaction.ReadBytes))
	emit("rowtrail_compaction_written_bytes_total", float64(stats.Compaction.WrittenBytes))
	emit("rowtrail_compaction_reclaimed_bytes_total", float64(stats.Compaction.ReclaimedBytes))
	emit("rowtrail_compaction_removed_records_total", float64(stats.Compaction.RemovedRecords))
	emit("rowtrail_compaction_progress", stats.Compaction.Progress)
}

func (c *collector) kafka(emit emitter) {
	stats := c.opts.Kafka()
	emit("rowtrail_connections", float64(stats.Connections))
	for reason, n := range stats.Refused {
		emit("rowtrail_connections_refused_total", float64(n), reason)
	}
	for reason, n := range stats.Closed {
		emit("rowtrail_connections_closed_total", float64(n), reason)
	}
	emit("rowtrail_authentication_failures_total", float64(stats.AuthenticationFailures))
	for quota, d := range stats.Throttled {
		emit("rowtrail_throttled_seconds_total", d.Seconds(), quota)
	}
	emit("rowtrail_request_seconds_total", stats.Worked.Seconds())
}

type emitter func(name string, value float64, labels ...string)

func connectorStates() []string {
	return []string{connectors.StateStarting, connectors.StateLoading, connectors.StateStreaming, connectors.StateComplete, connectors.StateRetrying,
		connectors.StateFailed, connectors.StateStopped}
}

func sinkStates() []string {
	return []string{sink.StateStarting, sink.StateStreaming, sink.StateRetrying, sink.StateFailed, sink.StateStopped}
}

func (c *collector) connectors(emit emitter) {
	for _, s := range c.opts.Node.Connectors() {
		emit("rowtrail_connector_here", flag(s.Here), s.Name)
		if !s.Here {
			continue // the node that runs it has the rest, so that sums over nodes hold
		}
		for _, state := range connectorStates() {
			emit("rowtrail_connector_state", flag(s.State == state), s.Name, s.Type, state)
		}
		emit("rowtrail_connector_lag_bytes", float64(s.LagBytes), s.Name)
		emit("rowtrail_connector_lag_events", float64(s.LagEvents), s.Name)
		emit("rowtrail_connector_lag_seconds", s.LagSeconds, s.Name)
		emit("rowtrail_connector_events_total", float64(s.Events), s.Name)
		emit("rowtrail_connector_transactions_total", float64(s.Transactions), s.Name)
		emit("rowtrail_connector_bytes_total", float64(s.Bytes), s.Name)
		var changes, bytes int64
		for _, p := range s.Parked {
			changes += p.Changes
			bytes += p.Bytes
		}
		emit("rowtrail_connector_parked_tables", float64(len(s.Parked)), s.Name)
		emit("rowtrail_connector_parked_changes", float64(changes), s.Name)
		emit("rowtrail_connector_parked_bytes", float64(bytes), s.Name)
		if s.Load != nil {
			emit("rowtrail_connector_load_tables", float64(s.Load.Tables), s.Name)
			emit("rowtrail_connector_load_tables_done", float64(s.Load.TablesDone), s.Name)
			emit("rowtrail_connector_load_rows", float64(s.Load.Rows), s.Name)
			emit("rowtrail_connector_load_rows_estimated", float64(s.Load.RowsEstimated), s.Name)
		}
	}
}

func (c *collector) sinks(emit emitter) {
	for _, s := range c.opts.Node.Sinks() {
		emit("rowtrail_sink_here", flag(s.Here), s.Name)
		if !s.Here {
			continue
		}
		for _, state := range sinkStates() {
			emit("rowtrail_sink_state", flag(s.State == state), s.Name, s.Type, state)
		}
		emit("rowtrail_sink_lag_bytes", float64(s.LagBytes), s.Name)
		emit("rowtrail_sink_lag_events", float64(s.LagEvents), s.Name)
		emit("rowtrail_sink_lag_seconds", s.LagSeconds, s.Name)
		emit("rowtrail_sink_events_total", float64(s.Events), s.Name)
		emit("rowtrail_sink_transactions_total", float64(s.Transactions), s.Name)
		emit("rowtrail_sink_poisoned", flag(s.Poison != nil), s.Name)
	}
}

func (c *collector) groups(emit emitter) (hidden int) {
	seen := map[string]bool{}
	for i, g := range c.opts.Groups() {
		if i >= maxSeries {
			hidden++
			continue
		}
		if !seen[g.Group] {
			seen[g.Group] = true
			emit("rowtrail_group_members", float64(g.Members), g.Group, g.State)
		}
		partition := strconv.Itoa(int(g.Partition))
		emit("rowtrail_group_lag_events", float64(g.LagEvents), g.Group, g.Topic, partition)
		emit("rowtrail_group_lag_bytes", float64(g.LagBytes), g.Group, g.Topic, partition)
		emit("rowtrail_group_lag_seconds", g.LagSeconds, g.Group, g.Topic, partition)
	}
	return hidden
}

// partitions leaves out the partitions of internal topics: they are many and tell an operator little.
func (c *collector) partitions(emit emitter) (hidden int) {
	series, internal, public := 0, 0, 0
	for _, t := range c.opts.Node.Topics() {
		if t.Internal {
			internal++
			continue
		}
		public++
		if series < maxSeries {
			emit("rowtrail_view_lag_records", float64(c.opts.Views.Lag(t.Name)), t.Name)
		} else {
			hidden++
		}
		for _, p := range t.Partitions {
			if series >= maxSeries {
				hidden++
				continue
			}
			series++
			partition := strconv.Itoa(int(p.Partition))
			emit("rowtrail_partition_high_watermark", float64(p.HighWatermark), t.Name, partition)
			emit("rowtrail_partition_last_stable_offset", float64(p.LastStable), t.Name, partition)
			emit("rowtrail_partition_log_start_offset", float64(p.LogStart), t.Name, partition)
			emit("rowtrail_partition_bytes", float64(p.Bytes), t.Name, partition)
			if x := p.Compaction; x != nil {
				emit("rowtrail_partition_dirty_bytes", float64(x.DirtyBytes), t.Name, partition)
				emit("rowtrail_partition_dirty_ratio", x.DirtyRatio, t.Name, partition)
				emit("rowtrail_partition_compaction_stopped", flag(x.Error != ""), t.Name, partition)
				if x.LastRound != nil {
					emit("rowtrail_partition_last_compaction_seconds", float64(x.LastRound.UnixMilli())/1000, t.Name, partition)
				}
			}
		}
	}
	emit("rowtrail_topics", float64(public), "false")
	emit("rowtrail_topics", float64(internal), "true")
	return hidden
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
