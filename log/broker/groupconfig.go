package broker

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
	"github.com/rowtrail/rowtrail/log/broker/group/consumer"
)

// Settings of single groups of the consumer protocol. For all others this node's hold, whose names have groupPrefix.
const (
	groupPrefix    = "group."
	groupHeartbeat = "consumer.heartbeat.interval.ms"
	groupSession   = "consumer.session.timeout.ms"
)

// Bounds of these settings, in milliseconds: the node's own have the same.
const (
	minGroupHeartbeat = 1
	minGroupSession   = 1000
	maxGroupMillis    = 86_400_000
)

func errNoGroup() error {
	return refuse(kerr.InvalidRequest, "the configuration of groups is kept for each by its name; the resource has none")
}

// consumerLimits are those of one group: what was set for it, else those of all.
func (b *Broker) consumerLimits(group string, all consumer.Limits) consumer.Limits {
	for name, value := range b.node.Catalog().Groups[group] {
		millis, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			continue // checkGroupConfig lets none in
		}
		switch d := time.Duration(millis) * time.Millisecond; name {
		case groupHeartbeat:
			all.HeartbeatInterval = d
		case groupSession:
			all.SessionTimeout = d
		}
	}
	return all
}

// checkGroupConfig says what is wrong with all that is set for a group.
func (b *Broker) checkGroupConfig(config map[string]string) error {
	all := b.groups.Options().Consumer
	values := map[string]int64{groupHeartbeat: all.HeartbeatInterval.Milliseconds(), groupSession: all.SessionTimeout.Milliseconds()}
	for name, value := range config {
		least := int64(minGroupHeartbeat)
		if name == groupSession {
			least = minGroupSession
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < least || n > maxGroupMillis {
			return refuse(kerr.InvalidConfig, fmt.Sprintf("invalid value %q for %s: it must be an integer from %d to %d", value, name, least, maxGroupMillis))
		}
		values[name] = n
	}
	if len(config) > 0 && values[groupSession] <= values[groupHeartbeat] {
		return refuse(kerr.InvalidConfig, fmt.Sprintf("%s (%d) must be above %s (%d), or members would be removed between heartbeats",
			groupSession, values[groupSession], groupHeartbeat, values[groupHeartbeat]))
	}
	return nil
}

// groupProperty finds a setting of a group by its name.
func groupProperty(name string) (*topicconfig.Property, error) {
	if name == groupHeartbeat || name == groupSession {
		return &topicconfig.Property{Name: name, Kind: topicconfig.Int}, nil
	}
	return nil, refuse(kerr.InvalidConfig, fmt.Sprintf("unknown group configuration %q; there are %s and %s", name, groupHeartbeat, groupSession))
}

// describeGroup reports what holds for a group of the consumer protocol, whether there is one of this name or not.
func (b *Broker) describeGroup(group string, node []kmsg.DescribeConfigsResponseResourceConfig) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	if group == "" {
		return nil, errNoGroup()
	}
	own := b.node.Catalog().Groups[group]
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for _, c := range node {
		name, ok := strings.CutPrefix(c.Name, groupPrefix)
		if !ok || name != groupHeartbeat && name != groupSession {
			continue
		}
		c.Name, c.ConfigType, c.ReadOnly = name, kmsg.ConfigTypeInt, false // its synonyms keep the node's
		if value, set := own[name]; set {
			c.Value, c.Source, c.IsDefault = &value, kmsg.ConfigSourceGroupConfig, false
			c.ConfigSynonyms = append([]kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{synonym(name, value, c.Source)}, c.ConfigSynonyms...)
		}
		out = append(out, c)
	}
	return out, nil
}
