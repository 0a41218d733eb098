package broker

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/cluster/topicconfig"
)

// handleDescribeConfigs reports the configuration of topics and of this broker, with where each value is from.
func (b *Broker) handleDescribeConfigs(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	named := once[string]{}
	for i := range req.Resources {
		rr := &req.Resources[i]
		sr := kmsg.NewDescribeConfigsResponseResource()
		sr.ResourceType, sr.ResourceName = rr.ResourceType, rr.ResourceName
		var configs []kmsg.DescribeConfigsResponseResourceConfig
		var err error
		if named.first(resourceKey(rr.ResourceType, rr.ResourceName)) {
			configs, err = b.describe(rr.ResourceType, rr.ResourceName)
		} else { // perhaps with other names of configurations, so it is not left out
			err = refuse(kerr.InvalidRequest, "resource "+rr.ResourceName+" is named twice in the request")
		}
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
		switch name {
		case "":
			return b.describeDefaults(), nil
		case strconv.Itoa(int(b.node.ID())):
			return b.describeBroker(), nil
		}
		return nil, refuse(kerr.InvalidRequest, "this is broker "+strconv.Itoa(int(b.node.ID()))+", not "+name)
	case kmsg.ConfigResourceTypeGroupConfig:
		return b.describeGroup(name)
	case kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics:
		return nil, nil // there are none
	}
	return nil, refuse(kerr.InvalidRequest, "unknown kind of resource")
}

func (b *Broker) describeTopic(t *cluster.Topic) []kmsg.DescribeConfigsResponseResourceConfig {
	dynamic := b.node.Catalog().Defaults
	all := topicconfig.All()
	out := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(all))
	for i := range all {
		p := &all[i]
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.ConfigType, c.Documentation = p.Name, configType(p), &p.Doc
		layers := b.layersOf(p, dynamic)
		c.Value, c.Source = &layers[0].value, layers[0].source
		if value, set := t.Config[p.Name]; set {
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
