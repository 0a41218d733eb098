package consumer

import (
	"cmp"
	"maps"
	"slices"
)

// The assignors that members may ask for.
const (
	assignorUniform = "uniform"
	assignorRange   = "range"
	defaultAssignor = assignorUniform
)

// subscriber is one member as an assignor sees it.
type subscriber struct {
	id, instance string
	topics       map[ID]struct{}
	had          target // its target before
	gets         target
}

// assignor fills in what each subscriber gets. Subscribers and topics come sorted, so the result is a function of them.
type assignor func(subscribers []*subscriber, topics []Topic)

func assignorFor(name string) assignor {
	switch name {
	case assignorUniform:
		return uniform
	case assignorRange:
		return ranges
	}
	return nil
}

// preferred is the assignor that most members ask for; the first by name breaks ties.
func (g *Group) preferred() string {
	votes := map[string]int{}
	for _, m := range g.members {
		if m.assignor != "" {
			votes[m.assignor]++
		}
	}
	best := defaultAssignor
	for _, name := range sortedKeys(votes) {
		if assignorFor(name) != nil && votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// assign makes the target assignment of the present epoch. Its epoch is written last: a part of the records alone is
// made again.
func (g *Group) assign(topics *Topics) {
	var subscribers []*subscriber
	wanted := map[ID]struct{}{}
	for _, m := range g.sorted() {
		s := &subscriber{id: m.id, instance: m.instance, topics: g.subscribed(m, topics), had: m.target, gets: target{}}
		maps.Copy(wanted, s.topics)
		subscribers = append(subscribers, s)
	}
	list := make([]Topic, 0, len(wanted))
	for id := range wanted {
		t, _ := topics.ByID(id)
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b Topic) int { return cmp.Compare(a.Name, b.Name) })
	assignorFor(g.preferred())(subscribers, list)
	for _, s := range subscribers {
		if m := g.members[s.id]; m.target == nil || !maps.Equal(m.target, s.gets) {
			g.emit(Change{key: keyTarget, name: s.id, target: s.gets})
		}
	}
	g.emit(Change{key: keyTargetEpoch, epoch: g.epoch})
}

// ranges gives each topic's partitions in runs to its subscribers, static members by their instances first, so members of topics with as
// many partitions get the same numbers.
func ranges(subscribers []*subscriber, topics []Topic) {
	order := slices.Clone(subscribers)
	slices.SortFunc(order, func(a, b *subscriber) int {
		if (a.instance == "") != (b.instance == "") {
			return cmp.Compare(b.instance, a.instance) // the empty one is last
		}
		return cmp.Or(cmp.Compare(a.instance, b.instance), cmp.Compare(a.id, b.id))
	})
	for _, t := range topics {
		var takers []*subscriber
		for _, s := range order {
			if _, ok := s.topics[t.ID]; ok {
				takers = append(takers, s)
			}
		}
		each, more := int(t.Partitions)/len(takers), int(t.Partitions)%len(takers)
		p := int32(0)
		for i, s := range takers {
			n := each
			if i < more {
				n++
			}
			for range n {
				s.gets[TopicPartition{t.ID, p}] = struct{}{}
				p++
			}
		}
	}
}

// uniform spreads all partitions evenly and lets members keep what they had.
func uniform(subscribers []*subscriber, topics []Topic) {
	if len(subscribers) == 0 {
		return
	}
	u := spread{subscribers: subscribers, owner: map[TopicPartition]*subscriber{}}
	for _, t := range topics {
		for p := range t.Partitions {
			u.all = append(u.all, TopicPartition{t.ID, p})
		}
	}
	u.keep(topics)
	same := !slices.ContainsFunc(subscribers, func(s *subscriber) bool { return !maps.Equal(s.topics, subscribers[0].topics) })
	if same {
		u.trim()
	}
	u.handOut()
	if !same {
		u.level()
	}
}

// spread is one run of uniform.
type spread struct {
	subscribers []*subscriber
	all         []TopicPartition // in order
	owner       map[TopicPartition]*subscriber
}

func (u *spread) give(s *subscriber, tp TopicPartition) {
	s.gets[tp] = struct{}{}
	u.owner[tp] = s
}

func (u *spread) takeBack(tp TopicPartition) {
	delete(u.owner[tp].gets, tp)
	delete(u.owner, tp)
}

// keep gives everyone what it had, where that still exists and is subscribed.
func (u *spread) keep(topics []Topic) {
	counts := make(map[ID]int32, len(topics))
	for _, t := range topics {
		counts[t.ID] = t.Partitions
	}
	for _, s := range u.subscribers {
		for tp := range s.had {
			if _, ok := s.topics[tp.Topic]; ok && tp.Partition < counts[tp.Topic] && u.owner[tp] == nil {
				u.give(s, tp)
			}
		}
	}
}

// trim takes from those that have more than an even share. Who has most may keep one more.
func (u *spread) trim() {
	share, more := len(u.all)/len(u.subscribers), len(u.all)%len(u.subscribers)
	rich := slices.Clone(u.subscribers)
	slices.SortStableFunc(rich, func(a, b *subscriber) int { return cmp.Compare(len(b.gets), len(a.gets)) })
	quota := map[*subscriber]int{}
	for i, s := range rich {
		quota[s] = share
		if i < more {
			quota[s]++
		}
	}
	for _, tp := range slices.Backward(u.all) {
		if s := u.owner[tp]; s != nil && len(s.gets) > quota[s] {
			u.takeBack(tp)
		}
	}
}

// handOut gives what nobody has to the subscriber that has least.
func (u *spread) handOut() {
	for _, tp := range u.all {
		if u.owner[tp] == nil {
			if s := u.poorest(tp.Topic); s != nil {
				u.give(s, tp)
			}
		}
	}
}

// poorest is the subscriber of a topic that has least, the first of them.
func (u *spread) poorest(topic ID) (best *subscriber) {
	for _, s := range u.subscribers {
		if _, ok := s.topics[topic]; ok && (best == nil || len(s.gets) < len(best.gets)) {
			best = s
		}
	}
	return best
}

// level moves partitions from who has more to who has less until no move makes it more even. Each move lowers the sum of
// the squares of the counts, so it ends.
func (u *spread) level() {
	for moved := true; moved; {
		moved = false
		for _, tp := range u.all {
			from, to := u.owner[tp], u.poorest(tp.Topic)
			if from != nil && to != nil && len(from.gets) > len(to.gets)+1 {
				u.takeBack(tp)
				u.give(to, tp)
				moved = true
			}
		}
	}
}
