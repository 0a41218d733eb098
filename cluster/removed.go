package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rowtrail/rowtrail/cluster/peer"
	"github.com/rowtrail/rowtrail/log"
)

// A node that was removed has what it had then: a catalogue that names it, replicas that may vote by it. So the cluster remembers data
// directories of removed nodes, and tells whoever comes with one; that one remembers it, too, and never starts again.

// maxRemoved bounds the data directories that are remembered; the oldest is forgotten first.
const maxRemoved = 1000

// removedRecord says whose a removed data directory was.
type removedRecord struct {
	Node  int32 `json:"node"`
	Order int64 `json:"order"` // in which they were removed
}

// removedError is the line for the operator.
func removedError(node int32, dir string) error {
	return fmt.Errorf("%w; empty the data directory %s to join as a new one", wasRemoved(node), dir)
}

func wasRemoved(node int32) error { return fmt.Errorf("node %d: %w", node, ErrRemoved) }

func (s *catalogState) applyRemoved(disk string, value []byte) error {
	if disk == "" {
		return fmt.Errorf("a removed node without a disk: %w", log.ErrCorrupt)
	}
	removed := maps.Clone(s.removed) // readers hold the old one
	if removed == nil {
		removed = map[string]removedRecord{}
	}
	if value == nil {
		delete(removed, disk)
	} else {
		var r removedRecord
		if err := unmarshalStrict(value, &r); err != nil {
			return err
		}
		removed[disk] = r
	}
	s.removed = removed
	return nil
}

// rememberRemoved are the records about a node that is being removed.
func (s *catalogState) rememberRemoved(n NodeInfo) []change {
	if n.Disk == "" {
		return nil
	}
	byAge := slices.SortedFunc(maps.Keys(s.removed), func(a, b string) int { return cmp.Compare(s.removed[a].Order, s.removed[b].Order) })
	r := removedRecord{Node: n.ID}
	if len(byAge) > 0 {
		r.Order = s.removed[byAge[len(byAge)-1]].Order + 1
	}
	out := []change{encode(recordKey{Type: recordRemoved, Name: n.Disk}, r)}
	for i := 0; len(byAge)-i >= maxRemoved; i++ {
		out = append(out, encode(recordKey{Type: recordRemoved, Name: byAge[i]}, nil))
	}
	return out
}

// checkRemoved refuses a data directory of a removed node.
func (c *Catalog) checkRemoved(disk string) error {
	if r, ok := c.removed[disk]; ok {
		return wasRemoved(r.Node)
	}
	return nil
}

// endRemoved has a node end that was removed, now and whenever it is started again.
func (n *Node) endRemoved() {
	if err := n.markRemoved(); err != nil {
		n.sched.halt(err)
	}
}

// markRemoved writes down that this directory's node was removed, and returns the operator's line.
func (n *Node) markRemoved() error {
	err := removedError(n.opts.NodeID, n.opts.DataDir)
	if n.id.get().Removed {
		return err
	}
	return errors.Join(err, n.id.change(func(x *identityFile) { x.Removed = true }))
}

// stillMember asks the others before anything of a directory is used. Whom it does not reach turns it away later.
func (n *Node) stillMember(ctx context.Context, f *former) error {
	for _, a := range f.askAll(ctx) {
		if errors.Is(a.err, peer.ErrRemoved) {
			return n.markRemoved()
		}
	}
	return nil
}

// leaveRemoved ends this node if the catalogue says that it was removed, and the connections of nodes that were: they are told when they
// come back.
func (n *Node) leaveRemoved(cat *Catalog) {
	if cat.checkRemoved(n.id.get().Disk) != nil {
		n.endRemoved()
		return
	}
	if n.net != nil && len(cat.removed) > 0 {
		n.net.net.Disconnect(func(i peer.Identity) bool { return cat.checkRemoved(i.Disk) != nil })
	}
}
