package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
)

// maxAutoCreates is how many topics one request for metadata creates. The rest are LEADER_NOT_AVAILABLE, as a topic that is being
// created is in Kafka: the client asks again.
const maxAutoCreates = 100

// createNamed creates missing topics that a request for metadata names, where both sides allow that.
func (b *Broker) createNamed(ctx context.Context, r *request) (partitions int) {
	req := r.req.(*kmsg.MetadataRequest)
	if !b.opts.AutoCreateTopics || req.Version >= 4 && !req.AllowAutoTopicCreation {
		return 0
	}
	for i := range req.Topics {
		rt := &req.Topics[i]
		if rt.Topic == nil || metadataByID(req, rt) {
			continue
		}
		name := *rt.Topic
		if _, again := r.created[name]; again || b.node.Catalog().Topics[name] != nil {
			continue
		}
		if r.created == nil {
			r.created = map[string]error{}
		}
		if len(r.created) >= maxAutoCreates || ctx.Err() != nil {
			r.created[name] = kerr.LeaderNotAvailable
			continue
		}
		t, err := b.autoCreate(ctx, name)
		if r.created[name] = err; err == nil {
			partitions += len(t.Partitions)
		}
	}
	return partitions
}

// metadataByID tells whether a topic is asked for by its id, which counts whatever the name beside it: Java sends an empty one, others null.
func metadataByID(req *kmsg.MetadataRequest, rt *kmsg.MetadataRequestTopic) bool {
	return req.Version >= 10 && (rt.Topic == nil || rt.TopicID != zeroID)
}

// handleMetadata describes brokers and topics.
func (b *Broker) handleMetadata(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.MetadataRequest)
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	clusterID := b.node.ClusterID()
	resp.ClusterID = &clusterID
	resp.ControllerID = b.controllerID()
	defer b.nameBrokers(resp)
	resp.AuthorizedOperations = authorized(req.IncludeClusterAuthorizedOperations, clusterOperations)

	b.awaitElections(ctx, b.namedTopics(req))
	if req.Topics == nil || req.Version == 0 && len(req.Topics) == 0 {
		for _, t := range b.node.Catalog().Sorted() {
			resp.Topics = append(resp.Topics, b.metadataTopic(t, req.IncludeTopicAuthorizedOperations))
		}
		return resp, nil
	}
	type topicKey struct {
		name string
		id   [16]byte
	}
	named := once[topicKey]{}
	for i := range req.Topics {
		rt := &req.Topics[i]
		var name string
		byID := metadataByID(req, rt)
		if rt.Topic != nil {
			name = *rt.Topic
		}
		key := topicKey{name: name}
		if byID {
			key = topicKey{id: rt.TopicID}
		}
		if !named.first(key) {
			continue
		}
		t, err := b.topic(name, rt.TopicID, byID)
		if refused := r.created[name]; err != nil && refused != nil && !byID {
			err = refused
		}
		if err != nil {
			mt := kmsg.NewMetadataResponseTopic()
			mt.Topic, mt.TopicID, mt.ErrorCode = rt.Topic, rt.TopicID, errorCode(err)
			if mt.Topic == nil && req.Version < 12 {
				mt.Topic = &name // not nullable before v12
			} else if byID && req.Version >= 12 {
				mt.Topic = nil
			}
			resp.Topics = append(resp.Topics, mt)
			continue
		}
		resp.Topics = append(resp.Topics, b.metadataTopic(t, req.IncludeTopicAuthorizedOperations))
	}
	return resp, nil
}

// namedTopics are the topics that are asked for and exist.
func (b *Broker) namedTopics(req *kmsg.MetadataRequest) []*cluster.Topic {
	if req.Topics == nil || req.Version == 0 && len(req.Topics) == 0 {
		return b.node.Catalog().Sorted()
	}
	named := make([]*cluster.Topic, 0, min(len(req.Topics), len(b.node.Catalog().Topics)))
	for i := range req.Topics {
		rt := &req.Topics[i]
		if t, err := b.topic(deref(rt.Topic), rt.TopicID, metadataByID(req, rt)); err == nil && len(named) < cap(named) {
			named = append(named, t)
		}
	}
	return named
}

// nameBrokers comes last, so that no leader is missing.
func (b *Broker) nameBrokers(resp *kmsg.MetadataResponse) {
	named := map[int32]bool{resp.ControllerID: true}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			named[resp.Topics[i].Partitions[j].Leader] = true
		}
	}
	for _, e := range b.endpoints(named) {
		mb := kmsg.NewMetadataResponseBroker()
		mb.NodeID, mb.Host, mb.Port, mb.Rack = e.node, e.host, e.port, e.rack
		resp.Brokers = append(resp.Brokers, mb)
	}
}

// autoCreate makes a topic with the defaults, or finds the one that someone else has just made.
func (b *Broker) autoCreate(ctx context.Context, name string) (*cluster.Topic, error) {
	if isInternalName(name) {
		return nil, kerr.UnknownTopicOrPartition // its coordinator creates it
	}
	ctx, cancel := withTimeout(ctx, 0)
	defer cancel()
	defer pause(ctx)()
	t, err := b.node.CreateTopic(ctx, cluster.TopicSpec{Name: name, Partitions: -1})
	if errors.Is(err, cluster.ErrTopicExists) {
		return b.topic(name, zeroID, false)
	}
	if err == nil {
		b.logger.Info("created topic on first use", "topic", name, "partitions", len(t.Partitions))
	}
	return t, err
}

func (b *Broker) metadataTopic(t *cluster.Topic, operations bool) kmsg.MetadataResponseTopic {
	mt := kmsg.NewMetadataResponseTopic()
	mt.Topic, mt.TopicID, mt.IsInternal = &t.Name, t.ID, t.Internal
	mt.AuthorizedOperations = authorized(operations, topicOperations)
	mt.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		mp := &mt.Partitions[i]
		mp.Default()
		mp.Partition = int32(i)
		d := b.describe(t, int32(i))
		mp.Replicas, mp.ISR, mp.OfflineReplicas, mp.Leader, mp.LeaderEpoch = d.replicas, d.isr, d.offline, b.standIn(&d), d.epoch
		mp.ErrorCode = leaderError(mp.Leader)
	}
	return mt
}
