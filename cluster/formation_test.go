package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/cluster/peer"
)

// formingNode is a data directory and what its process would do.
type formingNode struct {
	id   *identity
	down bool
}

// forming is a set of nodes that found a cluster, or join one.
type forming struct {
	nodes map[int32]*formingNode
	peers []Peer
	gens  uint32
	disks int
}

var errUnreachable = errors.New("connection refused")

// blank gives a node an empty data directory.
func (f *forming) blank(node int32) {
	f.disks++
	f.nodes[node] = &formingNode{id: &identity{file: identityFile{Node: node, Disk: fmt.Sprint("disk", f.disks)}}}
}

func (f *forming) ask(_ context.Context, address string, request []byte) ([]byte, peer.Identity, error) {
	var node int32
	if _, err := fmt.Sscan(address, &node); err != nil {
		return nil, peer.Identity{}, err
	}
	n := f.nodes[node]
	if n == nil || n.down {
		return nil, peer.Identity{}, errUnreachable
	}
	var c call
	if err := json.Unmarshal(request, &c); err != nil {
		return nil, peer.Identity{}, err
	}
	if c.Join != nil {
		f.gens++
		return mustJSON(joinAnswer{Gen: f.gens}), peer.Identity{}, nil
	}
	file := n.id.get()
	return mustJSON(statusAnswer{Node: file.Node, Disk: file.Disk, Formation: file.Formation}), peer.Identity{}, nil
}

func (f *forming) try(node int32) (bool, error) {
	x := former{id: f.nodes[node].id, peers: f.peers, ask: f.ask, self: registration{ID: node}, logger: quiet()}
	done, _, err := x.try(context.Background())
	return done, err
}

// TestThereIsOneCluster: whatever the order in which nodes come, are away, and lose their disks, there are never two clusters; no disk that the
// formation does not name is one of the first members; and once all are there, all belong to it.
func TestThereIsOneCluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &forming{nodes: map[int32]*formingNode{}}
		n := int32(rapid.IntRange(1, 5).Draw(t, "nodes"))
		for id := int32(1); id <= n; id++ {
			f.blank(id)
			f.peers = append(f.peers, Peer{ID: id, Address: fmt.Sprint(id)})
		}
		f.blank(9) // in nobody's list: it joins
		node := rapid.SampledFrom([]int32{1, 2, 3, 4, 5, 9})
		pick := func(t *rapid.T) int32 {
			id := node.Draw(t, "node")
			if f.nodes[id] == nil {
				return 1
			}
			return id
		}
		t.Repeat(map[string]func(*rapid.T){
			"try": func(t *rapid.T) {
				if _, err := f.try(pick(t)); err != nil {
					t.Fatal(err)
				}
			},
			"down": func(t *rapid.T) { f.nodes[pick(t)].down = true },
			"up":   func(t *rapid.T) { f.nodes[pick(t)].down = false },
			"wipe": func(t *rapid.T) {
				// A cluster of whose peers no disk is left is gone; as long as one is, it is found.
				id := pick(t)
				others := 0
				for _, p := range f.peers {
					if p.ID != id && f.nodes[p.ID].id.get().Formation != nil {
						others++
					}
				}
				if f.nodes[id].id.get().Formation == nil || others > 0 {
					f.blank(id)
				}
			},
			"": func(t *rapid.T) { f.check(t) },
		})
		for range 3 {
			for id, x := range f.nodes {
				x.down = false
				if _, err := f.try(id); err != nil {
					t.Fatal(err)
				}
			}
		}
		f.check(t)
		if got := f.formed(); got != len(f.nodes) {
			t.Fatalf("%d of %d nodes belong to the cluster", got, len(f.nodes))
		}
	})
}

func (f *forming) formed() (n int) {
	for _, x := range f.nodes {
		if x.id.get().Formation != nil {
			n++
		}
	}
	return n
}

func (f *forming) check(t *rapid.T) {
	cluster := ""
	for node, x := range f.nodes {
		file := x.id.get()
		if file.Formation == nil {
			continue
		}
		if cluster == "" {
			cluster = file.Cluster
		}
		if file.Cluster != cluster || file.Formation.Cluster != cluster {
			t.Fatalf("node %d is in cluster %s, another one in %s", node, file.Cluster, cluster)
		}
		if first := file.Formation.Disks[node] == file.Disk; first != (file.Gen == 0) {
			t.Fatalf("node %d with disk %s has generation %d; the first members are %v", node, file.Disk, file.Gen, file.Formation.Disks)
		}
	}
}

func TestFormationRefuses(t *testing.T) {
	f := &forming{nodes: map[int32]*formingNode{}, peers: []Peer{{1, "1"}, {2, "2"}}}
	f.blank(1)
	f.blank(2)
	f.peers[1].Address = "1"
	if _, err := f.try(2); err != nil { // it does not ask itself
		t.Error(err)
	}
	f.peers = []Peer{{1, "2"}, {2, "2"}}
	f.nodes[3] = f.nodes[2]
	if _, err := (&forming{nodes: f.nodes, peers: []Peer{{1, "1"}, {3, "2"}}}).try(1); err == nil ||
		!strings.Contains(err.Error(), "node 2 answers at 2, where cluster.peers names node 3") {
		t.Error(err)
	}
	// A cluster of another name than the one that is asked for is not joined.
	f.peers = []Peer{{1, "1"}, {2, "2"}}
	for range 2 {
		for _, id := range []int32{1, 2} {
			if _, err := f.try(id); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.blank(2)
	x := former{id: f.nodes[2].id, peers: f.peers, ask: f.ask, named: "other", logger: quiet()}
	if done, why, _ := x.try(t.Context()); done || !strings.Contains(why, "correct node.cluster_id or cluster.peers") {
		t.Errorf("%v %s", done, why)
	}
}

// A directory that was never in a cluster takes another node's id, as one is told to do who chose one that exists; its identity is a new one.
func TestIdentityOfADirectoryThatWasRefused(t *testing.T) {
	dir := t.TempDir()
	a, err := openIdentity(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := openIdentity(dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	if b.get().Node != 2 || b.get().Disk == a.get().Disk || !b.fresh {
		t.Errorf("%+v after %+v", b.get(), a.get())
	}
}

// TestIdentityOfADirectory: it is kept, and it is nobody else's.
func TestIdentityOfADirectory(t *testing.T) {
	dir := t.TempDir()
	a, err := openIdentity(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.change(func(f *identityFile) { f.Cluster = "c" }); err != nil {
		t.Fatal(err)
	}
	b, err := openIdentity(dir, 1)
	if err != nil || b.get().Disk != a.get().Disk || b.get().Cluster != "c" || b.fresh || !a.fresh {
		t.Errorf("%+v %v", b, err)
	}
	if _, err := openIdentity(dir, 2); !errors.Is(err, ErrIdentity) || !strings.Contains(err.Error(), "belongs to node 1 and the configuration says node 2; correct node.id or node.data_dir") {
		t.Error(err)
	}
	for _, damage := range []string{"", "{", `{"node":1}`, `{"node":1,"disk":"d","more":2}`} {
		if err := os.WriteFile(filepath.Join(dir, identityName), []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openIdentity(dir, 1); !errors.Is(err, ErrIdentity) {
			t.Errorf("%q: %v", damage, err)
		}
	}
	// A crash between the two files of a change leaves the old identity.
	if err := os.WriteFile(filepath.Join(dir, identityName+".tmp"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, identityName)); err != nil {
		t.Fatal(err)
	}
	if _, err := openIdentity(dir, 1); err != nil {
		t.Error(err)
	}
}
