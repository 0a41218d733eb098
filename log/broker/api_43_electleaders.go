package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// electionPreferred asks for the first replica to lead; the other kind is an unclean election, which never happens here: a
// replica without all acknowledged records does not lead.
const electionPreferred = 0

// handleElectLeaders answers for each partition whether its preferred leader leads. Asked for all partitions, it leaves out those
// that have nothing to elect, as Kafka does.
func (b *Broker) handleElectLeaders(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ElectLeadersRequest)
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
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
	for i := range topics {
		st := kmsg.NewElectLeadersResponseTopic()
		st.Topic = topics[i].Topic
		for _, p := range topics[i].Partitions {
			err := b.elect(topics[i].Topic, p, req.ElectionType)
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

func (b *Broker) elect(topic string, partition int32, kind int8) error {
	t, err := b.topic(topic, zeroID, false)
	if err != nil {
		return err
	}
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return kerr.UnknownTopicOrPartition
	}
	leader, _ := b.leaderOf(t, partition)
	switch {
	case leader >= 0 && (kind != electionPreferred || leader == t.Partitions[partition].Members[0].Node):
		return kerr.ElectionNotNeeded
	case kind != electionPreferred:
		return kerr.EligibleLeadersNotAvailable
	}
	return kerr.PreferredLeaderNotAvailable
}
