package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// described is what `topics describe` says of a topic.
type described struct {
	Partitions []struct {
		Leader, LeaderEpoch                    int32
		Replicas, InSync                       []int32
		Offline, UnderReplicated, NotPreferred bool
		Start, End                             int64
	}
}

// TestTopicsShowTheirReplicas: a topic is described with who leads each partition, where its replicas are and who is in sync, also while a node is away, and
// after it has come back.
func TestTopicsShowTheirReplicas(t *testing.T) {
	c := newNodes(t, 3)
	c.start(c.procs...)
	c.whole(c.procs[0])
	client := c.client()
	defer client.Close()
	_, err := kadm.NewClient(client).CreateTopic(t.Context(), 3, 3, nil, "t")
	must(t, err)
	c.whole(c.procs[0])
	all := []int32{1, 2, 3}
	describe := func(what string, is func(*described) bool) (d described) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			out, err := c.procs[0].CLI(t.Context(), "topics", "describe", "t", "-o", "json")
			if err == nil {
				d = described{}
				must(t, json.Unmarshal([]byte(out), &d))
				if len(d.Partitions) == 3 && is(&d) {
					return d
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v\n%s", what, err, out)
			}
		}
	}
	well := func(d *described) bool {
		for _, p := range d.Partitions {
			if p.Offline || p.UnderReplicated || p.NotPreferred || p.Leader != p.Replicas[0] || p.LeaderEpoch < 1 || !slices.Equal(p.InSync, all) {
				return false
			}
		}
		return true
	}
	before := describe("all is well", well)
	lost := -1
	for i, p := range before.Partitions {
		if at := slices.Sorted(slices.Values(p.Replicas)); !slices.Equal(at, all) {
			t.Errorf("the replicas of partition %d are on %v", i, p.Replicas)
		}
		if p.Leader == 2 {
			lost = i
		}
	}
	if lost < 0 {
		t.Fatalf("node 2 leads none of three partitions: %+v", before)
	}
	out, err := c.procs[0].CLI(t.Context(), "topics", "describe", "t")
	must(t, err)
	p := before.Partitions[lost]
	replicas := strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Replicas), " ", ","), "[]")
	row := fmt.Sprint([]any{lost, p.Leader, p.LeaderEpoch, replicas, "1,2,3", p.Start, p.End, p.End, "-"})
	if got := strings.Fields(strings.Split(out, "\n")[1+lost]); fmt.Sprint(got) != row || !strings.Contains(out, "EPOCH  REPLICAS  IN SYNC") {
		t.Errorf("got %v, want %s\n%s", got, row, out)
	}

	must(t, c.procs[1].Kill())
	describe("a node is away", func(d *described) bool {
		for i, p := range d.Partitions {
			if p.Offline || !p.UnderReplicated || p.NotPreferred != (i == lost) || p.Leader == 2 || !slices.Equal(p.InSync, []int32{1, 3}) {
				return false
			}
		}
		return d.Partitions[lost].LeaderEpoch > p.LeaderEpoch
	})
	if out, err := c.procs[0].CLI(t.Context(), "topics", "describe", "t"); err != nil || strings.Count(out, "under-replicated") != 3 || strings.Count(out, "under-replicated, not preferred") != 1 {
		t.Errorf("%v\n%s", err, out)
	}
	c.start(c.procs[1])
	describe("all is well again", well)

	must(t, c.procs[1].Kill())
	must(t, c.procs[2].Kill())
	describe("no leader is alive", func(d *described) bool {
		for _, p := range d.Partitions {
			if !p.Offline || p.UnderReplicated || p.NotPreferred {
				return false
			}
		}
		return true
	})
}
