package broker

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
)

// handleDescribeConfigs reports the configuration of topics and of this broker, with where each value is from.
func (b *Broker) handleDescribeConfigs(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	named := once[string]{}
	d := configDescriber{b: b}
	for i := range req.Resources {
		rr := &req.Resources[i]
		sr := kmsg.NewDescribeConfigsResponseResource()
		sr.ResourceType, sr.ResourceName = rr.ResourceType, rr.ResourceName
		var configs []kmsg.DescribeConfigsResponseResourceConfig
		var err error
		if named.first(resourceKey(rr.ResourceType, rr.ResourceName)) {
			configs, err = d.describe(rr.ResourceType, rr.ResourceName)
		} else { // perhaps with other names of configurations, so it is not left out
			err = refuse(kerr.InvalidRequest, "resource "+rr.ResourceName+" is named twice in the request")
		}
		sr.ErrorCode, sr.ErrorMessage = errorCode(err), errorMessage(err)
		for j := range configs { // which several topics may share: leaving something out leaves it out of all
			if !req.IncludeSynonyms {
				configs[j].ConfigSynonyms = nil
			}
			if !req.IncludeDocumentation {
				configs[j].Documentation = nil
			}
		}
		sr.Configs = configs
		if len(rr.ConfigNames) > 0 {
			sr.Configs = nil
			for j := range configs {
				if slices.Contains(rr.ConfigNames, configs[j].Name) {
					sr.Configs = append(sr.Configs, configs[j])
				}
			}
		}
		resp.Resources = append(resp.Resources, sr)
	}
	return resp, nil
}

// configDescriber answers one request. Topics that set nothing themselves share one description, so that an answer about many
// takes little more than what is sent.
type configDescriber struct {
	b            *Broker
	topics, node []kmsg.DescribeConfigsResponseResourceConfig // nil: not needed so far
}

func (d *configDescriber) describe(kind kmsg.ConfigResourceType, name string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	b := d.b
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		t, err := b.topic(name, zeroID, false)
		if err != nil {
			return nil, err
		}
		if len(t.Config) > 0 {
			return b.describeTopicConfig(t.Config), nil
		}
		if d.topics == nil {
			d.topics = b.describeTopicConfig(nil)
		}
		return d.topics, nil
	case kmsg.ConfigResourceTypeBroker:
		switch name {
		case "":
			return b.describeDefaults(), nil
		case strconv.Itoa(int(b.node.ID())):
			return b.describeBroker(), nil
		}
		return nil, refuse(kerr.InvalidRequest, "this is broker "+strconv.Itoa(int(b.node.ID()))+", not "+name)
	case kmsg.ConfigResourceTypeGroupConfig:
		if d.node == nil {
			d.node = b.describeBroker()
		}
		return b.describeGroup(name, d.node)
	case kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics:
		return nil, nil // there are none
	}
	return nil, refuse(kerr.InvalidRequest, "unknown kind of resource")
}

// describeTopicConfig describes a topic that sets so much itself. Most set nothing, and share one.
func (b *Broker) describeTopicConfig(set map[string]string) []kmsg.DescribeConfigsResponseResourceConfig {
	dynamic := b.node.Catalog().Defaults
	all := topicconfig.All()
	out := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(all))
	for i := range all {
		p := &all[i]
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.ConfigType, c.Documentation = p.Name, configType(p), &p.Doc
		layers := b.layersOf(p, dynamic)
		c.Value, c.Source = &layers[0].value, layers[0].source
		if value, own := set[p.Name]; own {
			c.Value, c.Source = &value, kmsg.ConfigSourceDynamicTopicConfig
			c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(p.Name, value, c.Source))
		}
		c.IsDefault = c.Source == kmsg.ConfigSourceDefaultConfig
		for _, l := range layers {
			c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(p.Broker, l.value, l.source))
		}
		out = append(out, c)
	}
	return out
}

func synonym(name, value string, source kmsg.ConfigSource) kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
	s.Name, s.Value, s.Source = name, &value, source
	return s
}
