package rows

import (
	"context"
	"fmt"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/log/sleep"
	"github.com/rowtrail/rowtrail/snapshot"
	"github.com/rowtrail/rowtrail/snapshot/spread"
)

// stateTimeout bounds a question of a connector for the state of its own topics.
const stateTimeout = time.Minute

// State is what connectors ask for the state of their topics (connectors.Rows). Partitions that other nodes lead are asked there.
func (r *Rows) State() connectors.Rows { return state{r} }

type state struct{ *Rows }

// Latest implements connectors.Rows. The partition that a key belongs to is asked first: what it has there is the last record. Only a key that
// is not there may be in another one, where it lay before partitions were added.
func (s state) Latest(ctx context.Context, topic string, keys [][]byte, c connectors.Committed, tell func(i int, r connectors.StateRow) error) error {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	partitions, err := s.partitions(ctx, topic)
	if err != nil {
		return err
	}
	asks := make([]spread.Ask, partitions)
	places := make([][]int, partitions) // in keys
	of := connectors.PartitionOf(topic, partitions)
	for i, k := range keys {
		p := of(k)
		asks[p].Keys, places[p] = append(asks[p].Keys, k), append(places[p], i)
	}
	told := make([]bool, len(keys))
	err = s.many(ctx, topic, asks, places, c, func(i int, r snapshot.Row) error {
		if told[i] {
			return nil
		}
		told[i] = true
		return tell(i, connectors.StateRow{Deleted: r.Deleted, Value: r.Value, Place: r.Place})
	})
	if err != nil || partitions == 1 {
		return err
	}
	return s.elsewhere(ctx, topic, keys, told, c, partitions, of, tell)
}

// elsewhere asks all other partitions for the keys that were not found in their own.
func (s state) elsewhere(ctx context.Context, topic string, keys [][]byte, told []bool, c connectors.Committed, partitions int, of func([]byte) int32, tell func(i int, r connectors.StateRow) error) error {
	asks, places := make([]spread.Ask, partitions), make([][]int, partitions)
	some := false
	for i, k := range keys {
		if told[i] {
			continue
		}
		some = true
		own := int(of(k))
		for p := range partitions {
			if p != own {
				asks[p].Keys, places[p] = append(asks[p].Keys, k), append(places[p], i)
			}
		}
	}
	if !some {
		return nil
	}
	best := map[int]snapshot.Row{}
	err := s.many(ctx, topic, asks, places, c, func(i int, r snapshot.Row) error {
		if had, ok := best[i]; !ok || r.Newer(&had) {
			r.Value, r.Place = clone(r.Value), clone(r.Place)
			best[i] = r
		}
		return nil
	})
	for i, r := range best {
		if err == nil {
			err = tell(i, connectors.StateRow{Deleted: r.Deleted, Value: r.Value, Place: r.Place})
		}
	}
	return err
}

func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

func (s state) many(ctx context.Context, topic string, asks []spread.Ask, places [][]int, c connectors.Committed, tell func(i int, r snapshot.Row) error) error {
	var list []spread.Ask
	var of [][]int
	for p := range asks {
		if len(asks[p].Keys) > 0 {
			asks[p].Partition, asks[p].Reach = int32(p), c.Of(int32(p)) //nolint:gosec // a partition number
			list, of = append(list, asks[p]), append(of, places[p])
		}
	}
	if len(list) == 0 {
		return nil
	}
	return s.Many(ctx, topic, list, func(ask, key int, r snapshot.Row) error { return tell(of[ask][key], r) })
}

// Keys implements connectors.Rows.
func (s state) Keys(ctx context.Context, topic string, partition int32, after []byte, limit int, c connectors.Committed) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	return s.Views.Keys(ctx, topic, spread.Ask{Partition: partition, Reach: c.Of(partition), After: after, Limit: limit})
}

// catalogWait bounds how long a topic that was just created may be missing in this node's catalogue.
const catalogWait = 5 * time.Second

// partitions is how many a topic has.
func (s state) partitions(ctx context.Context, topic string) (int, error) {
	for deadline := time.Now().Add(catalogWait); ; {
		if t := s.node.Catalog().Topics[topic]; t != nil {
			return len(t.Partitions), nil
		}
		if !time.Now().Before(deadline) || !sleep.For(ctx, replicaRetry) {
			return 0, fmt.Errorf("view of topic %s: %w", topic, snapshot.ErrUnknownTopic)
		}
	}
}
