package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rowtrail/rowtrail/cluster/peer"
)

// JoinCheck is a node that is about to start, as CheckJoin is told of it.
type JoinCheck struct {
	NodeID    int32
	ClusterID string // as configured; "": any
	DataDir   string
	Info      NodeInfo
	Peers     []Peer
	ClientTLS func() *tls.Config
}

// JoinOutlook is what a node's start would lead to.
type JoinOutlook struct {
	// Cluster is the one that it would join, or belongs to; "": it would found one with its peers.
	Cluster string     `json:"cluster"`
	Member  bool       `json:"member"` // it belongs to it already
	Peers   []PeerLook `json:"peers"`
	// Problem is why it would not come to that; "": it would.
	Problem string `json:"problem,omitempty"`
}

// PeerLook is what a peer answered.
type PeerLook struct {
	ID      int32  `json:"id"`
	Address string `json:"address"`
	Cluster string `json:"cluster,omitempty"` // "": none yet
	Error   string `json:"error,omitempty"`
}

// CheckJoin asks a node's peers, as the node would at its start, whether it would be let in. It changes nothing, here and there.
func CheckJoin(ctx context.Context, c JoinCheck) (JoinOutlook, error) {
	me, err := readIdentity(filepath.Join(c.DataDir, identityName), c.NodeID)
	if errors.Is(err, os.ErrNotExist) {
		me, err = identityFile{Node: c.NodeID, Disk: newID()}, nil
	}
	if err != nil {
		return JoinOutlook{}, err
	}
	out := JoinOutlook{Cluster: me.Cluster, Member: me.Formation != nil, Peers: []PeerLook{}}
	self := peer.Identity{Cluster: me.Cluster, Node: me.Node, Disk: me.Disk, Boot: newID()}
	info := c.Info
	info.ID, info.Disk = c.NodeID, me.Disk
	var silent []string
	for _, p := range c.Peers {
		if p.ID == c.NodeID {
			continue
		}
		look := PeerLook{ID: p.ID, Address: p.Address}
		ask := func(request call) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, askFor)
			defer cancel()
			b, _, err := peer.Ask(ctx, self, p.Address, c.ClientTLS, mustJSON(request))
			return b, err
		}
		err := lookAt(p, c, registration{Node: info, ID: c.NodeID}, ask, &look, &out)
		if errors.Is(err, peer.ErrRemoved) {
			return JoinOutlook{}, removedError(c.NodeID, c.DataDir)
		}
		if err != nil {
			look.Error = err.Error()
			silent = append(silent, fmt.Sprintf("node %d: %v", p.ID, err))
		}
		out.Peers = append(out.Peers, look)
	}
	founds := false
	for _, p := range c.Peers {
		founds = founds || p.ID == c.NodeID
	}
	switch {
	case out.Problem != "" || out.Member:
	case len(out.Peers) == 0:
		out.Problem = "cluster.peers names no other node; write nodes of the cluster there"
	case out.Cluster != "":
	case len(silent) > 0:
		out.Problem = strings.Join(silent, "; ")
	case !founds:
		out.Problem = "none of the peers belongs to a cluster yet, and cluster.peers does not name this node as one of the first; start them, or add this node to the peers of all"
	}
	return out, nil
}

// lookAt asks one peer.
func lookAt(p Peer, c JoinCheck, r registration, ask func(call) ([]byte, error), look *PeerLook, out *JoinOutlook) error {
	b, err := ask(call{Status: &statusRequest{}})
	if err != nil {
		return err
	}
	var s statusAnswer
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	switch {
	case s.Node != p.ID:
		return fmt.Errorf("node %d answers at %s; correct cluster.peers", s.Node, p.Address)
	case s.Formation == nil:
		return nil
	}
	look.Cluster = s.Formation.Cluster
	switch {
	case c.ClusterID != "" && c.ClusterID != look.Cluster:
		return fmt.Errorf("it is in cluster %s, the configuration says %s; correct node.cluster_id or cluster.peers", look.Cluster, c.ClusterID)
	case out.Cluster != "" && out.Cluster != look.Cluster:
		out.Problem = fmt.Sprintf("node %d is in cluster %s, this data directory or another peer in cluster %s; correct cluster.peers", p.ID, look.Cluster, out.Cluster)
		return nil
	}
	out.Cluster = look.Cluster
	if b, err = ask(call{CanJoin: &r}); err != nil {
		return err
	}
	var a joinAnswer
	if err := json.Unmarshal(b, &a); err != nil {
		return err
	}
	if a.Error != "" {
		out.Problem = a.Error
	}
	return nil
}
