package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
)

// send appends a batch through whoever leads until it is known to be there, as an idempotent producer does.
func (c *testCluster) send(build func() []byte) {
	c.t.Helper()
	eventually(c.t, "append", func() (bool, string) {
		r, err := c.leader("t", 0).Replica("t", 0)
		if err != nil {
			return false, err.Error()
		}
		done := make(chan AppendResult, 1)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		r.Append(ctx, build(), -1, func(a AppendResult) { done <- a })
		select {
		case a := <-done:
			if a.Err != nil && !errors.Is(a.Err, log.ErrNotLeader) && !errors.Is(a.Err, ErrNotEnoughReplicas) && !errors.Is(a.Err, ErrNotEnoughReplicasAfterAppend) {
				c.t.Fatal(a.Err)
			}
			return a.Err == nil, fmt.Sprint(a.Err)
		case <-ctx.Done():
			return false, "not answered"
		}
	})
}

// foldOf is what a replica's fold says: offsets, epochs, producers with their sequences and open transactions.
func foldOf(r *Replica) string {
	out := fmt.Sprintf("%+v %+v", r.Log().Marks(), r.Log().Producers())
	for epoch := int32(0); epoch < 100; epoch++ {
		e, end := r.Log().EpochEnd(epoch)
		out += fmt.Sprint(" ", e, ":", end)
	}
	return out
}

// TestReplicasFoldAlike: whatever a replica went through (leading, following, restarts, a lost disk, compaction of its own), its fold is that
// of the others: offsets, leader epochs, producers and transactions.
func TestReplicasFoldAlike(t *testing.T) {
	c := newTestCluster(t, 3)
	_, err := c.nodes[0].CreateTopic(t.Context(), TopicSpec{
		Name: "t", Partitions: 1, ReplicationFactor: 3, Config: map[string]string{"cleanup.policy": "compact,delete", "min.insync.replicas": "2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	next := map[int64]int32{} // sequences
	write := func(n int) {
		for range n {
			id := int64(100 + rng.IntN(4))
			tx := id >= 102
			seq, ts, key := next[id], time.Now().UnixMilli(), fmt.Sprint("k", rng.IntN(5))
			c.send(func() []byte {
				var b record.Builder
				b.Append(ts, []byte(key), fmt.Appendf(nil, "%d-%d", id, seq))
				return b.Build(&record.Producer{ID: id, BaseSequence: seq, Transactional: tx})
			})
			next[id]++
			if tx && rng.IntN(2) == 0 {
				end := record.EndTxn{ProducerID: id, Commit: rng.IntN(3) > 0}
				c.send(func() []byte { return end.Build(ts) })
			}
		}
	}
	each := func(do func(*clusterNode, *Replica)) {
		for _, x := range c.nodes {
			if r, err := x.Replica("t", 0); err == nil {
				do(x, r)
			}
		}
	}
	for round := range 6 {
		write(15)
		x := c.nodes[round%3]
		if round == 3 {
			x = c.leader("t", 0)
		}
		x.stop()
		if round == 4 {
			x.dir = t.TempDir()
		}
		write(5)
		if err := x.start(c.peers); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a majority without this node", func() (bool, string) {
			p := c.nodes[0].Catalog().Topics["t"].Partitions[0]
			return p.Target == nil && len(c.nodes[0].Quorum().Voters) == 3, fmt.Sprintf("%+v", p)
		})
		each(func(x *clusterNode, r *Replica) {
			if err := x.store.Compact(r.Log().ID()); err != nil {
				t.Error(err)
			}
		})
		if round == 2 {
			r, err := c.leader("t", 0).Replica("t", 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.DeleteRecords(t.Context(), r.Log().Marks().LastStable/2); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(1)
	eventually(t, "folds", func() (bool, string) {
		folds := map[string]int{}
		each(func(_ *clusterNode, r *Replica) { folds[foldOf(r)]++ })
		for _, n := range folds {
			if n == 3 && c.nodes[0].Catalog().Topics["t"].Partitions[0].Target == nil {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d kinds: %v", len(folds), folds)
	})
}
