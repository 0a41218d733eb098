package consumer

import (
	"time"
)

// reconcile leads a member towards its target, as far as what it says to own and what others hold allow.
func (g *Group) reconcile(m *member, r *Request, subscription bool, topics *Topics, now time.Time) {
	var next current
	switch {
	case m.state == stateStable && m.epoch == g.assigned:
		return
	case m.state == stateUnrevoked && owns(r, m.revoking):
		if !subscription {
			return
		}
		next = g.giveUp(m, g.subscribed(m, topics))
	default:
		next = g.next(m, r, g.subscribed(m, topics))
	}
	if next.equal(m.current) {
		return
	}
	m.revokeBy = time.Time{}
	if next.state == stateUnrevoked {
		m.revokeBy = now.Add(m.rebalance)
	}
	g.emit(Change{key: keyCurrent, name: m.id, current: &next})
}

// owns tells whether the member may still have one of these partitions: it says so, or does not say.
func owns(r *Request, set partitions) bool {
	if !r.owned() {
		return true
	}
	for _, tp := range r.Owned {
		if _, ok := set[tp]; ok {
			return true
		}
	}
	return false
}

// giveUp adds the partitions of topics that are not subscribed to any more to those that the member revokes.
func (g *Group) giveUp(m *member, subscribed map[ID]struct{}) current {
	next := current{epoch: m.epoch, previous: m.previous, state: m.state, assigned: partitions{}, revoking: partitions{}}
	for tp, epoch := range m.revoking {
		next.revoking[tp] = epoch
	}
	for tp, epoch := range m.assigned {
		if _, ok := subscribed[tp.Topic]; ok {
			next.assigned[tp] = epoch
		} else {
			next.revoking[tp] = epoch
		}
	}
	return next
}

// next is the member's next step.
func (g *Group) next(m *member, r *Request, subscribed map[ID]struct{}) current {
	keep, revoke := partitions{}, partitions{}
	for tp, epoch := range m.assigned {
		_, wanted := m.target[tp]
		if _, ok := subscribed[tp.Topic]; ok && wanted {
			keep[tp] = epoch
		} else {
			revoke[tp] = epoch
		}
	}
	if len(revoke) > 0 && owns(r, revoke) {
		// First it lets go, and stays in its epoch until it has.
		return current{epoch: m.epoch, previous: m.previous, state: stateUnrevoked, assigned: keep, revoking: revoke}
	}
	state := stateStable
	for tp := range m.target {
		if _, ok := subscribed[tp.Topic]; !ok {
			continue
		}
		if _, has := keep[tp]; has {
			continue
		}
		if owner, held := g.owners[tp]; held && owner != m.id {
			state = stateUnreleased
			continue
		}
		keep[tp] = g.assigned
	}
	previous := m.epoch
	if m.epoch == g.assigned {
		previous = m.previous
	}
	return current{epoch: g.assigned, previous: previous, state: state, assigned: keep}
}

// MayCommit says whether the member may commit offsets in an epoch; and with stale, which partitions it may not: those that it has
// not, or was given later.
func (g *Group) MayCommit(memberID string, epoch int32) (ok bool, stale func(TopicPartition) bool) {
	m := g.members[memberID]
	if m == nil || epoch > m.epoch {
		return false, nil
	}
	if epoch == m.epoch {
		return true, func(TopicPartition) bool { return false }
	}
	return true, func(tp TopicPartition) bool {
		given, has := m.assigned[tp]
		if !has {
			given, has = m.revoking[tp]
		}
		return !has || epoch < given
	}
}

// EpochOf is a member's epoch.
func (g *Group) EpochOf(memberID string) (epoch int32, ok bool) {
	m := g.members[memberID]
	if m == nil {
		return 0, false
	}
	return m.epoch, true
}
