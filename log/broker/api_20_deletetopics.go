package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleDeleteTopics deletes topics by name or by id.
func (b *Broker) handleDeleteTopics(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DeleteTopicsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	ctx, cancel := withTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	topics := req.Topics
	for i := range req.TopicNames {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &req.TopicNames[i]
		topics = append(topics, t)
	}
	for i := range topics {
		st := kmsg.NewDeleteTopicsResponseTopic()
		err := b.deleteTopic(ctx, &topics[i], &st)
		st.ErrorCode, st.ErrorMessage = errorCode(err), errorMessage(err)
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil
}

func (b *Broker) deleteTopic(ctx context.Context, rt *kmsg.DeleteTopicsRequestTopic, st *kmsg.DeleteTopicsResponseTopic) error {
	st.Topic, st.TopicID = rt.Topic, rt.TopicID
	var name string
	if rt.Topic != nil {
		name = *rt.Topic
		if rt.TopicID != zeroID {
			return refuse(kerr.InvalidRequest, "give a topic's name or its id, not both")
		}
	}
	t, err := b.topic(name, rt.TopicID, rt.Topic == nil)
	if err != nil {
		return err
	}
	st.Topic, st.TopicID = &t.Name, t.ID
	if t.Internal {
		return refuse(kerr.InvalidTopicException, "topic "+t.Name+" holds the broker's own state")
	}
	defer pause(ctx)()
	if err := b.node.DeleteTopic(ctx, t.Name); err != nil {
		return err
	}
	b.logger.Info("deleted topic", "topic", t.Name)
	return nil
}
