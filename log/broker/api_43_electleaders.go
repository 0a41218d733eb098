package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
)

// electionPreferred asks for the first replica to lead; the other kind is an unclean election, which never happens here: a
// replica without all acknowledged records does not lead.
const electionPreferred = 0

// handleElectLeaders has preferred leaders lead. Asked for all partitions, it leaves out those that have nothing to elect, as Kafka does.
func (b *Broker) handleElectLeaders(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ElectLeadersRequest)
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	ctx, cancel := withTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	all := req.Topics == nil
	topics := req.Topics
	if all {
		for _, t := range b.node.Catalog().Sorted() {
			rt := kmsg.NewElectLeadersRequestTopic()
			rt.Topic = t.Name
			for p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, int32(p))
			}
			topics = append(topics, rt)
		}
	}
	// All hand-overs are begun before any is waited for.
	finish := make([][]func() error, len(topics))
	for i := range topics {
		for _, p := range topics[i].Partitions {
			finish[i] = append(finish[i], b.elect(ctx, topics[i].Topic, p, req.ElectionType))
		}
	}
	for i := range topics {
		st := kmsg.NewElectLeadersResponseTopic()
		st.Topic = topics[i].Topic
		for j, p := range topics[i].Partitions {
			err := finish[i][j]()
			if code := errorCode(err); !all || code != kerr.ElectionNotNeeded.Code {
				sp := kmsg.NewElectLeadersResponseTopicPartition()
				sp.Partition, sp.ErrorCode, sp.ErrorMessage = p, code, errorMessage(err)
				st.Partitions = append(st.Partitions, sp)
			}
		}
		if len(st.Partitions) > 0 {
			resp.Topics = append(resp.Topics, st)
		}
	}
	return resp, nil
}

// electionTimeout bounds the wait for one preferred leader that has been asked to lead.
const electionTimeout = 5 * time.Second

// electionAgain is how often a leader is asked to hand over that has not.
const electionAgain = 250 * time.Millisecond

// elect begins a hand-over; finish waits for its outcome.
func (b *Broker) elect(ctx context.Context, topic string, partition int32, kind int8) (finish func() error) {
	is := func(err error) func() error { return func() error { return err } }
	t, err := b.topic(topic, zeroID, false)
	if err != nil {
		return is(err)
	}
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return is(kerr.UnknownTopicOrPartition)
	}
	preferred := t.Partitions[partition].Wanted()[0].Node
	leader, _ := b.leaderOf(t, partition)
	switch {
	case leader >= 0 && (kind != electionPreferred || leader == preferred):
		return is(kerr.ElectionNotNeeded)
	case kind != electionPreferred:
		return is(kerr.EligibleLeadersNotAvailable)
	}
	if err = b.prefer(ctx, topic, partition); err != nil && !b.node.Alive(preferred) {
		return is(err)
	}
	return func() error { return b.elected(ctx, t, partition, preferred, err) }
}

// prefer asks the leader to hand over.
func (b *Broker) prefer(ctx context.Context, topic string, partition int32) error {
	defer pause(ctx)()
	if err := b.node.Prefer(ctx, topic, partition); err != nil {
		return refuse(kerr.PreferredLeaderNotAvailable, err.Error())
	}
	return nil
}

// elected waits for the outcome. Just after a restart nobody leads yet, or the leader has not heard of the replica, and a leader that was asked
// may have lost its lead before it handed over: whoever leads is asked again, while the preferred node is alive.
func (b *Broker) elected(ctx context.Context, t *cluster.Topic, partition, preferred int32, err error) error {
	ctx, cancel := context.WithTimeout(ctx, electionTimeout)
	defer cancel()
	again := time.NewTicker(electionAgain)
	defer again.Stop()
	for {
		changed := b.node.LeadersChanged()
		if leader, _ := b.leaderOf(t, partition); leader == preferred {
			return nil
		}
		resume := pause(ctx)
		select {
		case <-changed:
			resume()
			continue
		case <-again.C:
		case <-ctx.Done():
			resume()
			if err == nil {
				err = refuse(kerr.PreferredLeaderNotAvailable, fmt.Sprintf("broker %d was asked to lead, and does not yet", preferred))
			}
			return err
		}
		resume()
		if err = b.prefer(ctx, t.Name, partition); err != nil && !b.node.Alive(preferred) {
			return err
		}
	}
}
