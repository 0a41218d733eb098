package cluster

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/cluster/peer"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// Peer is where another node of the cluster is reached.
type Peer struct {
	ID      int32
	Address string
}

// How often a node that belongs to no cluster yet asks its peers, and how often it says what it waits for.
const (
	formEvery = 200 * time.Millisecond
	sayEvery  = 5 * time.Second
	askFor    = 2 * time.Second
	// admitFor bounds the registration of a node that joins, at the node that it asks.
	admitFor = 5 * askFor
)

func newID() string {
	id := randomID()
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// statusAnswer is what a node says of itself to another one.
type statusAnswer struct {
	Node      int32      `json:"node"`
	Disk      string     `json:"disk"`
	Info      NodeInfo   `json:"info"`
	Formation *Formation `json:"formation,omitempty"` // nil: it belongs to no cluster yet
	Peers     []int32    `json:"peers,omitempty"`     // the nodes of its cluster.peers
}

func (n *Node) status() statusAnswer {
	f := n.id.get()
	return statusAnswer{Node: f.Node, Disk: f.Disk, Info: n.info(), Formation: f.Formation, Peers: idsOf(n.opts.Peers)}
}

func idsOf(peers []Peer) []int32 {
	var ids []int32
	for _, p := range peers {
		ids = append(ids, p.ID)
	}
	slices.Sort(ids)
	return ids
}

// asker asks a peer by its address.
type asker func(ctx context.Context, address string, request []byte) ([]byte, peer.Identity, error)

// former finds or founds the cluster of a blank data directory.
type former struct {
	id     *identity
	peers  []Peer // as configured, this node among them where it is one of the first
	ask    asker
	self   registration
	named  string // the cluster id that the configuration gives; "": any
	logger *slog.Logger
	waits  func(string) // nil: nobody is told
}

// form returns once the data directory belongs to a cluster. A blank directory founds none by itself unless it is the only peer: first all
// peers have to answer and be blank, too. So a node that has lost its disk never founds a second cluster beside the one that it was in.
func (f *former) form(ctx context.Context) error {
	var said time.Time
	for {
		done, waiting, err := f.try(ctx)
		if f.waits != nil {
			f.waits(waiting)
		}
		if done || err != nil {
			return err
		}
		if time.Since(said) >= sayEvery {
			said = time.Now()
			f.logger.Info("this node belongs to no cluster yet", "waiting_for", waiting)
		}
		if !sleep.For(ctx, formEvery) {
			return fmt.Errorf("found or find the cluster: %s: %w", waiting, ctx.Err())
		}
	}
}

type peerAnswer struct {
	peer Peer
	statusAnswer
	err error
}

func (f *former) try(ctx context.Context) (done bool, waiting string, err error) {
	me := f.id.get()
	if me.Formation != nil {
		return true, "", nil
	}
	answers := f.askAll(ctx)
	first, founds := true, false
	founded := &Formation{Disks: map[int32]string{me.Node: me.Disk}, Nodes: map[int32]NodeInfo{me.Node: f.self.Node}}
	for _, p := range f.peers {
		founds = founds || p.ID == me.Node
		first = first && me.Node <= p.ID
	}
	for _, a := range answers {
		switch {
		case errors.Is(a.err, peer.ErrRemoved):
			return false, "", a.err
		case a.err != nil:
			waiting = fmt.Sprintf("node %d: %v", a.peer.ID, a.err)
		case a.Node != a.peer.ID:
			return false, "", fmt.Errorf("node %d answers at %s, where cluster.peers names node %d; correct it: %w", a.Node, a.peer.Address, a.peer.ID, ErrIdentity)
		case a.Formation == nil && len(a.Peers) > 0 && !slices.Equal(a.Peers, idsOf(f.peers)):
			// Each list alone could found a cluster, and a node that is in both would be in one of them.
			waiting = fmt.Sprintf("node %d: its cluster.peers are nodes %v, this node's are %v; write the same list on each", a.Node, a.Peers, idsOf(f.peers))
		case a.Formation == nil:
			founded.Disks[a.Node], founded.Nodes[a.Node] = a.Disk, a.Info
		default:
			if f.waits != nil {
				f.waits(fmt.Sprintf("node %d to let it in", a.peer.ID))
			}
			if err := f.adopt(ctx, a); err != nil {
				waiting = fmt.Sprintf("node %d: %v", a.peer.ID, err)
				continue
			}
			return true, "", nil
		}
	}
	switch {
	case waiting != "":
		return false, waiting, nil
	case !founds:
		return false, "a peer that belongs to a cluster", nil
	case !first:
		return false, "the peer with the lowest id to found the cluster", nil
	}
	if founded.Cluster = f.named; founded.Cluster == "" {
		founded.Cluster = newID()
	}
	return true, "", f.id.change(func(x *identityFile) { x.Cluster, x.Formation = founded.Cluster, founded })
}

func (f *former) askAll(ctx context.Context) []peerAnswer {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	var wg sync.WaitGroup
	var out []peerAnswer
	for _, p := range f.peers {
		if p.ID != f.id.get().Node {
			out = append(out, peerAnswer{peer: p})
		}
	}
	for i := range out {
		wg.Go(func() {
			a := &out[i]
			var b []byte
			if b, _, a.err = f.ask(ctx, a.peer.Address, mustJSON(call{Status: &statusRequest{}})); a.err == nil {
				a.err = json.Unmarshal(b, &a.statusAnswer)
			}
		})
	}
	wg.Wait()
	return out
}

// adopt makes the directory belong to the cluster that a peer is in: as one of its first members where the disk is one of theirs, else
// as a node that joins.
func (f *former) adopt(ctx context.Context, a peerAnswer) error {
	me := f.id.get()
	if f.named != "" && f.named != a.Formation.Cluster {
		return fmt.Errorf("it is in cluster %s, the configuration says %s; correct node.cluster_id or cluster.peers: %w", a.Formation.Cluster, f.named, ErrClusterID)
	}
	var gen uint32
	if a.Formation.Disks[me.Node] != me.Disk {
		var err error
		if gen, err = askToJoin(ctx, f.ask, a.peer.Address, f.self); err != nil {
			return err
		}
	}
	return f.id.change(func(x *identityFile) { x.Cluster, x.Formation, x.Gen = a.Formation.Cluster, a.Formation, gen })
}

// askToJoin has a node of the cluster register this one; it returns the generation of this one's replica of the controller's log.
func askToJoin(ctx context.Context, ask asker, address string, r registration) (uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, admitFor+askFor)
	defer cancel()
	b, _, err := ask(ctx, address, mustJSON(call{Join: &r}))
	if err != nil {
		return 0, err
	}
	var j joinAnswer
	if err := json.Unmarshal(b, &j); err != nil {
		return 0, fmt.Errorf("answer to joining: %w", err)
	}
	if j.Error != "" {
		return 0, errors.New(j.Error)
	}
	return j.Gen, nil
}

type joinAnswer struct {
	Error string `json:"error,omitempty"`
	Gen   uint32 `json:"gen"` // of the node's replica of the controller's log
}

// firstControllers are the first voters of the controller's group: of the first members, those with the lowest ids.
func (f *Formation) firstControllers() []Member {
	var infos []NodeInfo
	for id := range f.Disks {
		infos = append(infos, NodeInfo{ID: id})
	}
	return controllers(infos).Voters
}
