package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/txn"
)

func (g *twinGenerator) txid() string { return g.one("x0", "x1", "x2") }

func (g *twinGenerator) group() string { return g.one("g0", "g1", "g2") }

// claim is a producer's id and epoch, now and then a wrong one.
func (g *twinGenerator) claim(name string) func(*twinSide) txn.Producer {
	by := int16(0)
	if g.percent(6) {
		by = int16(g.rng.IntN(3) - 1)
	}
	return func(s *twinSide) txn.Producer {
		p := s.pid(name)
		p.Epoch = max(0, p.Epoch+by)
		return p
	}
}

// claimToReplace is a claim that a producer wants to go on from. One that was replaced is not among them: kfake takes it and
// ends the transaction of the claim that replaced it.
func (g *twinGenerator) claimToReplace(name string) func(*twinSide) txn.Producer {
	by := int16(0)
	if g.percent(6) {
		by = int16(g.rng.IntN(2))
	}
	return func(s *twinSide) txn.Producer {
		p := s.pid(name)
		p.Epoch += by
		return p
	}
}

func (g *twinGenerator) initProducer() []twinCall {
	return g.initProducerOf(g.one("i0", "i1", "x0", "x1", "x2"))
}

func (g *twinGenerator) initProducerOf(name string) []twinCall {
	timeout, again := int32(60_000), g.percent(30)
	if g.percent(5) && g.count > 1 {
		timeout = 1 << 30
	}
	claim := g.claimToReplace(name)
	return []twinCall{{build: func(s *twinSide) kmsg.Request {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = timeout, -1, -1
		if name[0] == 'x' {
			req.TransactionalID = &name
			if _, known := s.pids[name]; known && again {
				p := claim(s)
				req.ProducerID, req.ProducerEpoch = p.ID, p.Epoch
			}
		}
		return req
	}, learn: func(s *twinSide, r kmsg.Response) {
		if a := r.(*kmsg.InitProducerIDResponse); a.ErrorCode == 0 {
			s.become(name, txn.Producer{ID: a.ProducerID, Epoch: a.ProducerEpoch})
			s.txns[name] = ""
			delete(s.pending, name)
		}
		s.settle(name)
	}}}
}

// become gives a producer a new claim, which begins at sequence 0 everywhere.
func (s *twinSide) become(name string, p txn.Producer) {
	s.pids[name] = p
	for k := range s.seqs {
		if k[:len(name)] == name {
			delete(s.seqs, k)
		}
	}
}

func (g *twinGenerator) addPartitions() []twinCall {
	id, topic, partition := g.txid(), g.topic(), g.partition()
	claim := g.claim(id)
	return []twinCall{{versions: [2]int16{0, 3}, build: func(s *twinSide) kmsg.Request {
		p, req := claim(s), kmsg.NewPtrAddPartitionsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, p.ID, p.Epoch
		t := kmsg.NewAddPartitionsToTxnRequestTopic()
		t.Topic, t.Partitions = topic, []int32{partition}
		req.Topics = append(req.Topics, t)
		return req
	}, learn: func(s *twinSide, r kmsg.Response) {
		if r.(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode == 0 {
			s.txns[id] = "open"
		}
	}}}
}

func (g *twinGenerator) addOffsets() []twinCall {
	id, group := g.txid(), g.group()
	claim := g.claim(id)
	return []twinCall{{build: func(s *twinSide) kmsg.Request {
		p, req := claim(s), kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = id, p.ID, p.Epoch, group
		return req
	}, learn: func(s *twinSide, r kmsg.Response) {
		if r.(*kmsg.AddOffsetsToTxnResponse).ErrorCode == 0 {
			s.txns[id], s.pending[id] = "open", true
		}
	}}}
}

func (g *twinGenerator) txnCommit() []twinCall {
	id, group, topic, partition, offset := g.txid(), g.group(), g.topic(), g.partition(), int64(g.rng.IntN(100))
	claim := g.claim(id)
	return []twinCall{{build: func(s *twinSide) kmsg.Request {
		p, req := claim(s), kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = id, group, p.ID, p.Epoch, -1
		t := kmsg.NewTxnOffsetCommitRequestTopic()
		t.Topic = topic
		tp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		tp.Partition, tp.Offset, tp.Metadata = partition, offset, kmsg.StringPtr("m")
		t.Partitions = append(t.Partitions, tp)
		req.Topics = append(req.Topics, t)
		return req
	}, learn: func(s *twinSide, r kmsg.Response) {
		a := r.(*kmsg.TxnOffsetCommitResponse)
		if a.Topics[0].Partitions[0].ErrorCode != 0 {
			return
		}
		s.pending[id] = true
		if a.Version >= 5 {
			s.txns[id] = "open"
		}
	}}}
}

func (g *twinGenerator) endTxn() []twinCall {
	id, commit := g.txid(), g.percent(60)
	claim := g.claim(id)
	var versions [2]int16
	switch g.ours.txns[id] {
	case "open":
	case "committed", "aborted":
		commit, versions = g.ours.txns[id] == "committed", [2]int16{0, 4} // a repeated request
	default:
		return nil // Kafka refuses to commit nothing; see docs/compatibility.md
	}
	return []twinCall{{versions: versions, build: func(s *twinSide) kmsg.Request {
		p, req := claim(s), kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = id, p.ID, p.Epoch, commit
		return req
	}, learn: func(s *twinSide, r kmsg.Response) {
		a := r.(*kmsg.EndTxnResponse)
		if a.ErrorCode == 0 {
			s.txns[id] = map[bool]string{true: "committed", false: "aborted"}[commit]
			delete(s.pending, id)
		}
		if a.ErrorCode == 0 && a.Version >= 5 && a.ProducerID >= 0 {
			s.become(id, txn.Producer{ID: a.ProducerID, Epoch: a.ProducerEpoch})
			s.txns[id] = ""
		}
		s.settle(id)
	}}}
}

func (g *twinGenerator) describeTxns() []twinCall {
	if g.percent(40) {
		return []twinCall{{build: func(*twinSide) kmsg.Request { return kmsg.NewPtrListTransactionsRequest() }}}
	}
	if id := g.txid(); g.percent(50) {
		return []twinCall{{build: func(*twinSide) kmsg.Request {
			req := kmsg.NewPtrDescribeTransactionsRequest()
			req.TransactionalIDs = []string{id}
			return req
		}}}
	}
	topic, partition := g.topic(), g.partition()
	return []twinCall{{build: func(*twinSide) kmsg.Request {
		req := kmsg.NewPtrDescribeProducersRequest()
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = topic, []int32{partition}
		req.Topics = append(req.Topics, t)
		return req
	}}}
}

// groupStep is something that a member does alone: joining and all that a joined member sends.
func (g *twinGenerator) groupStep() []twinCall {
	group, wrongGen, wrongMember := g.group(), g.percent(5), g.percent(5)
	name := group + "-member"
	member := func(s *twinSide) string {
		if wrongMember {
			return "stranger"
		}
		return s.members[name]
	}
	gen := func(s *twinSide) int32 {
		if wrongGen {
			return s.gens[group] + 5
		}
		return s.gens[group]
	}
	join := twinCall{versions: [2]int16{1, 99}, build: func(s *twinSide) kmsg.Request {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.MemberID, req.ProtocolType = group, 30_000, 30_000, member(s), "consumer"
		p := kmsg.NewJoinGroupRequestProtocol()
		meta := kmsg.NewConsumerMemberMetadata()
		meta.Topics = []string{"t0"}
		p.Name, p.Metadata = "range", meta.AppendTo(nil)
		req.Protocols = append(req.Protocols, p)
		return req
	}, learn: func(s *twinSide, r kmsg.Response) {
		a := r.(*kmsg.JoinGroupResponse)
		if a.MemberID != "" && !wrongMember {
			s.members[name] = a.MemberID
		}
		if a.ErrorCode == 0 {
			s.gens[group] = a.Generation
		}
	}}
	sync := twinCall{build: func(s *twinSide) kmsg.Request {
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.MemberID, req.Generation = group, member(s), gen(s)
		req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = member(s), []byte("yours")
		req.GroupAssignment = append(req.GroupAssignment, a)
		return req
	}}
	heartbeat := twinCall{build: func(s *twinSide) kmsg.Request {
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation = group, member(s), gen(s)
		return req
	}}
	leave := twinCall{build: func(s *twinSide) kmsg.Request {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group, req.MemberID = group, member(s)
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = member(s)
		req.Members = append(req.Members, m)
		return req
	}, learn: func(s *twinSide, _ kmsg.Response) {
		if !wrongMember {
			delete(s.members, name)
		}
	}}
	switch dice := g.rng.IntN(10); {
	case dice < 3:
		return []twinCall{join}
	case dice < 5:
		return []twinCall{join, join, sync}
	case dice < 7:
		return []twinCall{heartbeat}
	case dice < 8:
		return []twinCall{sync}
	}
	return []twinCall{leave}
}

func (g *twinGenerator) offsetCommit() []twinCall {
	group, topic, partition, offset, simple := g.group(), g.topic(), g.partition(), int64(g.rng.IntN(50)), g.percent(50)
	return []twinCall{{build: func(s *twinSide) kmsg.Request {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = group, -1
		if !simple {
			req.MemberID, req.Generation = s.members[group+"-member"], s.gens[group]
		}
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = topic, s.topics[topic]
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = partition, offset, kmsg.StringPtr(fmt.Sprint("at ", offset))
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}}}
}

func (g *twinGenerator) offsetFetch() []twinCall {
	group, topic, partition, stable, all := g.group(), g.topic(), g.partition(), g.percent(50), g.percent(40)
	return []twinCall{{versions: [2]int16{2, 99}, build: func(s *twinSide) kmsg.Request {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group, req.RequireStable = group, stable
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group = group
		if !all {
			t := kmsg.NewOffsetFetchRequestTopic()
			t.Topic, t.Partitions = topic, []int32{partition}
			req.Topics = append(req.Topics, t)
			gt := kmsg.NewOffsetFetchRequestGroupTopic()
			gt.Topic, gt.TopicID, gt.Partitions = topic, s.topics[topic], []int32{partition}
			rg.Topics = append(rg.Topics, gt)
		}
		req.Groups = append(req.Groups, rg)
		return req
	}}}
}

func (g *twinGenerator) describeGroups() []twinCall {
	if g.percent(40) {
		return []twinCall{{build: func(*twinSide) kmsg.Request { return kmsg.NewPtrListGroupsRequest() }}}
	}
	group := g.one("g0", "g1", "g2", "nobody")
	return []twinCall{{build: func(*twinSide) kmsg.Request {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{group}
		return req
	}}}
}

// offsetsOpen tells whether offsets are in an open transaction: what becomes of them when they, their group or their topic are
// deleted differs, see docs/compatibility.md.
func (g *twinGenerator) offsetsOpen() bool { return len(g.ours.pending) > 0 }

func (g *twinGenerator) deleteGroup() []twinCall {
	group := g.one("g0", "g1", "g2", "nobody")
	if g.offsetsOpen() {
		return nil
	}
	return []twinCall{{build: func(*twinSide) kmsg.Request {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{group}
		return req
	}}}
}

func (g *twinGenerator) offsetDelete() []twinCall {
	group, topic, partition := g.group(), g.topic(), g.partition()
	if g.offsetsOpen() {
		return nil
	}
	return []twinCall{{build: func(*twinSide) kmsg.Request {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = topic
		p := kmsg.NewOffsetDeleteRequestTopicPartition()
		p.Partition = partition
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}}}
}

// twinConfigs are the properties that the two are asked for.
var twinConfigs = []string{"cleanup.policy", "retention.ms", "max.message.bytes", "min.insync.replicas", "delete.retention.ms", "message.timestamp.type"}

func (g *twinGenerator) describeConfigs() []twinCall {
	topic := g.topic()
	return []twinCall{{build: func(*twinSide) kmsg.Request {
		req := kmsg.NewPtrDescribeConfigsRequest()
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, twinConfigs
		req.Resources = append(req.Resources, r)
		return req
	}}}
}

func (g *twinGenerator) alterConfigs() []twinCall {
	topic, dry := g.topic(), g.percent(20)
	kv := [][2]string{{"max.message.bytes", "0"}, {"delete.retention.ms", "5000"}, {"retention.ms", "7200000"}, {"max.message.bytes", "3000"},
		{"retention.ms", "soon"}, {"cleanup.policy", "maybe"}, {"no.such.config", "1"}, {"min.insync.replicas", "1"}}[g.rng.IntN(8)]
	op := kmsg.IncrementalAlterConfigOpSet
	if kv[1] == "soon" || kv[1] == "maybe" || kv[1] == "0" || kv[0] == "no.such.config" {
		dry = true // kfake takes them
	}
	if g.percent(20) {
		op = kmsg.IncrementalAlterConfigOpDelete
	}
	return []twinCall{{build: func(*twinSide) kmsg.Request {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.ValidateOnly = dry
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = kv[0], op
		if op == kmsg.IncrementalAlterConfigOpSet {
			c.Value = kmsg.StringPtr(kv[1])
		}
		r.Configs = append(r.Configs, c)
		req.Resources = append(req.Resources, r)
		return req
	}}}
}
