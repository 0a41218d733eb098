package broker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
)

// configTarget is what configuration is changed of: a topic, the cluster's defaults of topics, or a group.
type configTarget struct {
	topic  string            // "": the cluster's defaults, or a group
	group  string            // "": none
	config map[string]string // what is set at present
	// property finds a property by the name that it has at the target.
	property func(name string) (*topicconfig.Property, error)
	// below is the value of a property where the target does not set it.
	below func(p *topicconfig.Property) string
}

// handleIncrementalAlterConfigs changes single properties of topics and groups, and cluster-wide defaults of topics.
func (b *Broker) handleIncrementalAlterConfigs(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.IncrementalAlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	twice := map[string]int{}
	for i := range req.Resources {
		twice[resourceKey(req.Resources[i].ResourceType, req.Resources[i].ResourceName)]++
	}
	for i := range req.Resources {
		rr := &req.Resources[i]
		sr := kmsg.NewIncrementalAlterConfigsResponseResource()
		sr.ResourceType, sr.ResourceName = rr.ResourceType, rr.ResourceName
		var err error
		if twice[resourceKey(rr.ResourceType, rr.ResourceName)] > 1 {
			err = refuse(kerr.InvalidRequest, "resource "+rr.ResourceName+" is named twice in the request")
		} else {
			err = b.alter(ctx, rr.ResourceType, rr.ResourceName, req.ValidateOnly, func(t *configTarget) (map[string]*string, error) {
				return incrementalChanges(t, rr.Configs)
			})
		}
		sr.ErrorCode, sr.ErrorMessage = errorCode(err), errorMessage(err)
		resp.Resources = append(resp.Resources, sr)
	}
	return resp, nil
}

func resourceKey(kind kmsg.ConfigResourceType, name string) string { return kind.String() + " " + name }

// handleAlterConfigs (API 33) replaces all properties of a target: what is not given returns to its default.
func (b *Broker) handleAlterConfigs(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	for i := range req.Resources {
		rr := &req.Resources[i]
		sr := kmsg.NewAlterConfigsResponseResource()
		sr.ResourceType, sr.ResourceName = rr.ResourceType, rr.ResourceName
		err := b.alter(ctx, rr.ResourceType, rr.ResourceName, req.ValidateOnly, func(t *configTarget) (map[string]*string, error) {
			changes := map[string]*string{}
			for name := range t.config {
				changes[name] = nil
			}
			for j := range rr.Configs {
				c := &rr.Configs[j]
				p, err := t.property(c.Name)
				switch {
				case err != nil:
					return nil, err
				case c.Value == nil:
					return nil, refuse(kerr.InvalidRequest, "configuration "+c.Name+" has no value")
				}
				changes[p.Name] = c.Value
			}
			return changes, nil
		})
		sr.ErrorCode, sr.ErrorMessage = errorCode(err), errorMessage(err)
		resp.Resources = append(resp.Resources, sr)
	}
	return resp, nil
}

// alter checks and applies the changes that are made of a target's present configuration. They are durable, and in force
// on this node's partitions, when it returns.
func (b *Broker) alter(ctx context.Context, kind kmsg.ConfigResourceType, name string, validateOnly bool,
	changesOf func(*configTarget) (map[string]*string, error),
) error {
	target, err := b.configTarget(kind, name)
	if err != nil {
		return err
	}
	changes, err := changesOf(target)
	if err != nil {
		return err
	}
	for property, value := range changes {
		if value == nil || target.group != "" {
			continue
		}
		if err := checkTopicProperty(property, *value); err != nil {
			return err
		}
	}
	if len(changes) == 0 {
		return nil
	}
	ctx, cancel := withTimeout(ctx, 0)
	defer cancel()
	if !validateOnly {
		defer pause(ctx)()
	}
	switch {
	case target.group != "" && validateOnly:
		return b.node.CheckGroupConfig(target.group, changes, b.checkGroupConfig)
	case target.group != "":
		return b.node.SetGroupConfig(ctx, target.group, changes, b.checkGroupConfig)
	case target.topic == "" && validateOnly:
		return b.node.CheckTopicDefaults(changes)
	case target.topic == "":
		return b.node.SetTopicDefaults(ctx, changes)
	case validateOnly:
		return b.node.CheckTopicConfig(target.topic, changes)
	}
	return b.node.SetTopicConfig(ctx, target.topic, changes)
}

func (b *Broker) configTarget(kind kmsg.ConfigResourceType, name string) (*configTarget, error) {
	catalog := b.node.Catalog()
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		t, err := b.topic(name, zeroID, false)
		if err != nil {
			return nil, err
		}
		if t.Internal {
			return nil, refuse(kerr.InvalidRequest, "topic "+name+" holds the broker's own state")
		}
		return &configTarget{
			topic: name, config: t.Config,
			property: func(name string) (*topicconfig.Property, error) {
				if p := topicconfig.Lookup(name); p != nil {
					return p, nil
				}
				return nil, checkTopicProperty(name, "")
			},
			below: func(p *topicconfig.Property) string { return b.layersOf(p, catalog.Defaults)[0].value },
		}, nil
	case kmsg.ConfigResourceTypeBroker:
		if name != "" {
			return nil, refuse(kerr.InvalidRequest, fmt.Sprintf("broker %s has no dynamic configuration of its own: defaults of topics are set for all brokers "+
				"(resource name \"\", --entity-default), the rest in the node's YAML file", strconv.Quote(name)))
		}
		return &configTarget{
			config: catalog.Defaults, property: b.dynamicProperty,
			below: func(p *topicconfig.Property) string { return b.layersOf(p, nil)[0].value },
		}, nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if name == "" {
			return nil, errNoGroup()
		}
		return &configTarget{group: name, config: catalog.Groups[name], property: groupProperty}, nil
	}
	return nil, refuse(kerr.InvalidRequest, "only topics, the defaults of topics at broker \"\", and groups are configured through the protocol")
}

// incrementalChanges turns set, delete, append and subtract into values to set; nil removes.
func incrementalChanges(t *configTarget, configs []kmsg.IncrementalAlterConfigsRequestResourceConfig) (map[string]*string, error) {
	changes := map[string]*string{}
	for i := range configs {
		c := &configs[i]
		p, err := t.property(c.Name)
		if err != nil {
			return nil, err
		}
		if _, twice := changes[p.Name]; twice {
			return nil, refuse(kerr.InvalidRequest, "configuration "+c.Name+" is changed twice in one request")
		}
		if c.Op == kmsg.IncrementalAlterConfigOpDelete {
			changes[p.Name] = nil
			continue
		}
		if c.Value == nil {
			return nil, refuse(kerr.InvalidRequest, "configuration "+c.Name+" has no value")
		}
		switch c.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			changes[p.Name] = c.Value
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			if p.Kind != topicconfig.List {
				return nil, refuse(kerr.InvalidConfig, "configuration "+c.Name+" is not a list: set it")
			}
			current, set := t.config[p.Name]
			if !set {
				current = t.below(p)
			}
			value := editList(current, *c.Value, c.Op == kmsg.IncrementalAlterConfigOpAppend)
			changes[p.Name] = &value
		default:
			return nil, refuse(kerr.InvalidRequest, "unknown operation on configuration "+c.Name)
		}
	}
	return changes, nil
}

// editList adds items to a comma-separated list or takes them out.
func editList(list, items string, add bool) string {
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	for item := range strings.SplitSeq(items, ",") {
		item = strings.TrimSpace(item)
		at := slices.Index(out, item)
		switch {
		case add && at < 0 && item != "":
			out = append(out, item)
		case !add && at >= 0:
			out = slices.Delete(out, at, at+1)
		}
	}
	return strings.Join(out, ",")
}
