package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
)

// handleDescribeQuorum describes the Raft group of the controller, which is the one partition of its topic.
func (b *Broker) handleDescribeQuorum(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeQuorumRequest)
	resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
	for i := range req.Topics {
		st := kmsg.NewDescribeQuorumResponseTopic()
		st.Topic = req.Topics[i].Topic
		for _, rp := range req.Topics[i].Partitions {
			st.Partitions = append(st.Partitions, b.quorum(st.Topic, rp.Partition, time.Now()))
		}
		resp.Topics = append(resp.Topics, st)
	}
	for _, n := range b.node.Catalog().Nodes {
		e, ok := b.endpoint(n.ID)
		if !ok {
			continue
		}
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID = e.node
		at := kmsg.NewDescribeQuorumResponseNodeListener()
		at.Name, at.Host, at.Port = b.protocol(), e.host, uint16(e.port) //nolint:gosec // a port
		node.Listeners = append(node.Listeners, at)
		resp.Nodes = append(resp.Nodes, node)
	}
	return resp, nil
}

// protocol is what the network listener speaks, by Kafka's name, which is also the listener's.
func (b *Broker) protocol() string {
	switch {
	case b.opts.TLS != nil && b.opts.SASL != nil:
		return "SASL_SSL"
	case b.opts.TLS != nil:
		return "SSL"
	case b.opts.SASL != nil:
		return "SASL_PLAINTEXT"
	}
	return "PLAINTEXT"
}

func (b *Broker) quorum(topic string, partition int32, now time.Time) kmsg.DescribeQuorumResponseTopicPartition {
	sp := kmsg.NewDescribeQuorumResponseTopicPartition()
	sp.Partition, sp.LeaderID, sp.LeaderEpoch, sp.HighWatermark = partition, -1, -1, -1
	if topic != cluster.ControllerTopic || partition != 0 {
		sp.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return sp
	}
	q := b.node.Quorum()
	sp.LeaderID, sp.LeaderEpoch, sp.HighWatermark = q.Leader, q.Epoch, q.HighWatermark
	for _, m := range q.Members {
		v := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		// What an entry holds is not known by its number; most hold one record.
		v.ReplicaID, v.LogEndOffset = m.Node, max(0, q.End-int64(m.Behind)) //nolint:gosec // entries of one log
		v.LastFetchTimestamp, v.LastCaughtUpTimestamp = -1, -1
		if m.InSync {
			v.LastFetchTimestamp, v.LastCaughtUpTimestamp = now.UnixMilli(), now.UnixMilli()
		}
		if m.Voter {
			sp.CurrentVoters = append(sp.CurrentVoters, v)
		} else {
			sp.Observers = append(sp.Observers, v)
		}
	}
	return sp
}
