package consumer

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"regexp"
	"slices"
)

// ID is a topic's id.
type ID = [16]byte

// TopicPartition names a partition by its topic's id.
type TopicPartition struct {
	Topic     ID
	Partition int32
}

// Topic is what a group must know of a topic.
type Topic struct {
	ID         ID
	Name       string
	Partitions int32
}

// Topics are those that can be subscribed to, at one moment. They do not change, so the same pointer is the same topics.
type Topics struct {
	byName map[string]Topic
	byID   map[ID]Topic
	names  []string // sorted
}

// NewTopics returns the topics of a list.
func NewTopics(list []Topic) *Topics {
	t := &Topics{byName: make(map[string]Topic, len(list)), byID: make(map[ID]Topic, len(list))}
	for _, topic := range list {
		t.byName[topic.Name] = topic
		t.byID[topic.ID] = topic
		t.names = append(t.names, topic.Name)
	}
	slices.Sort(t.names)
	return t
}

// ByName finds a topic.
func (t *Topics) ByName(name string) (Topic, bool) {
	topic, ok := t.byName[name]
	return topic, ok
}

// ByID finds a topic.
func (t *Topics) ByID(id ID) (Topic, bool) {
	topic, ok := t.byID[id]
	return topic, ok
}

// pattern is a regular expression that members subscribe with, and the topics that it matched when it was last looked up.
type pattern struct {
	topics    []string // sorted
	version   int64    // of the catalogue look-up; the epoch that followed it
	timestamp int64
}

// compilePattern compiles an expression that must match a whole name.
func compilePattern(expression string) (*regexp.Regexp, error) {
	return regexp.Compile(`^(?:` + expression + `)$`)
}

// match lists the topics that an expression matches; one that does not compile, which a record may hold, matches none.
func (t *Topics) match(expression string) []string {
	re, err := compilePattern(expression)
	if err != nil {
		return nil
	}
	var list []string
	for _, name := range t.names {
		if re.MatchString(name) {
			list = append(list, name)
		}
	}
	return list
}

// subscribed are the ids of the existing topics that a member asks for.
func (g *Group) subscribed(m *member, topics *Topics) map[ID]struct{} {
	set := make(map[ID]struct{}, len(m.names))
	add := func(names []string) {
		for _, name := range names {
			if t, ok := topics.ByName(name); ok {
				set[t.ID] = struct{}{}
			}
		}
	}
	add(m.names)
	if p := g.patterns[m.pattern]; p != nil && m.pattern != "" {
		add(p.topics)
	}
	return set
}

// hash tells one state of all subscribed topics from another. It is 0 when there are none.
func (g *Group) hashTopics(topics *Topics) uint64 {
	set := map[ID]struct{}{}
	for _, m := range g.members {
		for id := range g.subscribed(m, topics) {
			set[id] = struct{}{}
		}
	}
	if len(set) == 0 {
		return 0
	}
	list := make([]Topic, 0, len(set))
	for id := range set {
		list = append(list, topics.byID[id])
	}
	slices.SortFunc(list, func(a, b Topic) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	h := fnv.New64a()
	var number [4]byte
	for _, t := range list {
		binary.BigEndian.PutUint32(number[:], uint32(t.Partitions)) //nolint:gosec // only told apart
		_, _ = h.Write(t.ID[:])                                     // never fails
		_, _ = h.Write(number[:])
	}
	return h.Sum64()
}

// lookUp matches the members' expressions anew and forgets those that nobody uses.
func (g *Group) lookUp(topics *Topics, nowMs int64) {
	used := map[string]bool{}
	for _, m := range g.members {
		if m.pattern != "" {
			used[m.pattern] = true
		}
	}
	for _, expression := range sortedKeys(used) {
		p := g.patterns[expression]
		if p != nil && g.topics == topics {
			continue // matched against these topics already
		}
		list := topics.match(expression)
		if p == nil || !slices.Equal(p.topics, list) {
			g.emit(Change{key: keyPattern, name: expression,
				pattern: &pattern{topics: list, version: int64(g.epoch) + 1, timestamp: nowMs}})
		}
	}
	for _, expression := range sortedKeys(g.patterns) {
		if !used[expression] {
			g.emit(Change{key: keyPattern, name: expression})
		}
	}
}
