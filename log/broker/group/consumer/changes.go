package consumer

// Change is one record of a group, decoded.
type Change struct {
	Group string
	key   int16
	name  string // of the member, or the expression

	// The value; none of them, and deleted, when the record is a tombstone.
	epoch   int32 // keyGroup and keyTargetEpoch; 0: tombstone
	hash    uint64
	member  *metadata
	target  target
	current *current
	pattern *pattern
}

// Apply takes in a change. The last one of each record's key counts, in whatever order those come.
func (g *Group) Apply(c Change) {
	switch c.key {
	case keyGroup:
		g.epoch, g.hash, g.known = c.epoch, c.hash, c.epoch > 0
	case keyTargetEpoch:
		g.assigned = c.epoch
	case keyPattern:
		if c.pattern == nil {
			delete(g.patterns, c.name)
			return
		}
		g.patterns[c.name] = c.pattern
	case keyMember:
		if c.member == nil {
			g.forget(c.name)
			return
		}
		m := g.at(c.name)
		if m.instance != "" && g.static[m.instance] == m.id {
			delete(g.static, m.instance)
		}
		m.metadata, m.known = *c.member, true
		if m.instance != "" {
			g.static[m.instance] = m.id
		}
	case keyTarget:
		if c.target == nil {
			if m := g.members[c.name]; m != nil {
				m.target = nil
			}
			return
		}
		g.at(c.name).target = c.target
	case keyCurrent:
		if c.current == nil {
			if m := g.members[c.name]; m != nil {
				g.setCurrent(m, current{})
			}
			return
		}
		g.setCurrent(g.at(c.name), *c.current)
	}
}

// at finds a member, or makes one whose metadata is to come.
func (g *Group) at(id string) *member {
	m := g.members[id]
	if m == nil {
		m = &member{id: id}
		g.members[id] = m
	}
	return m
}

func (g *Group) forget(id string) {
	m := g.members[id]
	if m == nil {
		return
	}
	g.setCurrent(m, current{})
	if m.instance != "" && g.static[m.instance] == id {
		delete(g.static, m.instance)
	}
	delete(g.members, id)
}

// setCurrent replaces what a member has, and with it the owners.
func (g *Group) setCurrent(m *member, c current) {
	for _, old := range []partitions{m.assigned, m.revoking} {
		for tp := range old {
			if g.owners[tp] == m.id {
				delete(g.owners, tp)
			}
		}
	}
	m.current = c
	for _, has := range []partitions{m.assigned, m.revoking} {
		for tp := range has {
			g.owners[tp] = m.id
		}
	}
}

// changes are those that fold to the present state.
func (g *Group) changes() []Change {
	list := []Change{{key: keyGroup, epoch: g.epoch, hash: g.hash}}
	for _, expression := range sortedKeys(g.patterns) {
		list = append(list, Change{key: keyPattern, name: expression, pattern: g.patterns[expression]})
	}
	for _, m := range g.sorted() {
		list = append(list, Change{key: keyMember, name: m.id, member: &m.metadata})
		if m.target != nil {
			list = append(list, Change{key: keyTarget, name: m.id, target: m.target})
		}
		if !m.current.equal(current{}) {
			list = append(list, Change{key: keyCurrent, name: m.id, current: &m.current})
		}
	}
	if g.assigned > 0 {
		list = append(list, Change{key: keyTargetEpoch, epoch: g.assigned})
	}
	for i := range list {
		list[i].Group = g.ID
	}
	return list
}
