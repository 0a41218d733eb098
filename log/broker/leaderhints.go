package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A client that asked the wrong node is told which one leads, and where that is, so that it needs no metadata first (KIP-951).
const (
	produceHints = 10 // the first Produce version with hints
	fetchHints   = 16 // the first Fetch version with hints
)

// hintProduce adds the leaders of partitions that were answered with NOT_LEADER_OR_FOLLOWER.
func (b *Broker) hintProduce(resp *kmsg.ProduceResponse) {
	if resp.Version < produceHints {
		return
	}
	named := map[int32]bool{}
	for i := range resp.Topics {
		st := &resp.Topics[i]
		for j := range st.Partitions {
			sp := &st.Partitions[j]
			if sp.ErrorCode != kerr.NotLeaderForPartition.Code {
				continue
			}
			sp.CurrentLeader.LeaderID, sp.CurrentLeader.LeaderEpoch = b.hint(st.Topic, st.TopicID, resp.Version >= 13, sp.Partition)
			named[sp.CurrentLeader.LeaderID] = true
		}
	}
	for _, e := range b.hinted(named) {
		hb := kmsg.NewProduceResponseBroker()
		hb.NodeID, hb.Host, hb.Port, hb.Rack = e.node, e.host, e.port, e.rack
		resp.Brokers = append(resp.Brokers, hb)
	}
}

// hintFetch adds the leaders of partitions that the client was wrong about.
func (b *Broker) hintFetch(version int16, resp *kmsg.FetchResponse) {
	if version < fetchHints {
		return
	}
	named := map[int32]bool{}
	for i := range resp.Topics {
		st := &resp.Topics[i]
		for j := range st.Partitions {
			sp := &st.Partitions[j]
			if sp.ErrorCode != kerr.NotLeaderForPartition.Code && sp.ErrorCode != kerr.FencedLeaderEpoch.Code {
				continue
			}
			sp.CurrentLeader.LeaderID, sp.CurrentLeader.LeaderEpoch = b.hint(st.Topic, st.TopicID, true, sp.Partition)
			named[sp.CurrentLeader.LeaderID] = true
		}
	}
	for _, e := range b.hinted(named) {
		hb := kmsg.NewFetchResponseBroker()
		hb.NodeID, hb.Host, hb.Port, hb.Rack = e.node, e.host, e.port, e.rack
		resp.Brokers = append(resp.Brokers, hb)
	}
}

// hint is the leader that this node knows of a partition; -1, -1 when it knows none.
func (b *Broker) hint(topic string, id [16]byte, byID bool, partition int32) (leader, epoch int32) {
	t, err := b.topic(topic, id, byID)
	if err != nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return -1, -1
	}
	return b.leaderOf(t, partition)
}

// hinted are the endpoints of leaders.
func (b *Broker) hinted(leaders map[int32]bool) []endpoint {
	var out []endpoint
	for id := range leaders {
		if e, ok := b.endpoint(id); ok {
			out = append(out, e)
		}
	}
	return out
}
