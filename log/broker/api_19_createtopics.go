package broker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
	replicas := spec.ReplicationFactor
	switch {
	case len(spec.Assignment) > 0:
		partitions, replicas = int32(len(spec.Assignment)), int16(len(spec.Assignment[0])) //nolint:gosec // bounded by maxMutations
	case replicas < 0:
		replicas = b.node.DefaultReplicationFactor()
	}
	if validateOnly {
		if err := b.node.CheckTopic(spec); err != nil {
			return err
		}
	} else {
		resume := pause(ctx)
		t, err := b.node.CreateTopic(ctx, spec)
		resume()
		if err != nil {
			return err
		}
		b.awaitLeaders(ctx, t)
		st.TopicID, partitions = t.ID, int32(len(t.Partitions))
		replicas = int16(len(t.Partitions[0].Members)) //nolint:gosec // at most one on each node
	}
	st.NumPartitions, st.ReplicationFactor = partitions, replicas
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

// leadersTimeout bounds the wait for the leaders of a topic that is there already.
const leadersTimeout = 3 * time.Second

// awaitLeaders waits until a new topic's partitions have leaders, so that a client which uses it at once is not sent away. One that is not
// there in time is looked for by clients themselves.
func (b *Broker) awaitLeaders(ctx context.Context, t *cluster.Topic) {
	defer pause(ctx)()
	late := time.NewTimer(leadersTimeout)
	defer late.Stop()
	for i := range t.Partitions {
		for {
			changed := b.node.LeadersChanged()
			if leader, _ := b.leaderOf(t, int32(i)); leader >= 0 {
				break
			}
			select {
			case <-changed:
			case <-late.C:
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// topicSpec checks what a client asks for.
func (b *Broker) topicSpec(rt *kmsg.CreateTopicsRequestTopic) (cluster.TopicSpec, error) {
	spec := cluster.TopicSpec{Name: rt.Topic, Partitions: rt.NumPartitions, ReplicationFactor: rt.ReplicationFactor}
	if isInternalName(rt.Topic) {
		return spec, refuse(kerr.InvalidTopicException, "topic "+rt.Topic+" is created by the broker alone")
	}
	if len(rt.ReplicaAssignment) > 0 {
		if rt.NumPartitions != -1 || rt.ReplicationFactor != -1 {
			return spec, refuse(kerr.InvalidRequest, "give either a replica assignment or counts (-1 beside an assignment)")
		}
		var err error
		if spec.Assignment, err = b.assignmentOf(rt.ReplicaAssignment); err != nil {
			return spec, err
		}
		spec.ReplicationFactor = -1
	} else if err := b.checkReplicationFactor(rt.ReplicationFactor); err != nil {
		return spec, err
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

// checkReplicationFactor refuses what there are too few nodes for.
func (b *Broker) checkReplicationFactor(rf int16) error {
	most := b.node.Sites()
	switch {
	case rf == -1 || rf >= 1 && int(rf) <= most:
		return nil
	case most == 1:
		return refuse(kerr.InvalidReplicationFactor, fmt.Sprintf("replication factor %d: this cluster has 1 broker; ask for -1 or 1", rf))
	}
	return refuse(kerr.InvalidReplicationFactor, fmt.Sprintf("replication factor %d: this cluster has %d brokers to place replicas on; ask for -1 or 1 to %d", rf, most, most))
}

// assignmentOf puts a replica assignment in the order of its partitions.
func (b *Broker) assignmentOf(assignment []kmsg.CreateTopicsRequestTopicReplicaAssignment) ([][]int32, error) {
	out := make([][]int32, len(assignment))
	for i := range assignment {
		a := &assignment[i]
		if a.Partition < 0 || int(a.Partition) >= len(out) || out[a.Partition] != nil {
			return nil, refuse(kerr.InvalidReplicaAssignment, "partitions of a replica assignment must count from 0 without gaps")
		}
		if err := b.checkReplicas(a.Replicas); err != nil {
			return nil, err
		}
		out[a.Partition] = a.Replicas
	}
	return out, nil
}

// checkReplicas checks the nodes that a client chose for one partition.
func (b *Broker) checkReplicas(nodes []int32) error {
	if len(nodes) == 0 {
		return refuse(kerr.InvalidReplicaAssignment, "a replica assignment names no broker")
	}
	var ids []string
	known := map[int32]bool{}
	for _, n := range b.node.Catalog().Nodes {
		ids, known[n.ID] = append(ids, strconv.Itoa(int(n.ID))), true
	}
	for i, n := range nodes {
		switch {
		case !known[n]:
			return refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("there is no broker %d to assign replicas to; there are %s", n, strings.Join(ids, ", ")))
		case slices.Contains(nodes[:i], n):
			return refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("broker %d stands twice in a replica assignment", n))
		}
	}
	return nil
}
