package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/clock"
	"github.com/rowtrail/rowtrail/itest/process"
)

// TestListsOfPeersThatDiffer found no cluster, or two could be: each node says whose list is another. With one list they do.
func TestListsOfPeersThatDiffer(t *testing.T) {
	c := newNodes(t, 3)
	dir, address := t.TempDir(), freeAddress(t)
	all := []string{c.peers[0], strings.Replace(c.peers[1], addressIn(c.peers[1]), address, 1), c.peers[2]}
	c.peers = all
	c.procs = []*process.Rowtrail{
		c.node(t.TempDir(), 1, addressIn(all[0]), all, nil),
		c.node(dir, 2, address, all[1:], nil), // it would be the first of its own
		c.node(t.TempDir(), 3, addressIn(all[2]), all, nil),
	}
	for _, r := range c.procs {
		must(t, r.Start())
	}
	said(t, c.procs[0], "node 2: its cluster.peers are nodes [2 3], this node's are [1 2 3]; write the same list on each")
	said(t, c.procs[1], "node 3: its cluster.peers are nodes [1 2 3], this node's are [2 3]; write the same list on each")
	time.Sleep(time.Second) // in which they ask each other several times
	for i, r := range c.procs {
		if b, err := os.ReadFile(filepath.Join(dataOf(r), "node.json")); err != nil || strings.Contains(string(b), "disks") {
			t.Errorf("node %d: %v\n%s", i+1, err, b)
		}
	}
	must(t, c.procs[1].Stop())
	c.procs[1] = c.node(dir, 2, address, all, nil)
	must(t, c.procs[1].Start())
	for _, r := range c.procs {
		must(t, r.WaitReady(t.Context()))
	}
	c.whole(c.procs[0])
}

// addressIn is the one of a peer.
func addressIn(peer string) string {
	_, rest, _ := strings.Cut(peer, `"`)
	address, _, _ := strings.Cut(rest, `"`)
	return address
}

// TestClockAnHourOff: the node whose clock is off and those that it calls say so, once each, and go on.
func TestClockAnHourOff(t *testing.T) {
	c := newNodes(t, 3)
	c.start(c.procs...)
	c.whole(c.procs[0])
	moved, err := clock.Take(c.procs[2].PID())
	if errors.Is(err, clock.ErrNone) {
		t.Skip(err)
	}
	must(t, err)
	must(t, moved.Set(time.Hour))
	client := c.client(kgo.DefaultProduceTopic("clocks"), kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	defer client.Close()
	write := func() {
		t.Helper()
		for range 10 {
			must(t, client.ProduceSync(t.Context(), &kgo.Record{Value: []byte("x")}).FirstErr())
		}
	}
	write()
	must(t, c.procs[0].Stop())
	c.start(c.procs[0]) // what starts connects to all, and they to it
	c.whole(c.procs[1])
	const line = "a peer's wall clock and this node's are apart; keep both in step (NTP)"
	said(t, c.procs[0], line)
	said(t, c.procs[2], line)
	write()
	for i, r := range c.procs {
		text := logOf(t, r)
		for _, l := range strings.Split(text, "\n") {
			if strings.Contains(l, line) && (i < 2 && !strings.Contains(l, `"node":3,"ahead":"1h0m`) && !strings.Contains(l, `"node":3,"ahead":"59m`) ||
				i == 2 && !strings.Contains(l, `"ahead":"-1h0m`) && !strings.Contains(l, `"ahead":"-59m`)) {
				t.Errorf("node %d says %s", i+1, l)
			}
		}
		if n := strings.Count(text, line); n > 2 {
			t.Errorf("node %d says so %d times:\n%s", i+1, n, r.Tail(15))
		}
	}
}
