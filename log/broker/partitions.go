package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker/group"
	"github.com/rowtrail/rowtrail/log/broker/txn"
)

// zeroID is no topic's id.
//
//nolint:gochecknoglobals // immutable
var zeroID [16]byte

// topic finds a topic by name, or by id where the request's version has ids.
func (b *Broker) topic(name string, id [16]byte, byID bool) (*cluster.Topic, error) {
	catalog := b.node.Catalog()
	if byID {
		if t := catalog.ByID[id]; t != nil {
			return t, nil
		}
		return nil, kerr.UnknownTopicID
	}
	if t := catalog.Topics[name]; t != nil {
		return t, nil
	}
	return nil, kerr.UnknownTopicOrPartition
}

// leading returns the replica of a partition if this node leads it, and the leader's epoch.
func (b *Broker) leading(t *cluster.Topic, partition int32) (*cluster.Replica, int32, error) {
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return nil, -1, kerr.UnknownTopicOrPartition
	}
	r, err := b.node.Replica(t.Name, partition)
	if err != nil {
		return nil, -1, err
	}
	_, epoch, self := r.Leader()
	if !self {
		return nil, epoch, kerr.NotLeaderForPartition
	}
	return r, epoch, nil
}

// reading returns a replica to read from, and whether it only follows, for a client that knows a leader epoch (-1: none): that has to be the one
// that this node knows. Most reads are the leader's to answer; a consumer may read from any replica (KIP-392).
func (b *Broker) reading(t *cluster.Topic, partition, known int32, any bool) (r *cluster.Replica, epoch int32, follows bool, err error) {
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return nil, -1, false, kerr.UnknownTopicOrPartition
	}
	if r, err = b.node.Replica(t.Name, partition); err != nil {
		return nil, -1, false, err
	}
	_, epoch, self := r.Leader()
	if !self {
		_, epoch, _ = b.node.LeaderOf(t, partition)
	}
	switch {
	case known >= 0 && known < epoch:
		return nil, epoch, false, kerr.FencedLeaderEpoch
	case known >= 0 && known > epoch:
		return nil, epoch, false, kerr.UnknownLeaderEpoch
	case !self && !any:
		return nil, epoch, false, kerr.NotLeaderForPartition
	}
	return r, epoch, !self, nil
}

// leadingIn is leading for a client that knows a leader epoch (-1: none): it has to be ours.
func (b *Broker) leadingIn(t *cluster.Topic, partition, known int32) (*cluster.Replica, int32, error) {
	r, epoch, _, err := b.reading(t, partition, known, false)
	return r, epoch, err
}

// readable is the end of what a reader of an isolation level may see.
func readable(m log.Marks, iso log.Isolation) int64 {
	if iso == log.ReadCommitted {
		return m.LastStable
	}
	return m.HighWatermark
}

// isolation reads a request's isolation level.
func isolation(level int8) log.Isolation {
	if level == 1 {
		return log.ReadCommitted
	}
	return log.ReadUncommitted
}

// withTimeout bounds a controller operation by the time that the client waits for it.
func withTimeout(ctx context.Context, millis int32) (context.Context, context.CancelFunc) {
	if millis <= 0 {
		millis = defaultAdminTimeoutMillis
	}
	return context.WithTimeout(ctx, time.Duration(millis)*time.Millisecond)
}

// defaultAdminTimeoutMillis applies where a client says no timeout.
const defaultAdminTimeoutMillis = 30_000

// isInternalName tells whether a topic is created and written by a coordinator alone.
func isInternalName(name string) bool { return name == group.Topic || name == txn.Topic }
