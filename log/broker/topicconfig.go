package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
)

// layer is one place that a property's value can come from.
type layer struct {
	source kmsg.ConfigSource
	value  string
}

// layersOf are the values of a property below a topic's own, the one in force first.
func (b *Broker) layersOf(p *topicconfig.Property, dynamic map[string]string) []layer {
	var out []layer
	if v, ok := dynamic[p.Name]; ok {
		out = append(out, layer{kmsg.ConfigSourceDynamicDefaultBrokerConfig, v})
	}
	if v, ok := b.node.TopicDefaults()[p.Name]; ok && v != p.Default {
		out = append(out, layer{kmsg.ConfigSourceStaticBrokerConfig, v})
	}
	return append(out, layer{kmsg.ConfigSourceDefaultConfig, p.Default})
}

// configType is the protocol's name for a kind of values.
func configType(p *topicconfig.Property) kmsg.ConfigType {
	switch p.Kind {
	case topicconfig.Boolean:
		return kmsg.ConfigTypeBoolean
	case topicconfig.Int:
		return kmsg.ConfigTypeInt
	case topicconfig.Long:
		return kmsg.ConfigTypeLong
	case topicconfig.Double:
		return kmsg.ConfigTypeDouble
	case topicconfig.List:
		return kmsg.ConfigTypeList
	}
	return kmsg.ConfigTypeString
}

// checkTopicProperty refuses an unknown name or a value out of range, naming it.
func checkTopicProperty(name, value string) error {
	if err := topicconfig.Check(name, value); err != nil {
		return refuse(kerr.InvalidConfig, err.Error())
	}
	return nil
}
