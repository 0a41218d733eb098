package broker

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/record"
)

// twinCall is one request to both sides. A call that is posted is answered by a later call of the same connection,
// whose build is not used.
type twinCall struct {
	conn     string
	build    func(*twinSide) kmsg.Request
	learn    func(*twinSide, kmsg.Response)
	versions [2]int16 // of these only, when the second is not 0
	post     bool
}

// twinGenerator draws calls. Everything random is drawn before a request is built for a side.
type twinGenerator struct {
	rng      *rand.Rand
	versions map[int16][2]int16
	now      int64
	count    int
	ours     *twinSide // what is known of the common state
}

func (g *twinGenerator) version(key int16, only [2]int16) int16 {
	v := g.versions[key]
	if only[1] > 0 {
		v = [2]int16{max(v[0], only[0]), min(v[1], only[1])}
	}
	return v[0] + int16(g.rng.IntN(int(v[1]-v[0])+1))
}

func (g *twinGenerator) one(of ...string) string { return of[g.rng.IntN(len(of))] }

func (g *twinGenerator) percent(n int) bool { return g.rng.IntN(100) < n }

// compactedTwin is a topic from which no records can be deleted.
const compactedTwin = "t3"

func (g *twinGenerator) topic() string {
	if g.percent(4) {
		return "nope"
	}
	return fmt.Sprintf("t%d", g.rng.IntN(4))
}

func (g *twinGenerator) partition() int32 {
	if g.percent(4) {
		return 7
	}
	return int32(g.rng.IntN(2))
}

func (g *twinGenerator) next() []twinCall {
	g.count++
	if g.count == 1 {
		var all []twinCall
		for _, name := range []string{"i0", "i1", "x0", "x1", "x2"} {
			all = append(all, g.initProducerOf(name)...)
		}
		return append(all, g.createTopic(compactedTwin)...)
	}
	all := []struct {
		weight int
		make   func() []twinCall
	}{
		{4, func() []twinCall { return g.createTopic(g.topic()) }}, {2, g.deleteTopic}, {3, g.createPartitions}, {4, g.metadata},
		{20, g.produce}, {10, g.fetch}, {8, g.listOffsets}, {4, g.leaderEpoch}, {3, g.deleteRecords},
		{5, g.initProducer}, {6, g.addPartitions}, {4, g.addOffsets}, {4, g.txnCommit}, {8, g.endTxn},
		{10, g.groupStep}, {5, g.offsetCommit}, {5, g.offsetFetch}, {3, g.describeGroups}, {1, g.deleteGroup}, {2, g.offsetDelete},
		{4, g.describeConfigs}, {4, g.alterConfigs}, {3, g.describeTxns},
	}
	sum := 0
	for _, c := range all {
		sum += c.weight
	}
	n := g.rng.IntN(sum)
	for _, c := range all {
		if n < c.weight {
			return c.make()
		}
		n -= c.weight
	}
	return nil
}

// refresh asks for all topics and notes their ids.
func (g *twinGenerator) refresh() twinCall {
	return twinCall{versions: [2]int16{10, 12}, build: func(*twinSide) kmsg.Request { return kmsg.NewPtrMetadataRequest() },
		learn: func(s *twinSide, r kmsg.Response) {
			before := maps.Clone(s.topics)
			clear(s.topics)
			for _, t := range r.(*kmsg.MetadataResponse).Topics {
				s.topics[*t.Topic] = t.TopicID
			}
			// A topic that is gone or new knows no producer.
			maps.DeleteFunc(s.seqs, func(key string, _ int32) bool {
				topic := strings.Split(key, "/")[1]
				return before[topic] != s.topics[topic]
			})
		}}
}

func (g *twinGenerator) createTopic(name string) []twinCall {
	partitions, dry := int32(1+g.rng.IntN(2)), g.percent(10)
	if g.percent(5) {
		partitions = []int32{-1, 0, -2}[g.rng.IntN(3)]
		dry = true // kfake takes more of them
	}
	if g.percent(5) {
		name = g.one("", "bad name!", ".", "..", "__consumer_offsets")
		dry = true
	}
	config := [][2]string{{"retention.ms", "3600000"}, {"max.message.bytes", "2000"}, {"message.timestamp.type", "CreateTime"}}
	var set [][2]string
	if g.percent(30) {
		set = append(set, config[g.rng.IntN(len(config))])
	}
	if name == compactedTwin {
		set = append(set, [2]string{"cleanup.policy", "compact"})
	}
	if g.percent(4) {
		set, dry = append(set, [2]string{"no.such.config", "1"}), true
	}
	return []twinCall{{build: func(*twinSide) kmsg.Request {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.ValidateOnly, req.TimeoutMillis = dry, 10_000
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
		for _, kv := range set {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = kv[0], kmsg.StringPtr(kv[1])
			t.Configs = append(t.Configs, c)
		}
		req.Topics = append(req.Topics, t)
		return req
	}, versions: [2]int16{1, 99}}, g.refresh()}
}

func (g *twinGenerator) deleteTopic() []twinCall {
	name := g.topic()
	if g.offsetsOpen() {
		return nil
	}
	return []twinCall{{build: func(s *twinSide) kmsg.Request {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis, req.TopicNames = 10_000, []string{name}
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
		return req
	}, learn: func(s *twinSide, r kmsg.Response) {
		if r.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode == 0 {
			s.forgotten(name)
		}
	}}, g.refresh()}
}

func (g *twinGenerator) createPartitions() []twinCall {
	name, count, dry := g.topic(), int32(g.rng.IntN(4)), g.percent(20)
	return []twinCall{{build: func(*twinSide) kmsg.Request {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.ValidateOnly, req.TimeoutMillis = dry, 10_000
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = name, count
		req.Topics = append(req.Topics, t)
		return req
	}}, g.refresh()}
}

func (g *twinGenerator) metadata() []twinCall {
	a, b := g.topic(), g.topic()
	return []twinCall{{build: func(*twinSide) kmsg.Request {
		req := kmsg.NewPtrMetadataRequest()
		for _, name := range []string{a, b} {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(name)
			req.Topics = append(req.Topics, t)
			if a == b {
				break
			}
		}
		return req
	}, versions: [2]int16{4, 99}}}
}

// twinBatch is a batch as drawn; who and the sequence are a side's.
type twinBatch struct {
	producer string
	txn      bool
	bytes    []byte
	offBy    int32
	epochBy  int16
	damage   string
	versions [2]int16
}

func (g *twinGenerator) batch(keyed bool) twinBatch {
	var b record.Builder
	for range 1 + g.rng.IntN(4) {
		var key []byte
		if keyed || !g.percent(10) {
			key = fmt.Append(nil, "k", g.rng.IntN(10))
		}
		b.Append(g.now+int64(g.count), key, fmt.Append(nil, "v", g.rng.IntN(1000)))
	}
	out := twinBatch{bytes: b.Build(nil)}
	if g.percent(40) {
		w := record.NewRewriter(1 << 20)
		codec := record.Codec(1 + g.rng.IntN(4))
		_, _, level := record.Levels(codec)
		if packed, err := w.Recompress(nil, out.bytes, codec, level); err == nil {
			out.bytes = packed
			if codec == record.Zstd {
				out.versions = [2]int16{7, 99} // kfake takes it in older ones
			}
		}
	}
	switch dice := g.rng.IntN(100); {
	case dice < 35:
		out.producer = g.one("i0", "i1")
	case dice < 70:
		out.producer, out.txn = g.one("x0", "x1", "x2"), true
	}
	if g.percent(8) {
		out.offBy = int32(g.rng.IntN(5) - 3)
	}
	if g.percent(4) {
		out.epochBy = -1 // kfake also takes one that nobody was given
	}
	if g.percent(3) {
		out.damage = g.one("crc", "short")
	}
	if out.txn && (out.offBy != 0 || out.epochBy != 0 || out.damage != "") {
		// In later versions a batch that is refused for itself has made its partition part of the transaction; in kfake, so has
		// one of a stale claim alone.
		out.versions[1] = 11
	}
	return out
}

// of is the batch as a producer of this side sends it.
func (b twinBatch) of(s *twinSide, tp string) []byte {
	out := append([]byte(nil), b.bytes...)
	if b.producer != "" {
		p := s.pid(b.producer)
		if b.txn {
			out[22] |= 0x10
		}
		binary.BigEndian.PutUint64(out[43:], uint64(p.ID))
		binary.BigEndian.PutUint16(out[51:], uint16(max(0, p.Epoch+b.epochBy)))
		if next := s.seqs[b.producer+tp]; next > 0 { // of a producer that is new to it kfake takes sequence 0 alone
			binary.BigEndian.PutUint32(out[53:], uint32(max(0, next+b.offBy)))
		} else {
			binary.BigEndian.PutUint32(out[53:], 0)
		}
	}
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	switch b.damage {
	case "crc":
		out[len(out)-1] ^= 1
	case "short":
		out = out[:len(out)-2]
	}
	return out
}

func (g *twinGenerator) produce() []twinCall {
	topic, partition := g.topic(), g.partition()
	b := g.batch(topic == compactedTwin) // of which kfake also takes records without a key
	tp := fmt.Sprintf("/%s/%d", topic, partition)
	return []twinCall{{versions: b.versions, build: func(s *twinSide) kmsg.Request {
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = -1, 10_000
		if b.txn {
			req.TransactionID = &b.producer
		}
		t := kmsg.NewProduceRequestTopic()
		t.Topic, t.TopicID = topic, s.topics[topic]
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = partition, b.of(s, tp)
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}, learn: func(s *twinSide, r kmsg.Response) {
		p := r.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if p.ErrorCode == 0 && b.txn {
			s.txns[b.producer] = "open"
		}
		if p.ErrorCode == 0 && b.producer != "" && b.offBy == 0 {
			s.seqs[b.producer+tp] += int32(binary.BigEndian.Uint32(b.bytes[57:]))
		}
	}}}
}

func (g *twinGenerator) fetch() []twinCall {
	topic, partition, offset, level := g.topic(), g.partition(), int64(g.rng.IntN(40)), int8(g.rng.IntN(2))
	if g.percent(40) {
		offset = 0
	}
	if g.percent(5) {
		offset = []int64{-1, 1000}[g.rng.IntN(2)]
	}
	return []twinCall{{build: func(s *twinSide) kmsg.Request {
		req := kmsg.NewPtrFetchRequest()
		req.MaxBytes, req.IsolationLevel, req.SessionEpoch = 1<<20, level, -1
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = topic, s.topics[topic]
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}}}
}

func (g *twinGenerator) listOffsets() []twinCall {
	topic, partition, level := g.topic(), g.partition(), int8(g.rng.IntN(2))
	at := []int64{-1, -2, -3, g.now + int64(g.rng.IntN(g.count)), 0, g.now + 1_000_000}[g.rng.IntN(6)]
	versions := [2]int16{1, 99}
	if at == -3 {
		versions[0] = 7
	}
	return []twinCall{{versions: versions, build: func(s *twinSide) kmsg.Request {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.IsolationLevel = -1, level
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = partition, at
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}}}
}

func (g *twinGenerator) leaderEpoch() []twinCall {
	topic, partition, epoch := g.topic(), g.partition(), []int32{1 << 20, -1}[g.rng.IntN(2)]
	return []twinCall{{build: func(s *twinSide) kmsg.Request {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = -1
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = topic
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.LeaderEpoch = partition, epoch
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}}}
}

func (g *twinGenerator) deleteRecords() []twinCall {
	topic, partition, offset := g.topic(), g.partition(), int64(g.rng.IntN(15)-1)
	if topic == compactedTwin {
		return nil // refused, as Kafka does; kfake deletes them
	}
	for _, state := range g.ours.txns {
		if state == "open" {
			return nil // kfake's last stable offset would be below the log's start
		}
	}
	return []twinCall{{build: func(s *twinSide) kmsg.Request {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.TimeoutMillis = 10_000
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = topic
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = partition, offset
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}}}
}
