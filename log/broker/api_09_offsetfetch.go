package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group"
	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// handleOffsetFetch reads groups' offsets. All versions are answered through the form that names several groups.
func (b *Broker) handleOffsetFetch(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.OffsetFetchRequest)
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	current := b.currentOffsets(ctx)
	if req.Version >= 8 {
		named := once[string]{}
		for i := range req.Groups {
			if !named.first(req.Groups[i].Group) {
				g := kmsg.NewOffsetFetchResponseGroup()
				g.Group, g.ErrorCode = req.Groups[i].Group, kerr.InvalidRequest.Code
				resp.Groups = append(resp.Groups, g)
				continue
			}
			if code := current(req.Groups[i].Group); code != 0 {
				g := kmsg.NewOffsetFetchResponseGroup()
				g.Group, g.ErrorCode = req.Groups[i].Group, code
				resp.Groups = append(resp.Groups, g)
				continue
			}
			resp.Groups = append(resp.Groups, b.fetchOffsets(ctx, &req.Groups[i], req.Version, req.RequireStable))
		}
		return resp, nil
	}
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = req.Group
	if req.Topics != nil || req.Version < 2 {
		one.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for i := range req.Topics {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = req.Topics[i].Topic, req.Topics[i].Partitions
		one.Topics = append(one.Topics, t)
	}
	g := kmsg.NewOffsetFetchResponseGroup()
	if g.ErrorCode = current(one.Group); g.ErrorCode == 0 {
		g = b.fetchOffsets(ctx, &one, req.Version, req.RequireStable)
	}
	resp.ErrorCode = g.ErrorCode
	for i := range g.Topics {
		t := kmsg.NewOffsetFetchResponseTopic()
		t.Topic = g.Topics[i].Topic
		for _, p := range g.Topics[i].Partitions {
			sp := kmsg.NewOffsetFetchResponseTopicPartition()
			sp.Partition, sp.Offset, sp.LeaderEpoch = p.Partition, p.Offset, p.LeaderEpoch
			sp.Metadata, sp.ErrorCode = p.Metadata, p.ErrorCode
			t.Partitions = append(t.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, t)
	}
	if req.Version < 2 && g.ErrorCode != 0 { // no room for the code but in the partitions
		for i := range req.Topics {
			t := kmsg.NewOffsetFetchResponseTopic()
			t.Topic = req.Topics[i].Topic
			for _, p := range req.Topics[i].Partitions {
				sp := kmsg.NewOffsetFetchResponseTopicPartition()
				sp.Partition, sp.Offset, sp.ErrorCode = p, -1, g.ErrorCode
				sp.Metadata = new(string)
				t.Partitions = append(t.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, t)
		}
	}
	return resp, nil
}

// currentOffsets says, before a group is read, whether what is read is what the group has: a coordinator that is replaced, and has not heard of it, would hand
// out offsets from before the last commits. It asks once for each partition that groups are kept in.
func (b *Broker) currentOffsets(ctx context.Context) func(id string) int16 {
	asked := map[int32]int16{}
	return func(id string) int16 {
		p := b.groups.PartitionFor(id)
		code, known := asked[p]
		if !known {
			code = b.confirm(ctx, group.Topic, p)
			asked[p] = code
		}
		return code
	}
}

func (b *Broker) fetchOffsets(ctx context.Context, rg *kmsg.OffsetFetchRequestGroup, version int16, stable bool) kmsg.OffsetFetchResponseGroup {
	g := kmsg.NewOffsetFetchResponseGroup()
	g.Group = rg.Group
	byID := version >= 10
	var list []journal.TopicPartition // nil: all
	if rg.Topics != nil {
		list = []journal.TopicPartition{}
	}
	var named partitionOnce
	for i := range rg.Topics {
		rt := &rg.Topics[i]
		name := rt.Topic
		if byID {
			t, err := b.topic("", rt.TopicID, true)
			if err != nil {
				st := offsetFetchTopic("", rt.TopicID)
				for _, p := range rt.Partitions {
					st.Partitions = append(st.Partitions, offsetFetchPartition(p, errorCode(err)))
				}
				g.Topics = append(g.Topics, st)
				continue
			}
			name = t.Name
		}
		for _, p := range named.topic(name, rt.Partitions) {
			list = append(list, journal.TopicPartition{Topic: name, Partition: p})
		}
	}
	code, fetched := awaitCoded(b.whileCoordinating(ctx), func(reply func(int16, []group.Fetched)) {
		b.groups.Fetch(group.FetchRequest{Group: rg.Group, MemberID: deref(rg.MemberID), MemberEpoch: rg.MemberEpoch,
			Partitions: list, Stable: stable}, reply)
	})
	if code != 0 {
		g.ErrorCode, g.Topics = code, nil
		return g
	}
	at := -1 // the topic in the response that the last partition was put into
	for i := range fetched {
		f := &fetched[i]
		if i == 0 || f.Topic != fetched[i-1].Topic {
			at = -1
			t, err := b.topic(f.Topic, zeroID, false)
			if err != nil && byID {
				continue // deleted; its offsets follow
			}
			var id [16]byte
			if byID {
				id = t.ID
			}
			g.Topics = append(g.Topics, offsetFetchTopic(f.Topic, id))
			at = len(g.Topics) - 1
		}
		if at < 0 {
			continue
		}
		sp := offsetFetchPartition(f.Partition, f.Code)
		sp.Offset, sp.LeaderEpoch, sp.Metadata = f.Offset, f.LeaderEpoch, &f.Metadata
		g.Topics[at].Partitions = append(g.Topics[at].Partitions, sp)
	}
	return g
}

func offsetFetchTopic(name string, id [16]byte) kmsg.OffsetFetchResponseGroupTopic {
	st := kmsg.NewOffsetFetchResponseGroupTopic()
	st.Topic, st.TopicID = name, id
	return st
}

func offsetFetchPartition(p int32, code int16) kmsg.OffsetFetchResponseGroupTopicPartition {
	sp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	sp.Partition, sp.Offset, sp.LeaderEpoch, sp.ErrorCode = p, -1, -1, code
	sp.Metadata = new(string)
	return sp
}
