package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A client that asked the wrong node is told which one leads, and where that is, so that it needs no metadata first (KIP-951).
const (
	produceHints = 10 // the first Produce version with hints
	fetchHints   = 16 // the first Fetch version with hints
)

// hintWait bounds how long an answer waits for a leader to name. A hand-over takes some milliseconds in which none is known, and a client that is told
// of none may wait for seconds before it asks for metadata again.
const hintWait = time.Second

// awaitHints returns when hinted reports that all leaders are named, or when waiting is over.
func (b *Broker) awaitHints(done <-chan struct{}, hinted func() bool) {
	timer := time.NewTimer(hintWait)
	defer timer.Stop()
	for {
		changed := b.node.LeadersChanged()
		if hinted() {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-done:
			return
		}
	}
}

// hintProduce adds the leaders of partitions that were answered with NOT_LEADER_OR_FOLLOWER. It reports whether all are known.
func (b *Broker) hintProduce(resp *kmsg.ProduceResponse) bool {
	if resp.Version < produceHints {
		return true
	}
	named := map[int32]bool{}
	resp.Brokers = nil
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
	return !named[-1]
}

// hintFetch adds the leaders of partitions that the client was wrong about. It reports whether all are known.
func (b *Broker) hintFetch(version int16, resp *kmsg.FetchResponse) bool {
	if version < fetchHints {
		return true
	}
	named := map[int32]bool{}
	resp.Brokers = nil
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
	return !named[-1]
}

// hint is the leader that this node knows of a partition; -1, -1 when it knows none.
func (b *Broker) hint(topic string, id [16]byte, byID bool, partition int32) (leader, epoch int32) {
	b.redirected.Add(1)
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
