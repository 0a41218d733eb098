package cluster

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAStartThatWaitsSaysForWhat: a node that belongs to the cluster and hears of nobody says so, to who asks and in its log.
func TestAStartThatWaitsSaysForWhat(t *testing.T) {
	dir := t.TempDir()
	id, err := openIdentity(dir, 4)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.change(func(f *identityFile) {
		f.Cluster, f.Gen = "c", 7
		f.Formation = &Formation{Cluster: "c", Disks: map[int32]string{1: "a", 2: "b", 3: "c"}}
	}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var waits []string
	var said bytes.Buffer
	c := &testCluster{t: t}
	x := &clusterNode{c: c, id: 4, dir: dir, addr: freeAddress(t)}
	x.change = func(o *Options) {
		o.Waiting = func(what string) {
			mu.Lock()
			defer mu.Unlock()
			waits = append(waits, what)
		}
		o.Logger = slog.New(slog.NewTextHandler(&said, nil))
	}
	x.patience = sayEvery + 3*askFor
	if err := x.start(nil); err == nil {
		t.Fatal("a node without the catalogue has started")
	}
	const want = "a leader of the controller's log; a majority of its members has to be up and to reach this node at "
	mu.Lock()
	defer mu.Unlock()
	if len(waits) < 3 || !strings.HasPrefix(waits[1], "the catalogue has not been received yet: "+want) || waits[len(waits)-1] != "" {
		t.Errorf("%q", waits)
	}
	if !strings.Contains(said.String(), want+x.addr) {
		t.Errorf("the log says:\n%s", &said)
	}
}

// TestAFreshReplicaIsAskedOfWhoIsThere: of the nodes that the catalogue names, too, as those of the configuration may have left.
func TestAFreshReplicaIsAskedOfWhoIsThere(t *testing.T) {
	c := newTestCluster(t, 3)
	x := c.add("rack9", t.TempDir())
	if err := x.start(c.peers[:1]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fourth node's place", func() (bool, string) { return len(x.Catalog().Nodes) == 4 && c.nodes[1].Quorum().Leader > 0, "away" })
	c.nodes[0].stop()
	before := x.Node.id.get().Gen
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := x.renew(ctx); err != nil {
		t.Fatal(err)
	}
	if got := x.Node.id.get().Gen; got <= before {
		t.Errorf("generation %d after %d", got, before)
	}
}
