package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestARemovedNodeStaysOut: a node that was removed ends, and does not come back with its old data directory, whoever is there when it
// starts; with an empty one it joins as a new node.
func TestARemovedNodeStaysOut(t *testing.T) {
	c := newTestCluster(t, 4)
	keeper := c.nodes[2]
	if _, err := keeper.CreateTopic(t.Context(), TopicSpec{Name: "t", Partitions: 2, ReplicationFactor: 1}); err != nil {
		t.Fatal(err)
	}
	drain := func(x *clusterNode) {
		t.Helper()
		if err := keeper.Drain(t.Context(), x.id, true); err != nil {
			t.Fatal(err)
		}
		eventually(t, "drained", func() (bool, string) {
			ps := keeper.Catalog().Topics["t"].Partitions
			for i := range ps {
				if _, on := ps[i].on(x.id); on || ps[i].Target != nil {
					return false, fmt.Sprintf("%+v", ps)
				}
			}
			return true, ""
		})
	}
	remove := func(x *clusterNode) {
		t.Helper()
		if err := keeper.RemoveNode(t.Context(), x.id); err != nil {
			t.Fatal(err)
		}
	}
	ends := func(x *clusterNode) {
		t.Helper()
		eventually(t, "the removed node's end", func() (bool, string) {
			err := x.sched.failed()
			return errors.Is(err, ErrRemoved), fmt.Sprint(err)
		})
		x.stop()
	}
	refused := func(x *clusterNode, peers []Peer) {
		t.Helper()
		err := x.start(peers)
		if !errors.Is(err, ErrRemoved) || !strings.Contains(err.Error(), "empty the data directory "+x.dir+" to join as a new one") {
			t.Fatalf("start of a removed node: %v", err)
		}
		if _, err := CheckJoin(t.Context(), JoinCheck{NodeID: x.id, DataDir: x.dir, Peers: peers}); !errors.Is(err, ErrRemoved) {
			t.Fatalf("would a removed node be let in: %v", err)
		}
	}

	running := c.nodes[0]
	drain(running)
	remove(running)
	ends(running)
	refused(running, nil) // which asks nobody

	// Nobody is there who could tell it as it starts.
	away := c.nodes[1]
	drain(away)
	away.stop()
	before, err := os.ReadFile(filepath.Join(away.dir, identityName))
	if err != nil {
		t.Fatal(err)
	}
	remove(away)
	keeper.stop()
	c.nodes[3].stop()
	if err := away.start(c.peers); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(keeper.start(c.peers), c.nodes[3].start(c.peers)); err != nil {
		t.Fatal(err)
	}
	ends(away)
	refused(away, nil)

	// Others are there, and the directory does not know.
	if err := os.WriteFile(filepath.Join(away.dir, identityName), before, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckJoin(t.Context(), JoinCheck{NodeID: away.id, DataDir: away.dir, Peers: c.peers}); !errors.Is(err, ErrRemoved) {
		t.Fatalf("would a removed node be let in: %v", err)
	}
	refused(away, c.peers)

	running.dir = t.TempDir()
	if err := running.start(c.peers); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new node of the old number", func() (bool, string) {
		q := running.Quorum()
		return len(q.Members) == 3 && running.Alive(keeper.id), fmt.Sprintf("%+v", q)
	})
}

// TestRemovedDisksAreBounded: the oldest is forgotten first.
func TestRemovedDisksAreBounded(t *testing.T) {
	s := withNodes(t, NodeInfo{})
	for i := range maxRemoved + 10 {
		n := NodeInfo{ID: 1, Disk: fmt.Sprint("gone", i)}
		cs, err := s.register(registration{ID: n.ID, Node: n})
		if err != nil {
			t.Fatal(err)
		}
		applyAll(t, s, cs)
		applyAll(t, s, drained(t, s, n.ID))
		if cs, err = s.remove(n.ID); err != nil {
			t.Fatal(err)
		}
		applyAll(t, s, cs)
	}
	for disk, want := range map[string]bool{"gone9": false, "gone10": true, fmt.Sprint("gone", maxRemoved+9): true, "disk0": false} {
		_, err := s.register(registration{ID: 1, Node: NodeInfo{Disk: disk}})
		if got := errors.Is(err, ErrRemoved); got != want {
			t.Errorf("%s: %v", disk, err)
		}
	}
	if len(s.removed) != maxRemoved {
		t.Errorf("%d are remembered", len(s.removed))
	}
}

func drained(t *testing.T, s *catalogState, node int32) []change {
	t.Helper()
	cs, err := s.drain(node, true)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}
