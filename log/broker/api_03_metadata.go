package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
)

// handleMetadata describes brokers and topics; asking for a missing topic creates it where both sides allow that.
func (b *Broker) handleMetadata(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.MetadataRequest)
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	clusterID := b.node.ClusterID()
	resp.ClusterID = &clusterID
	resp.ControllerID = b.node.ID()
	me := kmsg.NewMetadataResponseBroker()
	me.NodeID, me.Host, me.Port = b.node.ID(), b.opts.AdvertisedHost, b.opts.AdvertisedPort
	if b.opts.Rack != "" {
		me.Rack = &b.opts.Rack
	}
	resp.Brokers = append(resp.Brokers, me)
	resp.AuthorizedOperations = authorized(req.IncludeClusterAuthorizedOperations, clusterOperations)

	if req.Topics == nil || req.Version == 0 && len(req.Topics) == 0 {
		for _, t := range sortedTopics(b.node.Catalog()) {
			resp.Topics = append(resp.Topics, b.metadataTopic(t, req.IncludeTopicAuthorizedOperations))
		}
		return resp, nil
	}
	create := b.opts.AutoCreateTopics && (req.Version < 4 || req.AllowAutoTopicCreation)
	type topicKey struct {
		name string
		id   [16]byte
	}
	named := once[topicKey]{}
	for i := range req.Topics {
		rt := &req.Topics[i]
		var name string
		// An id counts whatever the name beside it: Java sends an empty one, others null.
		byID := req.Version >= 10 && (rt.Topic == nil || rt.TopicID != zeroID)
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
		if err != nil && !byID && create {
			t, err = b.autoCreate(ctx, name)
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

// autoCreate makes a topic with the defaults, or finds the one that someone else has just made.
func (b *Broker) autoCreate(ctx context.Context, name string) (*cluster.Topic, error) {
	if isInternalName(name) {
		return nil, kerr.UnknownTopicOrPartition // its coordinator creates it
	}
	ctx, cancel := withTimeout(ctx, 0)
	defer cancel()
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
		mp.Replicas = t.Partitions[i].Replicas
		mp.ISR = inSync(mp.Replicas)
		mp.Leader, mp.LeaderEpoch = b.leaderOf(t, int32(i))
		mp.ErrorCode = leaderError(mp.Leader)
	}
	return mt
}
