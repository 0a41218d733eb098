package daemon

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/cmd/rowtrail/tasks"
	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/sink"
)

// Topics lists the catalogue by name, with where each partition stands.
func (d *Daemon) Topics() []admin.Topic {
	if d.node == nil {
		return nil
	}
	catalog := d.node.Catalog()
	topics := make([]admin.Topic, 0, len(catalog.Topics))
	for _, t := range catalog.Topics {
		topics = append(topics, d.describe(t))
	}
	slices.SortFunc(topics, func(a, b admin.Topic) int { return cmp.Compare(a.Name, b.Name) })
	return topics
}

func (d *Daemon) describe(t *cluster.Topic) admin.Topic {
	out := admin.Topic{Name: t.Name, ID: hex.EncodeToString(t.ID[:]), Internal: internal(t), Config: t.Config,
		Partitions: make([]admin.Partition, 0, len(t.Partitions))}
	if out.Config == nil {
		out.Config = map[string]string{}
	}
	for i := range t.Partitions {
		number := int32(i) //nolint:gosec // a partition number
		p := admin.Partition{Partition: number}
		p.Leader, p.Epoch, _ = d.node.LeaderOf(t, number)
		if replica, err := d.node.Replica(t.Name, number); err == nil {
			marks := replica.Log().Marks()
			p.LogStart, p.LastStable, p.HighWatermark, p.End = marks.LogStart, marks.LastStable, marks.HighWatermark, marks.End
			p.Bytes = replica.Log().Bytes()
			p.Compaction = describeCompaction(replica.Log().Compaction())
			out.Bytes += p.Bytes
		}
		out.Partitions = append(out.Partitions, p)
	}
	return out
}

// internal tells whether a topic is the node's own.
func internal(t *cluster.Topic) bool { return t.Internal || t.Name == tasks.Topic }

func describeCompaction(c log.PartitionCompaction) *admin.Compaction {
	if !c.Compact {
		return nil
	}
	out := &admin.Compaction{CompactedBytes: c.CompactedBytes, DirtyBytes: c.DirtyBytes, DirtyRatio: c.DirtyRatio}
	if !c.LastRound.IsZero() {
		out.LastRound = &c.LastRound
	}
	if c.Err != nil {
		out.Error = c.Err.Error()
	}
	return out
}

// Topic describes one topic.
func (d *Daemon) Topic(name string) (admin.Topic, bool) {
	if d.node == nil {
		return admin.Topic{}, false
	}
	t, ok := d.node.Catalog().Topics[name]
	if !ok {
		return admin.Topic{}, false
	}
	return d.describe(t), true
}

// Connectors are the connectors' statuses in the file's order.
func (d *Daemon) Connectors() []connectors.Status {
	var out []connectors.Status
	for _, r := range d.runners {
		if r.role == "connector" {
			out = append(out, d.connectorStatus(r))
		}
	}
	return out
}

// Sinks are the sinks' statuses in the file's order.
func (d *Daemon) Sinks() []sink.Status {
	var out []sink.Status
	for _, r := range d.runners {
		if r.role == "sink" {
			out = append(out, d.sinkStatus(r))
		}
	}
	return out
}

// NotReady lists why the node should not get work. A failed connector or sink is no such reason: the log serves.
func (d *Daemon) NotReady() []string {
	var reasons []string
	switch phase, _ := d.phase.Load().(string); {
	case phase == "starting": // and nothing else of the node may be looked at
		if what, _ := d.waiting.Load().(string); what != "" {
			return []string{"starting: " + what}
		}
		if what, _ := d.opening.Load().(string); what != "" {
			return []string{"starting: " + what}
		}
		return []string{phase}
	case phase != "":
		reasons = append(reasons, phase)
	}
	if d.node != nil {
		reasons = append(reasons, d.node.NotReady()...)
	}
	if d.tasks != nil {
		if err := d.tasks.Fenced(); err != nil {
			reasons = append(reasons, err.Error())
		}
	}
	if d.store != nil {
		if err := d.store.Writable(); err != nil {
			reasons = append(reasons, fmt.Sprintf("writes are refused: %v", err))
		}
	}
	return reasons
}
