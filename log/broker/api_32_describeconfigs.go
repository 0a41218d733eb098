package broker

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
)

// handleDescribeConfigs reports the configuration of topics and of this broker, with where each value is from.
func (b *Broker) handleDescribeConfigs(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	for i := range req.Resources {
		rr := &req.Resources[i]
		sr := kmsg.NewDescribeConfigsResponseResource()
		sr.ResourceType, sr.ResourceName = rr.ResourceType, rr.ResourceName
		configs, err := b.describe(rr.ResourceType, rr.ResourceName)
		sr.ErrorCode, sr.ErrorMessage = errorCode(err), errorMessage(err)
		for j := range configs {
			c := &configs[j]
			if len(rr.ConfigNames) > 0 && !slices.Contains(rr.ConfigNames, c.Name) {
				continue
			}
			if !req.IncludeSynonyms {
				c.ConfigSynonyms = nil
			}
			if !req.IncludeDocumentation {
				c.Documentation = nil
			}
			sr.Configs = append(sr.Configs, *c)
		}
		resp.Resources = append(resp.Resources, sr)
	}
	return resp, nil
}

func (b *Broker) describe(kind kmsg.ConfigResourceType, name string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		t, err := b.topic(name, zeroID, false)
		if err != nil {
			return nil, err
		}
		return b.describeTopic(t), nil
	case kmsg.ConfigResourceTypeBroker:
		if name != "" && name != strconv.Itoa(int(b.node.ID())) {
			return nil, refuse(kerr.InvalidRequest, "this is broker "+strconv.Itoa(int(b.node.ID()))+", not "+name)
		}
		return b.describeBroker(), nil
	case kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
		return nil, nil // there are none
	}
	return nil, refuse(kerr.InvalidRequest, "unknown kind of resource")
}

func (b *Broker) describeTopic(t *cluster.Topic) []kmsg.DescribeConfigsResponseResourceConfig {
	out := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(topicProperties))
	for i := range topicProperties {
		p := &topicProperties[i]
		value, set := t.Config[p.Name]
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.ConfigType, c.Documentation = p.Name, p.Type, &p.Doc
		def, source := b.defaultValue(p)
		c.Source, c.Value = source, &def
		if set {
			c.Source, c.Value = kmsg.ConfigSourceDynamicTopicConfig, &value
			c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(p.Name, &value, c.Source))
		}
		c.IsDefault = !set
		c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(p.Broker, &def, source))
		out = append(out, c)
	}
	return out
}

func (b *Broker) defaultValue(p *TopicProperty) (string, kmsg.ConfigSource) {
	value, static := b.defaultOf(p)
	if static {
		return value, kmsg.ConfigSourceStaticBrokerConfig
	}
	return value, kmsg.ConfigSourceDefaultConfig
}

func synonym(name string, value *string, source kmsg.ConfigSource) kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
	s.Name, s.Value, s.Source = name, value, source
	return s
}

// describeBroker lists what clients look up at a broker. It is set in the node's YAML file and read-only here.
func (b *Broker) describeBroker() []kmsg.DescribeConfigsResponseResourceConfig {
	type setting struct {
		name  string
		kind  kmsg.ConfigType
		value string
		doc   string
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	settings := []setting{
		{"advertised.listeners", kmsg.ConfigTypeString, "PLAINTEXT://" + net.JoinHostPort(b.opts.AdvertisedHost, strconv.Itoa(int(b.opts.AdvertisedPort))), "Where clients are told to connect."},
		{"auto.create.topics.enable", kmsg.ConfigTypeBoolean, strconv.FormatBool(b.opts.AutoCreateTopics), "Whether asking for a missing topic creates it."},
		{"broker.id", kmsg.ConfigTypeInt, number(int64(b.node.ID())), "This node's id."},
		{"connections.max.idle.ms", kmsg.ConfigTypeLong, number(b.opts.IdleTimeout.Milliseconds()), "A connection without a request for this long is closed."},
		{"default.replication.factor", kmsg.ConfigTypeInt, number(replicationFactor), "Replicas of a topic that does not say."},
		{"delete.topic.enable", kmsg.ConfigTypeBoolean, "true", "Topics can be deleted."},
		{"fetch.max.bytes", kmsg.ConfigTypeInt, number(int64(b.opts.MaxFetchBytes)), "Largest Fetch response."},
		{"log.dirs", kmsg.ConfigTypeString, b.opts.DataDir, "The data directory."},
		{"max.connections", kmsg.ConfigTypeInt, number(int64(b.opts.MaxConnections)), "Open network connections."},
		{"num.partitions", kmsg.ConfigTypeInt, number(int64(b.opts.DefaultPartitions)), "Partitions of a topic that does not say."},
		{"queued.max.request.bytes", kmsg.ConfigTypeLong, number(b.opts.InFlightBytes), "Bytes of requests being handled."},
		{"socket.request.max.bytes", kmsg.ConfigTypeInt, number(int64(b.opts.MaxRequestBytes)), "Largest Produce request."},
	}
	for i := range topicProperties {
		p := &topicProperties[i]
		if !p.Inert {
			value, _ := b.defaultOf(p)
			settings = append(settings, setting{p.Broker, p.Type, value, p.Doc + " Default of topics."})
		}
	}
	slices.SortFunc(settings, func(x, y setting) int { return strings.Compare(x.name, y.name) })
	out := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(settings))
	for _, s := range settings {
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.ConfigType, c.Value, c.Documentation = s.name, s.kind, &s.value, &s.doc
		c.ReadOnly, c.Source = true, kmsg.ConfigSourceStaticBrokerConfig
		c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(s.name, &s.value, c.Source))
		out = append(out, c)
	}
	return out
}
