package broker

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
)

// handleIncrementalAlterConfigs changes single properties of topics.
func (b *Broker) handleIncrementalAlterConfigs(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.IncrementalAlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	for i := range req.Resources {
		rr := &req.Resources[i]
		sr := kmsg.NewIncrementalAlterConfigsResponseResource()
		sr.ResourceType, sr.ResourceName = rr.ResourceType, rr.ResourceName
		err := b.alter(ctx, rr.ResourceType, rr.ResourceName, req.ValidateOnly, func(t *cluster.Topic) (map[string]*string, error) {
			return incrementalChanges(t, rr.Configs)
		})
		sr.ErrorCode, sr.ErrorMessage = errorCode(err), errorMessage(err)
		resp.Resources = append(resp.Resources, sr)
	}
	return resp, nil
}

// handleAlterConfigs (API 33) replaces all properties of topics: what is not given returns to its default.
func (b *Broker) handleAlterConfigs(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	for i := range req.Resources {
		rr := &req.Resources[i]
		sr := kmsg.NewAlterConfigsResponseResource()
		sr.ResourceType, sr.ResourceName = rr.ResourceType, rr.ResourceName
		err := b.alter(ctx, rr.ResourceType, rr.ResourceName, req.ValidateOnly, func(t *cluster.Topic) (map[string]*string, error) {
			changes := map[string]*string{}
			for name := range t.Config {
				changes[name] = nil
			}
			for j := range rr.Configs {
				if rr.Configs[j].Value == nil {
					return nil, refuse(kerr.InvalidConfig, "topic configuration "+rr.Configs[j].Name+" has no value")
				}
				changes[rr.Configs[j].Name] = rr.Configs[j].Value
			}
			return changes, nil
		})
		sr.ErrorCode, sr.ErrorMessage = errorCode(err), errorMessage(err)
		resp.Resources = append(resp.Resources, sr)
	}
	return resp, nil
}

// alter checks and applies the changes that are made of a topic's present configuration.
func (b *Broker) alter(ctx context.Context, kind kmsg.ConfigResourceType, name string, validateOnly bool,
	changesOf func(*cluster.Topic) (map[string]*string, error),
) error {
	if kind != kmsg.ConfigResourceTypeTopic {
		return refuse(kerr.InvalidRequest, "only topics are configured through the protocol; a node's settings are in its YAML file")
	}
	t, err := b.topic(name, zeroID, false)
	if err != nil {
		return err
	}
	if t.Internal {
		return refuse(kerr.InvalidRequest, "topic "+name+" holds the broker's own state")
	}
	changes, err := changesOf(t)
	if err != nil {
		return err
	}
	for property, value := range changes {
		if value == nil {
			continue
		}
		if err := checkTopicProperty(property, *value); err != nil {
			return err
		}
	}
	if validateOnly || len(changes) == 0 {
		return nil
	}
	ctx, cancel := withTimeout(ctx, 0)
	defer cancel()
	return b.node.SetTopicConfig(ctx, name, changes)
}

// incrementalChanges turns set, delete, append and subtract into values to set; nil removes.
func incrementalChanges(t *cluster.Topic, configs []kmsg.IncrementalAlterConfigsRequestResourceConfig) (map[string]*string, error) {
	changes := map[string]*string{}
	for i := range configs {
		c := &configs[i]
		if _, twice := changes[c.Name]; twice {
			return nil, refuse(kerr.InvalidRequest, "topic configuration "+c.Name+" is changed twice in one request")
		}
		p := topicProperty(c.Name)
		if p == nil {
			return nil, checkTopicProperty(c.Name, "")
		}
		if c.Op == kmsg.IncrementalAlterConfigOpDelete {
			changes[c.Name] = nil
			continue
		}
		if c.Value == nil {
			return nil, refuse(kerr.InvalidConfig, "topic configuration "+c.Name+" has no value")
		}
		switch c.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			changes[c.Name] = c.Value
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			if p.Type != kmsg.ConfigTypeList {
				return nil, refuse(kerr.InvalidConfig, "topic configuration "+c.Name+" is not a list: set it")
			}
			current, set := t.Config[c.Name]
			if !set {
				current = p.Default
			}
			value := editList(current, *c.Value, c.Op == kmsg.IncrementalAlterConfigOpAppend)
			changes[c.Name] = &value
		default:
			return nil, refuse(kerr.InvalidRequest, "unknown operation on topic configuration "+c.Name)
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
