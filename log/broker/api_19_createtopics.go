package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/cluster/topicconfig"
)

// handleCreateTopics creates topics; each is durable when it is answered.
func (b *Broker) handleCreateTopics(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.CreateTopicsRequest)
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	if n := b.askedPartitions(req); n > maxMutations {
		return refuseMutations(req, n), nil
	}
	ctx, cancel := withTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	defaults := b.createdConfigs(nil)
	twice := map[string]int{}
	for i := range req.Topics {
		twice[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		rt := &req.Topics[i]
		st := kmsg.NewCreateTopicsResponseTopic()
		st.Topic, st.NumPartitions, st.ReplicationFactor = rt.Topic, -1, -1
		// Java's admin client takes null here for a promise of an error code beside it.
		st.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		var err error
		if twice[rt.Topic] > 1 {
			err = refuse(kerr.InvalidRequest, "topic "+rt.Topic+" is named twice in the request")
		} else {
			err = b.createTopic(ctx, rt, req.ValidateOnly, defaults, &st)
		}
		st.ErrorCode, st.ErrorMessage = errorCode(err), errorMessage(err)
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil
}

func (b *Broker) createTopic(ctx context.Context, rt *kmsg.CreateTopicsRequestTopic, validateOnly bool,
	defaults []kmsg.CreateTopicsResponseTopicConfig, st *kmsg.CreateTopicsResponseTopic,
) error {
	if b.node.Catalog().Topics[rt.Topic] != nil {
		return cluster.ErrTopicExists // whatever else is wrong with the request
	}
	spec, err := b.topicSpec(rt)
	if err != nil {
		return err
	}
	partitions := spec.Partitions
	if partitions < 0 {
		partitions = b.opts.DefaultPartitions
	}
	if validateOnly {
		if err := b.node.CheckTopic(spec); err != nil {
			return err
		}
	} else {
		t, err := b.node.CreateTopic(ctx, spec)
		if err != nil {
			return err
		}
		st.TopicID, partitions = t.ID, int32(len(t.Partitions))
	}
	st.NumPartitions, st.ReplicationFactor = partitions, replicationFactor
	if st.Configs = defaults; len(spec.Config) > 0 {
		st.Configs = b.createdConfigs(spec.Config)
	}
	return nil
}

// createdConfigs is the whole configuration of a topic that sets so much of it itself. Most set nothing, and share one.
func (b *Broker) createdConfigs(set map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	defaults, all := b.node.Catalog().Defaults, topicconfig.All()
	out := make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(all))
	for _, p := range all {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		value, own := set[p.Name]
		c.Source = int8(kmsg.ConfigSourceDynamicTopicConfig)
		if !own {
			l := b.layersOf(&p, defaults)[0]
			value, c.Source = l.value, int8(l.source)
		}
		c.Name, c.Value = p.Name, &value
		out = append(out, c)
	}
	return out
}

// replicationFactor is what a cluster of one node can give.
const replicationFactor = 1

// topicSpec checks what a client asks for. Of replication it may only ask for what there is.
func (b *Broker) topicSpec(rt *kmsg.CreateTopicsRequestTopic) (cluster.TopicSpec, error) {
	spec := cluster.TopicSpec{Name: rt.Topic, Partitions: rt.NumPartitions}
	if isInternalName(rt.Topic) {
		return spec, refuse(kerr.InvalidTopicException, "topic "+rt.Topic+" is created by the broker alone")
	}
	if len(rt.ReplicaAssignment) > 0 {
		if rt.NumPartitions != -1 || rt.ReplicationFactor != -1 {
			return spec, refuse(kerr.InvalidRequest, "give either a replica assignment or counts (-1 beside an assignment)")
		}
		if err := b.checkAssignment(rt.ReplicaAssignment); err != nil {
			return spec, err
		}
		spec.Partitions = int32(len(rt.ReplicaAssignment))
	} else if rf := rt.ReplicationFactor; rf != -1 && rf != replicationFactor {
		return spec, refuse(kerr.InvalidReplicationFactor,
			fmt.Sprintf("replication factor %d: this cluster has %d broker; ask for -1 or %d", rf, replicationFactor, replicationFactor))
	}
	for i := range rt.Configs {
		c := &rt.Configs[i]
		if c.Value == nil {
			return spec, refuse(kerr.InvalidConfig, "topic configuration "+c.Name+" has no value")
		}
		if err := checkTopicProperty(c.Name, *c.Value); err != nil {
			return spec, err
		}
		if spec.Config == nil {
			spec.Config = map[string]string{}
		}
		spec.Config[c.Name] = *c.Value
	}
	return spec, nil
}

func (b *Broker) checkAssignment(assignment []kmsg.CreateTopicsRequestTopicReplicaAssignment) error {
	seen := make([]bool, len(assignment))
	for i := range assignment {
		a := &assignment[i]
		if a.Partition < 0 || int(a.Partition) >= len(seen) || seen[a.Partition] {
			return refuse(kerr.InvalidReplicaAssignment, "partitions of a replica assignment must count from 0 without gaps")
		}
		seen[a.Partition] = true
		if len(a.Replicas) != replicationFactor || a.Replicas[0] != b.node.ID() {
			return refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("the only broker to assign replicas to is %d", b.node.ID()))
		}
	}
	return nil
}
