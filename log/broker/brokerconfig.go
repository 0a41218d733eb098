package broker

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
	"github.com/rowtrail/rowtrail/log/broker/group"
	"github.com/rowtrail/rowtrail/log/broker/txn"
)

// brokerSetting is one setting of this node under Kafka's name for it. It comes from the node's YAML file and is read-only here.
type brokerSetting struct {
	name     string
	kind     kmsg.ConfigType
	value    string
	standard string // its default
	doc      string
}

// brokerSettings are what clients look up at a broker, by name.
func (b *Broker) brokerSettings() []brokerSetting {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	o, std := &b.opts, Options{}.withDefaults()
	g, t := b.groups.Options(), b.txns.Options()
	settings := []brokerSetting{
		text("advertised.listeners", b.protocol()+"://"+net.JoinHostPort(o.AdvertisedHost, strconv.Itoa(int(o.AdvertisedPort))), "", "Where clients are told to connect."),
		onOff("auto.create.topics.enable", o.AutoCreateTopics, true, "Whether asking for a missing topic creates it."),
		count("broker.id", int64(b.node.ID()), -1, "This node's id."),
		text("broker.rack", o.Rack, "", "This node's rack."),
		millis("connections.max.idle.ms", o.IdleTimeout.Milliseconds(), std.IdleTimeout.Milliseconds(), "A connection without a request for this long is closed."),
		count("default.replication.factor", int64(b.node.DefaultReplicationFactor()), int64(b.node.DefaultReplicationFactor()), "Replicas of a topic that does not say."),
		onOff("delete.topic.enable", true, true, "Topics can be deleted."),
		count("fetch.max.bytes", int64(o.MaxFetchBytes), int64(std.MaxFetchBytes), "Largest Fetch response."),
		millis(groupPrefix+groupHeartbeat, g.Consumer.HeartbeatInterval.Milliseconds(), 5_000, "How often members of groups of the consumer protocol send heartbeats."),
		count("group.consumer.max.size", int64(g.Consumer.MaxMembers), 10_000, "Members of one group of the consumer protocol."),
		millis(groupPrefix+groupSession, g.Consumer.SessionTimeout.Milliseconds(), 45_000, "A member of the consumer protocol that is silent for so long is removed."),
		millis("group.initial.rebalance.delay.ms", g.InitialRebalanceDelay.Milliseconds(), 0, "How long an empty group waits for more members."),
		millis("group.max.session.timeout.ms", g.MaxSessionTimeout.Milliseconds(), 1_800_000, "Longest session timeout of a member."),
		count("group.max.size", int64(g.MaxMembers), 10_000, "Members of one group."),
		millis("group.min.session.timeout.ms", g.MinSessionTimeout.Milliseconds(), 6_000, "Shortest session timeout of a member."),
		text("log.dirs", o.DataDir, "", "The data directory."),
		count("max.connections", int64(o.MaxConnections), int64(std.MaxConnections), "Open network connections; the last eighth is for addresses that have few."),
		count("max.connections.per.ip", int64(o.MaxConnectionsPerIP), int64(std.MaxConnectionsPerIP), "The same from one address, of IPv6 from one /64 network."),
		count("node.id", int64(b.node.ID()), -1, "This node's id."),
		count("num.partitions", int64(o.DefaultPartitions), int64(std.DefaultPartitions), "Partitions of a topic that does not say."),
		count("offset.metadata.max.bytes", int64(g.MaxMetadataBytes), 4096, "Largest metadata of a committed offset."),
		millis("offsets.retention.check.interval.ms", g.ExpiryInterval.Milliseconds(), 600_000, "Time between looks for expired offsets."),
		count("offsets.retention.minutes", int64(g.OffsetsRetention.Minutes()), 10_080, "How long the offsets of a group without members are kept."),
		count("offsets.topic.num.partitions", b.partitionsOf(group.Topic), group.DefaultPartitions, "Partitions of "+group.Topic+"."),
		count("offsets.topic.replication.factor", b.replicasOf(group.Topic), b.replicasOf(group.Topic), "Replicas of "+group.Topic+"."),
		{"queued.max.request.bytes", kmsg.ConfigTypeLong, number(o.InFlightBytes), number(std.InFlightBytes), "Bytes of requests being handled."},
		count("socket.request.max.bytes", int64(o.MaxRequestBytes), int64(std.MaxRequestBytes), "Largest Produce request."),
		millis("transaction.max.timeout.ms", t.MaxTimeout.Milliseconds(), 86_400_000, "Longest timeout of a transaction."),
		count("transaction.state.log.min.isr", min(internalMinISR, b.replicasOf(txn.Topic)), min(internalMinISR, b.replicasOf(txn.Topic)), "Replicas that have a transaction's state on disk before it counts."),
		count("transaction.state.log.num.partitions", b.partitionsOf(txn.Topic), txn.DefaultPartitions, "Partitions of "+txn.Topic+"."),
		count("transaction.state.log.replication.factor", b.replicasOf(txn.Topic), b.replicasOf(txn.Topic), "Replicas of "+txn.Topic+"."),
		millis("transactional.id.expiration.ms", t.IdleExpiry.Milliseconds(), 604_800_000, "How long a transactional id without transactions is remembered."),
	}
	slices.SortFunc(settings, func(x, y brokerSetting) int { return strings.Compare(x.name, y.name) })
	return settings
}

func text(name, value, standard, doc string) brokerSetting {
	return brokerSetting{name, kmsg.ConfigTypeString, value, standard, doc}
}

func count(name string, value, standard int64, doc string) brokerSetting {
	return brokerSetting{name, kmsg.ConfigTypeInt, strconv.FormatInt(value, 10), strconv.FormatInt(standard, 10), doc}
}

func millis(name string, value, standard int64, doc string) brokerSetting {
	s := count(name, value, standard, doc+" In milliseconds.")
	s.kind = kmsg.ConfigTypeLong
	return s
}

func onOff(name string, value, standard bool, doc string) brokerSetting {
	return brokerSetting{name, kmsg.ConfigTypeBoolean, strconv.FormatBool(value), strconv.FormatBool(standard), doc}
}

func (b *Broker) partitionsOf(topic string) int64 {
	if t := b.node.Catalog().Topics[topic]; t != nil {
		return int64(len(t.Partitions))
	}
	return 0
}

// replicasOf is how many replicas a topic's partitions have.
func (b *Broker) replicasOf(topic string) int64 {
	if t := b.node.Catalog().Topics[topic]; t != nil {
		return int64(len(t.Partitions[0].Members))
	}
	return int64(b.node.DefaultReplicationFactor())
}

// describeBroker reports this node's settings, and the defaults of topics by their names on a broker.
func (b *Broker) describeBroker() []kmsg.DescribeConfigsResponseResourceConfig {
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for _, s := range b.brokerSettings() {
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.ConfigType, c.Value, c.Documentation, c.ReadOnly = s.name, s.kind, &s.value, &s.doc, true
		c.Source = kmsg.ConfigSourceStaticBrokerConfig
		if s.value == s.standard {
			c.Source, c.IsDefault = kmsg.ConfigSourceDefaultConfig, true
		} else {
			c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(s.name, s.value, c.Source))
		}
		c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(s.name, s.standard, kmsg.ConfigSourceDefaultConfig))
		out = append(out, c)
	}
	dynamic := b.node.Catalog().Defaults
	for _, p := range topicconfig.All() {
		if p.Inert {
			continue
		}
		layers := b.layersOf(&p, dynamic)
		doc := p.Doc + " Default of topics."
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.ConfigType, c.Documentation = p.Broker, configType(&p), &doc
		c.Value, c.Source, c.IsDefault = &layers[0].value, layers[0].source, layers[0].source == kmsg.ConfigSourceDefaultConfig
		for _, l := range layers {
			c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(p.Broker, l.value, l.source))
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(x, y kmsg.DescribeConfigsResponseResourceConfig) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// describeDefaults reports what was set for all brokers.
func (b *Broker) describeDefaults() []kmsg.DescribeConfigsResponseResourceConfig {
	var out []kmsg.DescribeConfigsResponseResourceConfig
	dynamic := b.node.Catalog().Defaults
	for _, c := range b.describeBroker() {
		if p := topicconfig.LookupBroker(c.Name); p != nil {
			if _, set := dynamic[p.Name]; set {
				out = append(out, c)
			}
		}
	}
	return out
}

// dynamicProperty finds the topic property whose cluster-wide default a broker's setting is. Others are refused by name.
func (b *Broker) dynamicProperty(name string) (*topicconfig.Property, error) {
	if p := topicconfig.LookupBroker(name); p != nil && !p.Inert {
		return p, nil
	}
	for _, s := range b.brokerSettings() {
		if s.name == name {
			return nil, refuse(kerr.InvalidRequest, fmt.Sprintf("%s cannot be changed while the node runs; set it in the node's YAML file and restart", name))
		}
	}
	if p := topicconfig.LookupBroker(name); p != nil {
		return nil, refuse(kerr.InvalidRequest, name+" has no effect here, so it cannot be set for brokers")
	}
	return nil, refuse(kerr.InvalidConfig, fmt.Sprintf("unknown broker configuration %q", name))
}
