package cluster

import (
	"context"
	"fmt"
	"maps"

	"github.com/rowtrail/rowtrail/log"
)

// reconcileLoop follows the catalogue: changes that other nodes made arrive here, too.
func (n *Node) reconcileLoop(ctx context.Context) {
	for {
		changed := n.CatalogChanged()
		if err := n.reconcile(ctx); err != nil && ctx.Err() == nil {
			n.opts.Logger.Error("a replica could not be opened; its partition is offline until it is mended and the node restarted: restore the data directory "+
				"from a backup, or delete the topic", "error", err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// reconcile makes this node's open replicas those of the newest catalogue, and waits until it leads the ones that only
// it votes in. A replica that cannot be opened stays away and does not hold up the others; the first such error is returned
// once, when it happens.
func (n *Node) reconcile(ctx context.Context) error {
	n.reconciling.Lock()
	defer n.reconciling.Unlock()
	cat := n.Catalog()
	n.closeGone(cat)
	var first error
	var opened []*group
	for _, t := range cat.Topics {
		gs, err := n.openTopic(t)
		opened = append(opened, gs...)
		if first == nil {
			first = err
		}
	}
	for _, g := range opened {
		if !g.alone() {
			continue
		}
		if err := n.await(ctx, g); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// openTopic opens the topic's replicas that are not open yet and brings the settings of all up to date.
func (n *Node) openTopic(t *Topic) (opened []*group, first error) {
	n.mu.RLock()
	old := n.replicas[t.Name]
	n.mu.RUnlock()
	if len(old) == len(t.Partitions) && len(old) > 0 && n.sameTopic(old, t) {
		return nil, nil
	}
	config := t.Settings.Log
	config.BelowWatermark = t.Internal // transactions end, and groups go on
	rs := make([]*Replica, len(t.Partitions))
	copy(rs, old)
	for i, p := range t.Partitions {
		if rs[i] != nil {
			rs[i].configure(t, config)
			continue
		}
		if !placedOn(p, n.opts.NodeID) || n.brokenGroup(p.Group) != nil {
			continue
		}
		r, err := n.openReplica(t, int32(i), config)
		if err != nil {
			n.mu.Lock()
			n.broken[p.Group] = err
			n.mu.Unlock()
			if first == nil {
				first = err
			}
			continue
		}
		rs[i] = r
		opened = append(opened, r.group)
	}
	n.mu.Lock()
	n.replicas[t.Name] = rs
	n.mu.Unlock()
	return opened, first
}

// sameTopic reports that every replica has been configured from this very entry of the catalogue.
func (n *Node) sameTopic(rs []*Replica, t *Topic) bool {
	for _, r := range rs {
		if r != nil && r.entry.Load() != t {
			return false
		}
	}
	return true
}

func (n *Node) openReplica(t *Topic, partition int32, config log.Config) (*Replica, error) {
	p := t.Partitions[partition]
	part, err := n.opts.Store.Partition(p.Group)
	if err != nil {
		return nil, fmt.Errorf("open %s-%d: %w", t.Name, partition, err)
	}
	part.SetConfig(config)
	g, err := n.sched.open(groupConfig{
		id: p.Group, self: Member{Node: n.opts.NodeID}, first: firstMembers(p), minTerm: t.minTerm,
		sm: part, store: part, retainer: part, logger: n.opts.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("open %s-%d: %w", t.Name, partition, err)
	}
	r := &Replica{topic: t.Name, partition: partition, group: g, part: part, sched: n.sched}
	r.entry.Store(t)
	return r, nil
}

// closeGone ends the replicas of topics that are deleted, or deleted and created again under the same name.
func (n *Node) closeGone(cat *Catalog) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.replicas, func(name string, rs []*Replica) bool {
		t := cat.Topics[name]
		gone := t == nil
		for _, r := range rs {
			if r != nil && t != nil && r.entry.Load().ID != t.ID {
				gone = true
			}
		}
		if !gone {
			return false
		}
		for _, r := range rs {
			if r != nil {
				id := r.group.id
				n.sched.close(r.group, ErrUnknownTopic, func() { n.opts.Store.Drop(id) })
			}
		}
		return true
	})
}

func (n *Node) brokenGroup(id log.GroupID) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.broken[id]
}

// highestEpoch is the largest term that any local replica of the topic has seen.
func (n *Node) highestEpoch(name string) uint64 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var epoch uint64
	for _, r := range n.replicas[name] {
		if r != nil {
			_, e, _ := r.Leader()
			epoch = max(epoch, uint64(e), r.part.HardState().Term)
		}
	}
	return epoch
}

func firstMembers(p Placement) []Member {
	ms := make([]Member, len(p.Replicas))
	for i, node := range p.Replicas {
		ms[i] = Member{Node: node}
	}
	return ms
}

func placedOn(p Placement, node int32) bool {
	for _, r := range p.Replicas {
		if r == node {
			return true
		}
	}
	return false
}
