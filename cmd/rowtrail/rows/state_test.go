package rows

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/snapshot/spread"
)

// TestStateOfConnectors: every node gives the last record of many keys at once, and lists the keys that are left, right after each
// acknowledgement, of topics of which no node has all partitions. Keys that lay in another partition before partitions were added are found there.
func TestStateOfConnectors(t *testing.T) {
	c := startNodes(t, 3)
	ctx := t.Context()
	const partitions, keys = 4, 200
	if _, err := c.nodes[0].CreateTopic(ctx, cluster.TopicSpec{Name: "t", Partitions: partitions, ReplicationFactor: 2}); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	last, list := map[string]written{}, twin{}
	write := func(key string, partition int32) {
		w := written{partition, int64(1_000_000 + len(list)), key, fmt.Sprint("v", len(list))}
		if rng.IntN(4) == 0 {
			w.value = ""
		}
		c.append("t", partition, w.batch)
		list, last[key] = append(list, w), w
	}
	for i := range keys { // as if there had been fewer partitions
		write(fmt.Sprint("k", i), int32(i%2))
	}
	var asked [][]byte
	for i := range keys + 50 { // some that never were
		asked = append(asked, fmt.Appendf(nil, "k%d", i))
	}
	for range 8 {
		for range 40 {
			key := fmt.Sprint("k", rng.IntN(keys))
			write(key, connectors.PartitionOf("t", partitions)([]byte(key)))
		}
		for _, x := range c.nodes {
			got := map[string]string{}
			err := x.rows.State().Latest(ctx, "t", asked, nil, func(i int, r connectors.StateRow) error {
				key := string(asked[i])
				if _, twice := got[key]; twice {
					return fmt.Errorf("%s is told twice", key)
				}
				got[key] = string(r.Value)
				if r.Deleted != (len(r.Value) == 0) {
					return fmt.Errorf("%s: deleted %v with value %q", key, r.Deleted, r.Value)
				}
				return nil
			})
			if err != nil {
				t.Fatalf("node %d: %v", x.id, err)
			}
			if len(got) != len(last) {
				t.Fatalf("node %d: %d of %d keys", x.id, len(got), len(last))
			}
			for key, w := range last {
				if got[key] != w.value {
					t.Fatalf("node %d: %s is %q, want %q", x.id, key, got[key], w.value)
				}
			}
			for p := range int32(partitions) {
				if got, want := x.pages(ctx, t, p), list.keysIn(p); got != want {
					t.Fatalf("node %d, partition %d: keys\n%s\nwant\n%s", x.id, p, got, want)
				}
			}
		}
	}
	// What is known to be committed is waited for, and an error when it does not come.
	end := connectors.Committed{1 << 40}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := c.nodes[0].rows.State().Keys(short, "t", 0, nil, 10, end); err == nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, spread.ErrBehind) {
		t.Errorf("what is not there yet was not waited for: %v", err)
	}
	if err := c.nodes[0].rows.State().Latest(ctx, "none", asked, nil, nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a topic that does not exist: %v", err)
	}
}

// keysIn are the keys that live in a partition, whatever others have.
func (w twin) keysIn(partition int32) string {
	live := map[string]bool{}
	for _, r := range w {
		if r.partition == partition {
			live[r.key] = r.value != ""
		}
	}
	maps.DeleteFunc(live, func(_ string, yes bool) bool { return !yes })
	return strings.Join(slices.Sorted(maps.Keys(live)), " ")
}

// pages lists a partition's keys, a few at a time.
func (x *testNode) pages(ctx context.Context, t *testing.T, partition int32) string {
	t.Helper()
	const limit = 7
	var all []string
	var after []byte
	for {
		keys, err := x.rows.State().Keys(ctx, "t", partition, after, limit, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			all = append(all, string(k))
		}
		if len(keys) < limit {
			slices.Sort(all)
			return strings.Join(all, " ")
		}
		after = keys[len(keys)-1]
	}
}
