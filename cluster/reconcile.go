package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowtrail/rowtrail/log"
)

// sweepOrphansEvery is how often logs on the disk are looked for that belong to nobody.
const sweepOrphansEvery = 30 * time.Second

// reconcileLoop follows the catalogue: changes that other nodes made arrive here, too.
func (n *Node) reconcileLoop(ctx context.Context) {
	again := time.NewTicker(sweepOrphansEvery)
	defer again.Stop()
	for sweep := true; ; {
		changed := n.CatalogChanged()
		if err := n.reconcile(ctx); err != nil && ctx.Err() == nil {
			n.sayBroken(err)
		}
		if sweep {
			n.dropOrphans()
		}
		select {
		case <-changed:
			sweep = false
		case <-again.C:
			sweep = true
		case <-ctx.Done():
			return
		}
	}
}

func (n *Node) sayBroken(err error) {
	n.opts.Logger.Error("a replica could not be opened; its partition is offline here until it is replaced, or mended and the node restarted: restore "+
		"the data directory from a backup, or delete the topic", "error", err)
}

// reconcile makes this node's open replicas those of the newest catalogue, and waits until it leads the ones that only
// it votes in. A replica that cannot be opened stays away and does not hold up the others; the first such error is returned
// once, when it happens.
func (n *Node) reconcile(ctx context.Context) error {
	n.reconciling.Lock()
	defer n.reconciling.Unlock()
	cat := n.Catalog()
	n.leaveRemoved(cat)
	n.steerControllers(cat)
	n.closeGone(cat)
	if n.replaced(cat) {
		return nil
	}
	var first error
	var opened []*group
	for name, t := range cat.Topics {
		if n.settled[name] == t {
			continue
		}
		gs, err := n.openTopic(t)
		opened = append(opened, gs...)
		if first == nil {
			first = err
		}
	}
	for _, g := range opened {
		if !g.only {
			continue
		}
		if err := n.await(ctx, g); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// replaced reports that the catalogue places nothing on this data directory. Either it is behind: a node that lost its disk reads in the log how its
// former replicas were placed here before it reads that they were replaced, and would open them blank, as voters that forgot. Or the node was replaced
// while this process stood still.
func (n *Node) replaced(cat *Catalog) bool {
	me := n.id.get()
	for _, i := range cat.Nodes {
		if i.ID == me.Node {
			n.renewed(i, me)
			return i.Disk != me.Disk
		}
	}
	return false
}

// renewed takes over the generation that the catalogue gave this node's replica of the controller's log, where a crash came before the node had noted it.
func (n *Node) renewed(i NodeInfo, me identityFile) {
	if i.Disk != me.Disk || i.Gen <= me.Gen {
		return
	}
	err := n.id.change(func(x *identityFile) { x.Gen = max(x.Gen, i.Gen) })
	if err == nil {
		err = errRenewed
	}
	n.sched.fail(err)
}

// steerControllers tells the controller's group which members it should have.
func (n *Node) steerControllers(cat *Catalog) {
	want := controllers(cat.Nodes)
	g := n.ctl.replica.group
	n.sched.run(g, func() { g.become(want) })
}

// dropOrphans finishes deletions that a crash interrupted, and those of replicas that were replaced while this node was away.
func (n *Node) dropOrphans() {
	n.reconciling.Lock()
	defer n.reconciling.Unlock()
	for _, id := range n.log.orphans(n.opts.NodeID, n.opts.Store.Groups()) {
		if id != n.ctl.replica.group.log { // which is in use, whatever the catalogue says
			n.opts.Store.Drop(id)
		}
	}
}

// openTopic opens the topic's replicas that are not open yet and brings the settings of all up to date.
func (n *Node) openTopic(t *Topic) (opened []*group, first error) {
	n.mu.RLock()
	old := n.replicas[t.Name]
	n.mu.RUnlock()
	rs := make([]*Replica, len(t.Partitions))
	copy(rs, old)
	settled := true
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if rs[i] != nil {
			rs[i].configure(t, p)
			continue
		}
		m, here := p.on(n.opts.NodeID)
		if !here || n.brokenLog(logID(p.Group, m.Gen)) != nil {
			continue
		}
		r, err := n.openReplica(t, int32(i), m) //nolint:gosec // bounded by maxPartitions
		if errors.Is(err, log.ErrDropped) {
			// Dropped by a later catalogue. A node that starts knows it only as far as its own disk says that it is committed.
			settled = false
			continue
		}
		if err != nil {
			n.mu.Lock()
			n.broken[logID(p.Group, m.Gen)] = err
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
	if settled {
		n.settled[t.Name] = t
	}
	if len(opened) > 0 {
		n.leaders.look() // one that leads already could not be found here when it said so
	}
	return opened, first
}

func (n *Node) openReplica(t *Topic, partition int32, m Member) (*Replica, error) {
	p := &t.Partitions[partition]
	id := logID(p.Group, m.Gen)
	part, err := n.opts.Store.Partition(id)
	if err != nil {
		return nil, fmt.Errorf("open %s-%d: %w", t.Name, partition, err)
	}
	part.SetConfig(logConfig(t))
	g, err := n.sched.open(groupConfig{
		id: p.Group, log: id, self: m, first: p.first(), want: Membership{Voters: p.Wanted()}, minISR: t.Settings.MinISR(len(p.Members)),
		lag: n.opts.ReplicaLagTime, minTerm: t.minTerm, sm: part, store: part, retainer: part, notify: n.notify, lost: n.lose, logger: n.opts.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("open %s-%d: %w", t.Name, partition, err)
	}
	r := &Replica{topic: t.Name, partition: partition, member: m, group: g, part: part, sched: n.sched}
	r.entry.Store(t)
	return r, nil
}

// logConfig is what a topic's settings mean to its partitions.
func logConfig(t *Topic) log.Config {
	c := t.Settings.Log
	c.BelowWatermark = t.Internal // on a full disk transactions end, and groups go on
	return c
}

// closeGone ends the replicas of topics that are deleted, or deleted and created again under the same name, and those that moved away or
// were replaced.
func (n *Node) closeGone(cat *Catalog) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, rs := range n.replicas {
		t := cat.Topics[name]
		if t != nil && n.settled[name] == t {
			continue
		}
		delete(n.settled, name)
		for i, r := range rs {
			if r == nil {
				continue
			}
			if t != nil && r.entry.Load().ID == t.ID {
				if m, here := t.Partitions[i].on(n.opts.NodeID); here && m == r.member {
					continue
				}
			}
			why := ErrUnknownTopic
			if t != nil && r.entry.Load().ID == t.ID {
				why = log.ErrNotLeader // it is elsewhere now
			}
			id := r.group.log
			n.sched.close(r.group, why, func() { n.opts.Store.Drop(id) })
			rs := append([]*Replica(nil), rs...)
			rs[i] = nil
			n.replicas[name] = rs
		}
		if t == nil {
			delete(n.replicas, name)
		}
	}
	n.leaders.forget(func(g log.GroupID) bool { return g == controllerGroup || cat.groups[g] })
}

func (n *Node) brokenLog(id log.GroupID) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.broken[id]
}

// partitionOf is the log of a group's replica here; nil: there is none.
func (n *Node) partitionOf(id log.GroupID) *log.Partition {
	if n.controllerOf() == nil {
		return nil
	}
	g := n.sched.group(id)
	if g == nil {
		return nil
	}
	p, _ := g.store.(*log.Partition)
	return p
}

// highestEpoch is the largest term that is known of any of the topic's partitions.
func (n *Node) highestEpoch(t *Topic) uint64 {
	if t == nil {
		return 0
	}
	var epoch uint64
	for i := range t.Partitions {
		_, e, _ := n.leaders.get(t.Partitions[i].Group)
		epoch = max(epoch, uint64(max(e, 0)))
		if r, err := n.Replica(t.Name, int32(i)); err == nil { //nolint:gosec // bounded by maxPartitions
			_, e, _ := r.Leader()
			epoch = max(epoch, uint64(max(e, 0)), r.part.HardState().Term)
		}
	}
	return epoch
}

// reportLost has replicas replaced whose logs were found without what they had acknowledged.
func (n *Node) reportLost(ctx context.Context) {
	n.mu.RLock()
	broken := map[log.GroupID]error{}
	for id, err := range n.broken {
		broken[id] = err
	}
	n.mu.RUnlock()
	if len(broken) == 0 {
		return
	}
	for _, t := range n.Catalog().Topics {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			m, here := p.on(n.opts.NodeID)
			if !here || len(p.Wanted()) == 1 || !errors.Is(broken[logID(p.Group, m.Gen)], log.ErrCorrupt) {
				continue
			}
			n.opts.Logger.Warn("a replica is replaced: its log cannot be trusted", "topic", t.Name, "partition", i, "error", broken[logID(p.Group, m.Gen)])
			err := n.operate(ctx, func(s *catalogState) ([]change, error) { return s.lost(t.Name, int32(i), m) }) //nolint:gosec // bounded by maxPartitions
			if err != nil && ctx.Err() == nil {
				n.opts.Logger.Warn("a replica was not replaced yet", "topic", t.Name, "partition", i, "error", err)
			}
		}
	}
}
