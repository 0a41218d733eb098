package group

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group/consumer"
	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// Versions that Kafka 3.9 writes, so tools that read __consumer_offsets read ours.
const (
	offsetKeyVersion   = 1
	offsetValueVersion = 3
	// expiringValueVersion is the one version that has the time at which an offset expires, and no leader epoch: clients that
	// say the one do not know the other.
	expiringValueVersion = 1
	groupKeyVersion      = 2
	groupValueVersion    = 3
)

func offsetKey(group string, tp journal.TopicPartition) []byte {
	k := kmsg.OffsetCommitKey{Version: offsetKeyVersion, Group: group, Topic: tp.Topic, Partition: tp.Partition}
	return k.AppendTo(nil)
}

func offsetRecord(group string, o Offset) journal.Record {
	v := kmsg.NewOffsetCommitValue()
	v.Version, v.Offset, v.LeaderEpoch = offsetValueVersion, o.Offset, o.LeaderEpoch
	v.Metadata, v.CommitTimestamp = o.Metadata, o.AtMs
	if o.ExpireMs != 0 {
		v.Version, v.ExpireTimestamp = expiringValueVersion, o.ExpireMs
	}
	return journal.Record{Key: offsetKey(group, o.TopicPartition), Value: v.AppendTo(nil)}
}

func groupKey(group string) []byte {
	k := kmsg.GroupMetadataKey{Version: groupKeyVersion, Group: group}
	return k.AppendTo(nil)
}

// record is the group's metadata as the log keeps it.
func (g *Group) record() journal.Record {
	v := kmsg.NewGroupMetadataValue()
	v.Version, v.ProtocolType, v.Generation = groupValueVersion, g.protocolType, g.generation
	v.CurrentStateTimestamp = g.stateSince.UnixMilli()
	if len(g.members) > 0 {
		v.Protocol, v.Leader = &g.protocol, &g.leader
	}
	for _, m := range g.sorted() {
		mv := kmsg.NewGroupMetadataValueMember()
		mv.MemberID, mv.ClientID, mv.ClientHost = m.id, m.clientID, m.clientHost
		if m.instance != "" {
			mv.InstanceID = &m.instance
		}
		mv.RebalanceTimeoutMillis = int32(m.rebalance.Milliseconds())
		mv.SessionTimeoutMillis = int32(m.session.Milliseconds())
		mv.Subscription, mv.Assignment = m.metadata(g.protocol), m.assignment
		v.Members = append(v.Members, mv)
	}
	return journal.Record{Key: groupKey(g.ID), Value: v.AppendTo(nil)}
}

// restore replaces the group's state by a record. Members' sessions begin at now.
func (g *Group) restore(v *kmsg.GroupMetadataValue, now time.Time) error {
	g.state, g.stateSince = Empty, time.UnixMilli(v.CurrentStateTimestamp)
	g.generation, g.protocolType, g.protocol, g.leader = v.Generation, v.ProtocolType, "", ""
	clear(g.members)
	clear(g.static)
	if len(v.Members) == 0 {
		return nil
	}
	if v.Protocol == nil || v.Leader == nil {
		return errors.New("group has members but no protocol or no leader")
	}
	for i := range v.Members {
		mv := &v.Members[i]
		m := &member{id: mv.MemberID, clientID: mv.ClientID, clientHost: mv.ClientHost, seen: now,
			session:    time.Duration(mv.SessionTimeoutMillis) * time.Millisecond,
			rebalance:  time.Duration(mv.RebalanceTimeoutMillis) * time.Millisecond,
			protocols:  []Protocol{{Name: *v.Protocol, Metadata: bytes.Clone(mv.Subscription)}},
			assignment: bytes.Clone(mv.Assignment)}
		if mv.InstanceID != nil {
			m.instance = *mv.InstanceID
		}
		if g.members[m.id] != nil || (m.instance != "" && g.static[m.instance] != "") {
			return fmt.Errorf("group has the member %q twice", m.id)
		}
		g.add(m)
	}
	if g.members[*v.Leader] == nil {
		return fmt.Errorf("group's leader %q is not a member", *v.Leader)
	}
	g.leader, g.protocol, g.state = *v.Leader, *v.Protocol, Stable
	return nil
}

// entry is one decoded record of __consumer_offsets.
type entry struct {
	group string
	// offset and commit when it is an offset; commit nil: tombstone.
	isOffset bool
	tp       journal.TopicPartition
	commit   *Committed
	// meta, nil for a tombstone, when it is a group's metadata.
	meta *kmsg.GroupMetadataValue
	// change when it is a record of a consumer group.
	change *consumer.Change
}

// parse reads a record. What it does not know it refuses: skipping would lose state (invariant 7).
func parse(r journal.Record) (entry, error) {
	if len(r.Key) < 2 {
		return entry{}, errors.New("its key is shorter than a version")
	}
	version := int16(binary.BigEndian.Uint16(r.Key))
	if consumer.IsKey(version) {
		c, err := consumer.Parse(r)
		return entry{group: c.Group, change: &c}, err
	}
	switch version {
	case 0, 1:
		var k kmsg.OffsetCommitKey
		if err := k.ReadFrom(r.Key); err != nil {
			return entry{}, fmt.Errorf("offset key: %w", err)
		}
		e := entry{group: k.Group, isOffset: true, tp: journal.TopicPartition{Topic: k.Topic, Partition: k.Partition}}
		if r.Value == nil {
			return e, nil
		}
		v := kmsg.NewOffsetCommitValue()
		if err := v.ReadFrom(r.Value); err != nil {
			return entry{}, fmt.Errorf("offset of group %q, %s-%d: %w", k.Group, k.Topic, k.Partition, err)
		}
		if v.Version < 0 || v.Version > 4 {
			return entry{}, fmt.Errorf("offset of group %q: value version %d is not known", k.Group, v.Version)
		}
		e.commit = &Committed{Offset: v.Offset, LeaderEpoch: v.LeaderEpoch, Metadata: v.Metadata, AtMs: v.CommitTimestamp}
		if v.Version < 3 {
			e.commit.LeaderEpoch = -1
		}
		if v.Version == expiringValueVersion && v.ExpireTimestamp > 0 {
			e.commit.ExpireMs = v.ExpireTimestamp
		}
		return e, nil
	case groupKeyVersion:
		var k kmsg.GroupMetadataKey
		if err := k.ReadFrom(r.Key); err != nil {
			return entry{}, fmt.Errorf("group key: %w", err)
		}
		e := entry{group: k.Group}
		if r.Value == nil {
			return e, nil
		}
		v := kmsg.NewGroupMetadataValue()
		if err := v.ReadFrom(r.Value); err != nil {
			return entry{}, fmt.Errorf("metadata of group %q: %w", k.Group, err)
		}
		if v.Version < 0 || v.Version > 4 {
			return entry{}, fmt.Errorf("metadata of group %q: value version %d is not known", k.Group, v.Version)
		}
		e.meta = &v
		return e, nil
	default:
		return entry{}, fmt.Errorf("its key has version %d, which this release does not know", version)
	}
}
