package spread

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/log/sleep"
	"github.com/rowtrail/rowtrail/snapshot"
)

// Ask is a question for keys of one partition.
type Ask struct {
	Partition int32    `json:"partition"`
	Keys      [][]byte `json:"keys,omitempty"`
	// Reach is an offset up to which the answer must have everything; its log transaction is known to be committed.
	Reach int64 `json:"reach,omitempty"`
	// After and Limit are of Keys.
	After []byte `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

const (
	// reachWait bounds how long an answer waits for a log transaction's markers, which come a moment after it is committed.
	reachWait  = 15 * time.Second
	reachPause = time.Millisecond
)

// ErrBehind says that a partition does not show yet what is known to be committed in it.
var ErrBehind = errors.New("partition does not show yet what was committed in it; try again")

// Many calls tell for each key of asks that has a record in the partition that it is asked of; ask and key are places in asks. Each partition is
// asked at its leader, as Latest of now is. tell is not called by two goroutines at a time; a row is valid until it returns. What was told may be told
// again, newer or the same, when a leader moves.
func (v *Views) Many(ctx context.Context, topic string, asks []Ask, tell func(ask, key int, r snapshot.Row) error) error {
	return v.each(ctx, topic, asks, func(ctx context.Context, node int32, which []int) error {
		for _, i := range which {
			a := &asks[i]
			if node == v.Node {
				if err := v.reach(ctx, topic, a); err != nil {
					return err
				}
				if err := v.local.ManyIn(ctx, topic, a.Partition, a.Keys, func(key int, r snapshot.Row) error { return tell(i, key, r) }); err != nil {
					return err
				}
				continue
			}
			if err := v.manyOf(ctx, node, topic, a, func(key int, r snapshot.Row) error { return tell(i, key, r) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// Keys is snapshot.Views' KeysIn, of a partition's leader.
func (v *Views) Keys(ctx context.Context, topic string, a Ask) (keys [][]byte, err error) {
	err = v.each(ctx, topic, []Ask{a}, func(ctx context.Context, node int32, _ []int) error {
		keys = nil
		if node == v.Node {
			if err := v.reach(ctx, topic, &a); err != nil {
				return err
			}
			keys, err = v.local.KeysIn(ctx, topic, a.Partition, a.After, a.Limit)
			return err
		}
		return v.remoteRows(ctx, node, &request{Op: opKeys, Topic: topic, Partitions: []int32{a.Partition}, Ask: &a}, func(r snapshot.Row) error {
			keys = append(keys, append([]byte{}, r.Key...))
			return nil
		})
	})
	return keys, err
}

// each asks the leaders of asks' partitions, and again while they move, for a bounded time.
func (v *Views) each(ctx context.Context, topic string, asks []Ask, ask func(ctx context.Context, node int32, which []int) error) error {
	deadline := time.Now().Add(retryFor)
	for {
		err := v.eachOnce(ctx, topic, asks, ask)
		if err == nil || ctx.Err() != nil || !Moved(err) || !time.Now().Before(deadline) || !sleep.For(ctx, retryPause) {
			return err
		}
	}
}

func (v *Views) eachOnce(ctx context.Context, topic string, asks []Ask, ask func(ctx context.Context, node int32, which []int) error) error {
	leaders, ok := v.Cluster.Leaders(topic)
	if !ok {
		return fmt.Errorf("view of topic %s: %w", topic, snapshot.ErrUnknownTopic)
	}
	nodes := map[int32][]int{}
	var own []int32
	for i := range asks {
		p := asks[i].Partition
		if p < 0 || int(p) >= len(leaders) {
			return fmt.Errorf("topic %s has %d partitions, and no partition %d", topic, len(leaders), p)
		}
		leader := leaders[p]
		if leader < 0 {
			return fmt.Errorf("partition %d of %s: %w", p, topic, ErrNoLeader)
		}
		if leader == v.Node {
			own = append(own, p)
		}
		nodes[leader] = append(nodes[leader], i)
	}
	if err := v.confirm(ctx, topic, own); err != nil {
		return err
	}
	if len(nodes) == 1 {
		for node, which := range nodes {
			return ask(ctx, node, which)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var told sync.Mutex // one node tells at a time
	for node, which := range nodes {
		wg.Go(func() {
			told.Lock()
			defer told.Unlock()
			if ctx.Err() != nil {
				return
			}
			if err := ask(ctx, node, which); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// reach waits until this node, which leads the partition, shows what is known to be committed in it.
func (v *Views) reach(ctx context.Context, topic string, a *Ask) error {
	for deadline := time.Now().Add(reachWait); ; {
		stable, here := v.Cluster.Stable(topic, a.Partition)
		switch {
		case !here:
			return &snapshot.ElsewhereError{Topic: topic, Partition: a.Partition}
		case stable >= a.Reach:
			return nil
		case !time.Now().Before(deadline):
			return fmt.Errorf("partition %d of %s: readable up to offset %d, not to %d: %w", a.Partition, topic, stable, a.Reach, ErrBehind)
		}
		if !sleep.For(ctx, reachPause) {
			return ctx.Err()
		}
	}
}

// manyOf asks another node for keys of a partition that it leads.
func (v *Views) manyOf(ctx context.Context, node int32, topic string, a *Ask, tell func(key int, r snapshot.Row) error) error {
	at := make(map[string]int, len(a.Keys))
	for i, k := range a.Keys {
		at[string(k)] = i
	}
	return v.remoteRows(ctx, node, &request{Op: opMany, Topic: topic, Partitions: []int32{a.Partition}, Ask: a}, func(r snapshot.Row) error {
		i, ok := at[string(r.Key)]
		if !ok {
			return fmt.Errorf("node %d: %w", node, errFrame)
		}
		return tell(i, r)
	})
}

// remoteRows asks a node and calls tell for each row of its answer.
func (v *Views) remoteRows(ctx context.Context, node int32, q *request, tell func(snapshot.Row) error) error {
	r := v.open(ctx, node, q)
	defer r.close()
	for {
		t, more, err := r.Next()
		if err != nil || !more {
			return err
		}
		if err := tell(t.Row); err != nil {
			return err
		}
	}
}

// answerAsk answers another node's Ask.
func (v *Views) answerAsk(ctx context.Context, q *request, row func(snapshot.Row) error) error {
	a := q.Ask
	if a == nil || len(q.Partitions) != 1 || a.Partition != q.Partitions[0] {
		return fmt.Errorf("a question for keys of %s that names no partition of its own", q.Topic)
	}
	if err := v.reach(ctx, q.Topic, a); err != nil {
		return err
	}
	if q.Op == opMany {
		return v.local.ManyIn(ctx, q.Topic, a.Partition, a.Keys, func(i int, r snapshot.Row) error {
			r.Key = a.Keys[i]
			return row(r)
		})
	}
	keys, err := v.local.KeysIn(ctx, q.Topic, a.Partition, a.After, a.Limit)
	for _, k := range keys {
		if err == nil {
			err = row(snapshot.Row{Topic: q.Topic, Partition: a.Partition, Key: k})
		}
	}
	return err
}
