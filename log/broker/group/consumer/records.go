package consumer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// The versions of keys in __consumer_offsets, which say what a record is. All values are of version 0, the only one.
const (
	keyGroup       int16 = 3
	keyMember      int16 = 5
	keyTargetEpoch int16 = 6
	keyTarget      int16 = 7
	keyCurrent     int16 = 8
	keyPattern     int16 = 16
)

// Tags of optional fields.
const (
	tagHash   = 0 // of keyGroup's value: the hash of the subscribed topics
	tagEpochs = 0 // of a topic in keyCurrent's value: the epoch in which each partition was assigned
)

// IsKey tells whether a key of this version belongs to a group of this protocol.
func IsKey(version int16) bool {
	switch version {
	case keyGroup, keyMember, keyTargetEpoch, keyTarget, keyCurrent, keyPattern:
		return true
	}
	return false
}

// named tells whether a key holds a name beside the group's.
func named(key int16) bool { return key != keyGroup && key != keyTargetEpoch }

// Records are those that fold to the present state.
func (g *Group) Records(yield func(journal.Record)) {
	for _, c := range g.changes() {
		yield(c.record())
	}
}

func (c Change) record() journal.Record {
	key := kbin.AppendInt16(nil, c.key)
	key = kbin.AppendString(key, c.Group)
	if named(c.key) {
		key = kbin.AppendString(key, c.name)
	}
	return journal.Record{Key: key, Value: c.value()}
}

// value is nil for a tombstone.
func (c Change) value() []byte {
	v := kbin.AppendInt16(nil, 0)
	switch {
	case c.key == keyGroup && c.epoch > 0:
		v = kbin.AppendInt32(v, c.epoch)
		if c.hash == 0 {
			return noTags(v)
		}
		return oneTag(v, tagHash, kbin.AppendInt64(nil, int64(c.hash))) //nolint:gosec // 64 bits either way
	case c.key == keyTargetEpoch && c.epoch > 0:
		return noTags(kbin.AppendInt32(v, c.epoch))
	case c.member != nil:
		return c.member.append(v)
	case c.target != nil:
		epochs := make(partitions, len(c.target))
		for tp := range c.target {
			epochs[tp] = 0
		}
		return noTags(appendPartitions(v, epochs, false))
	case c.current != nil:
		v = kbin.AppendInt32(v, c.current.epoch)
		v = kbin.AppendInt32(v, c.current.previous)
		v = kbin.AppendInt8(v, int8(c.current.state))
		v = appendPartitions(v, c.current.assigned, true)
		return noTags(appendPartitions(v, c.current.revoking, true))
	case c.pattern != nil:
		v = appendStrings(v, c.pattern.topics)
		v = kbin.AppendInt64(v, c.pattern.version)
		return noTags(kbin.AppendInt64(v, c.pattern.timestamp))
	}
	return nil
}

func (m *metadata) append(v []byte) []byte {
	v = kbin.AppendCompactNullableString(v, orNil(m.instance))
	v = kbin.AppendCompactNullableString(v, orNil(m.rack))
	v = kbin.AppendCompactString(v, m.clientID)
	v = kbin.AppendCompactString(v, m.clientHost)
	v = appendStrings(v, m.names)
	v = kbin.AppendCompactNullableString(v, orNil(m.pattern))
	v = kbin.AppendInt32(v, int32(m.rebalance.Milliseconds())) //nolint:gosec // came as an int32
	return noTags(kbin.AppendCompactNullableString(v, orNil(m.assignor)))
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func noTags(v []byte) []byte { return append(v, 0) }

func oneTag(v []byte, tag uint32, field []byte) []byte {
	v = append(v, 1)
	v = kbin.AppendUvarint(v, tag)
	v = kbin.AppendUvarint(v, uint32(len(field))) //nolint:gosec // a few bytes, or four for each partition
	return append(v, field...)
}

func appendStrings(v []byte, list []string) []byte {
	v = kbin.AppendCompactArrayLen(v, len(list))
	for _, s := range list {
		v = kbin.AppendCompactString(v, s)
	}
	return v
}

// topicPartitions are one topic's partitions, sorted, with their epochs.
type topicPartitions struct {
	topic      ID
	partitions []int32
	epochs     []int32
}

// byTopic sorts partitions, so that the same ones are the same bytes.
func byTopic(set partitions) []topicPartitions {
	all := make([]TopicPartition, 0, len(set))
	for tp := range set {
		all = append(all, tp)
	}
	slices.SortFunc(all, func(a, b TopicPartition) int {
		return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
	})
	var list []topicPartitions
	for _, tp := range all {
		if n := len(list); n == 0 || list[n-1].topic != tp.Topic {
			list = append(list, topicPartitions{topic: tp.Topic})
		}
		last := &list[len(list)-1]
		last.partitions = append(last.partitions, tp.Partition)
		last.epochs = append(last.epochs, set[tp])
	}
	return list
}

func appendPartitions(v []byte, set partitions, epochs bool) []byte {
	list := byTopic(set)
	v = kbin.AppendCompactArrayLen(v, len(list))
	for _, t := range list {
		v = kbin.AppendUuid(v, t.topic)
		v = appendInts(v, t.partitions)
		if epochs {
			v = oneTag(v, tagEpochs, appendInts(nil, t.epochs))
		} else {
			v = noTags(v)
		}
	}
	return v
}

func appendInts(v []byte, list []int32) []byte {
	v = kbin.AppendCompactArrayLen(v, len(list))
	for _, n := range list {
		v = kbin.AppendInt32(v, n)
	}
	return v
}

var (
	errKey   = errors.New("its key does not end where it should")
	errValue = errors.New("its value does not end where it should")
)

// Parse decodes a record whose key's version IsKey.
func Parse(r journal.Record) (Change, error) {
	b := kbin.Reader{Src: r.Key}
	c := Change{key: b.Int16(), Group: b.String()}
	if !IsKey(c.key) {
		return c, fmt.Errorf("its key has version %d, which is none of a consumer group", c.key)
	}
	if named(c.key) {
		c.name = b.String()
	}
	if !b.Ok() || len(b.Src) > 0 {
		return c, errKey
	}
	if r.Value == nil {
		return c, nil
	}
	b = kbin.Reader{Src: r.Value}
	if version := b.Int16(); version != 0 {
		return c, fmt.Errorf("group %q: value version %d of a record of version %d is not known", c.Group, version, c.key)
	}
	c.read(&b)
	if !b.Ok() || len(b.Src) > 0 {
		return c, fmt.Errorf("group %q, record of version %d: %w", c.Group, c.key, errValue)
	}
	if (c.key == keyGroup || c.key == keyTargetEpoch) && c.epoch <= 0 {
		return c, fmt.Errorf("group %q: epoch %d is none", c.Group, c.epoch)
	}
	return c, nil
}

func (c *Change) read(b *kbin.Reader) {
	switch c.key {
	case keyGroup:
		c.epoch = b.Int32()
		readTags(b, func(tag uint32, field *kbin.Reader) {
			if tag == tagHash {
				c.hash = uint64(field.Int64()) //nolint:gosec // 64 bits either way
			}
		})
		return
	case keyTargetEpoch:
		c.epoch = b.Int32()
	case keyMember:
		m := &metadata{instance: deref(b.CompactNullableString()), rack: deref(b.CompactNullableString()),
			clientID: b.CompactString(), clientHost: b.CompactString(), names: readStrings(b),
			pattern: deref(b.CompactNullableString())}
		m.rebalance = time.Duration(b.Int32()) * time.Millisecond
		m.assignor = deref(b.CompactNullableString())
		c.member = m
	case keyTarget:
		c.target = target{}
		for tp := range readPartitions(b) {
			c.target[tp] = struct{}{}
		}
	case keyCurrent:
		c.current = &current{epoch: b.Int32(), previous: b.Int32(), state: memberState(b.Int8()),
			assigned: readPartitions(b), revoking: readPartitions(b)}
	case keyPattern:
		c.pattern = &pattern{topics: readStrings(b), version: b.Int64(), timestamp: b.Int64()}
	}
	kmsg.SkipTags(b)
}

func readTags(b *kbin.Reader, each func(tag uint32, field *kbin.Reader)) {
	for n := b.Uvarint(); n > 0 && b.Ok(); n-- {
		tag, size := b.Uvarint(), b.Uvarint()
		each(tag, &kbin.Reader{Src: b.Span(int(size))})
	}
}

func readStrings(b *kbin.Reader) []string {
	var list []string
	for n := b.CompactArrayLen(); n > 0 && b.Ok(); n-- {
		list = append(list, b.CompactString())
	}
	return list
}

func readInts(b *kbin.Reader) []int32 {
	var list []int32
	for n := b.CompactArrayLen(); n > 0 && b.Ok(); n-- {
		list = append(list, b.Int32())
	}
	return list
}

func readPartitions(b *kbin.Reader) partitions {
	set := partitions{}
	for n := b.CompactArrayLen(); n > 0 && b.Ok(); n-- {
		id := b.Uuid()
		list := readInts(b)
		var epochs []int32
		readTags(b, func(tag uint32, field *kbin.Reader) {
			if tag == tagEpochs {
				epochs = readInts(field)
			}
		})
		for i, p := range list {
			epoch := int32(0)
			if i < len(epochs) {
				epoch = epochs[i]
			}
			set[TopicPartition{id, p}] = epoch
		}
	}
	return set
}
