package broker

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/record"
)

// forged is a batch of one record in each body, with a sound header and checksum around whatever they are.
func forged(count int, maxTimestamp int64, attributes int16, bodies ...[]byte) []byte {
	b := batchOf("v")[:record.HeaderLen]
	for _, body := range bodies {
		b = append(binary.AppendVarint(b, int64(len(body))), body...)
	}
	be := binary.BigEndian
	be.PutUint32(b[8:], uint32(len(b)-12))
	be.PutUint16(b[21:], uint16(attributes))
	be.PutUint32(b[23:], uint32(count-1))
	be.PutUint64(b[27:], uint64(maxTimestamp))
	be.PutUint32(b[57:], uint32(count))
	record.SetMaxTimestamp(b, maxTimestamp) // and the checksum
	return b
}

// body is a record with these fields: a key of keyLen bytes that has 1, a null value.
func body(delta, keyLen, headers int64) []byte {
	b := []byte{0}
	for _, v := range []int64{0, delta, keyLen} {
		b = binary.AppendVarint(b, v)
	}
	return binary.AppendVarint(binary.AppendVarint(append(b, 'k'), -1), headers)
}

// A client's batch whose records are not what its header says is refused, compressed or not, and what is read afterwards is
// what was taken.
func TestRecordsAreWhatTheHeaderSays(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	p := s.producer(t)
	now := time.Now().UnixMilli()
	good := body(0, 1, 0)
	for _, c := range []struct {
		name  string
		batch []byte
		code  int16
	}{
		{"good", forged(2, now, 0, good, body(1, 1, 0)), 0},
		{"more records than bodies", forged(3, now, 0, good, body(1, 1, 0)), kerr.InvalidRecord.Code},
		{"fewer records than bodies", forged(1, now, 0, good, body(1, 1, 0)), kerr.InvalidRecord.Code},
		{"an offset delta twice", forged(2, now, 0, good, good), kerr.InvalidRecord.Code},
		{"a gap in the offset deltas", forged(2, now, 0, good, body(2, 1, 0)), kerr.InvalidRecord.Code},
		{"deltas from 1", forged(1, now, 0, body(1, 1, 0)), kerr.InvalidRecord.Code},
		{"a key longer than the record", forged(1, now, 0, body(0, 99, 0)), kerr.InvalidRecord.Code},
		{"headers that are not there", forged(1, now, 0, body(0, 1, 3)), kerr.InvalidRecord.Code},
		{"bytes behind the fields", forged(1, now, 0, append(body(0, 1, 0), 0)), kerr.InvalidRecord.Code},
		{"no records at all", forged(1, now, 0), kerr.InvalidRecord.Code},
		{"the broker's time where the client's is kept", forged(1, now, 8, good), kerr.InvalidTimestamp.Code},
		{"bytes that do not decompress", forged(1, now, int16(record.Zstd), good), kerr.InvalidRecord.Code},
	} {
		if got := p.produce("t", c.batch).ErrorCode; got != c.code {
			t.Errorf("%s: code %d, want %d", c.name, got, c.code)
		}
	}
	bad := forged(2, now, 0, good, body(1, 1, 0))
	w := record.NewRewriter(maxUnpackedBytes)
	for codec := record.Gzip; codec <= record.Zstd; codec++ {
		packed, err := w.Recompress(nil, bad, codec, 1)
		if err != nil {
			t.Fatal(err)
		}
		binary.BigEndian.PutUint32(packed[23:], 2)
		binary.BigEndian.PutUint32(packed[57:], 3)
		record.SetMaxTimestamp(packed, now)
		if got := p.produce("t", packed).ErrorCode; got != kerr.InvalidRecord.Code {
			t.Errorf("codec %d, a record too few: code %d", codec, got)
		}
	}
	consume(t, s.client(t, false, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), 2)
	if end := s.replicaEnd(t, "t"); end != 2 {
		t.Errorf("the log ends at %d, want 2", end)
	}
}

func (s *served) replicaEnd(t testing.TB, topic string) int64 {
	t.Helper()
	r, err := s.node.Replica(topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r.Log().Marks().HighWatermark
}

// The header's largest timestamp is what searches by time go by, so a wrong one is corrected, with the checksum.
func TestMaxTimestampIsThatOfTheRecords(t *testing.T) {
	s := serve(t)
	now := time.Now().UnixMilli()
	for _, codec := range []record.Codec{record.None, record.LZ4} {
		for i, claim := range []int64{-1, now - 1000, now + 1000} {
			topic := fmt.Sprintf("t-%d-%d", codec, i)
			create(t, s, topic, 1, nil)
			batch := keyed(now-5, now, now-3)
			if codec != record.None {
				var err error
				if batch, err = record.NewRewriter(maxUnpackedBytes).Recompress(nil, batch, codec, 1); err != nil {
					t.Fatal(err)
				}
			}
			record.SetMaxTimestamp(batch, claim)
			if got := s.producer(t).produce(topic, batch); got.ErrorCode != 0 {
				t.Fatalf("%s: %+v", topic, got)
			}
			c := dial(t, s.addr)
			req := kmsg.NewPtrListOffsetsRequest()
			req.Version, req.ReplicaID = 7, -1
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = topic
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Timestamp, rp.CurrentLeaderEpoch = -3, -1 // the largest
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			if _, err := c.Write(request1(1, req)); err != nil {
				t.Fatal(err)
			}
			resp := kmsg.NewPtrListOffsetsResponse()
			resp.Version = 7
			if err := resp.ReadFrom(readFramed(t, c)[5:]); err != nil {
				t.Fatal(err)
			}
			if got := resp.Topics[0].Partitions[0]; got.Timestamp != now || got.Offset != 1 {
				t.Errorf("%s: the largest timestamp is %d at offset %d, want %d at 1", topic, got.Timestamp, got.Offset, now)
			}
			// kgo refuses a batch whose checksum is wrong.
			consume(t, s.client(t, false, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), 3)
		}
	}
}

// A batch that fits as its producer compressed it, and not in the topic's codec, is refused as in Kafka.
func TestMaxMessageBytesHoldsInTheTopicsCodec(t *testing.T) {
	s := serve(t)
	limit, plain := "2000", "uncompressed"
	create(t, s, "t", 1, map[string]*string{"max.message.bytes": &limit, "compression.type": &plain})
	batchOfSize := func(n int) []byte {
		packed, err := record.NewRewriter(maxUnpackedBytes).Recompress(nil, batchOf(string(make([]byte, n))), record.Zstd, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(packed) > 1000 {
			t.Fatalf("%d bytes do not compress", n)
		}
		return packed
	}
	for n, want := range map[int]int16{1500: 0, 3000: kerr.MessageTooLarge.Code} {
		if got := s.producer(t).produce("t", batchOfSize(n)).ErrorCode; got != want {
			t.Errorf("%d bytes: code %d, want %d", n, got, want)
		}
	}
}

// produced is a Produce request of a network client.
func produced(b *Broker) *request {
	s := b.external.shares(nil)
	return &request{version: 13, shares: &s}
}

// Checking a batch allocates nothing for its records.
func TestCheckingAllocatesNothingPerRecord(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	topic, err := s.topic("t", zeroID, false)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]string, 1000)
	for i := range values {
		values[i] = strconv.Itoa(rand.Int())
	}
	batch := batchOf(values...)
	var sp kmsg.ProduceResponseTopicPartition
	r := produced(s.Broker)
	allocs := testing.AllocsPerRun(20, func() {
		if _, _, err := s.check(t.Context(), r, batch, &topic.Settings, time.Now(), &sp); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 10 {
		t.Errorf("%v allocations for 1000 records", allocs)
	}
}

// TestReencodedBatchIsUnpackedOnce: a batch for a topic of another codec is checked as any other while it is encoded anew: no reader
// unpacks it once more.
func TestReencodedBatchIsUnpackedOnce(t *testing.T) {
	s := serve(t)
	zstd, compact := "zstd", "compact"
	create(t, s, "t", 1, map[string]*string{"compression.type": &zstd, "cleanup.policy": &compact})
	topic, err := s.topic("t", zeroID, false)
	if err != nil {
		t.Fatal(err)
	}
	for range maxUnpacking { // whoever asks for a reader now waits in vain
		defer s.opening.packed.Put(s.opening.packed.Get())
	}
	now := time.Now()
	ms := now.UnixMilli()
	lz4 := func(batch []byte) []byte {
		out, err := record.NewRewriter(maxUnpackedBytes).Recompress(nil, batch, record.LZ4, 1)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	type result struct {
		batch []byte
		sp    kmsg.ProduceResponseTopicPartition
		err   error
	}
	check := func(batch []byte) result {
		done := make(chan result, 1)
		go func() {
			var r result
			r.batch, _, r.err = s.check(t.Context(), produced(s.Broker), lz4(batch), &topic.Settings, now, &r.sp)
			done <- r
		}()
		select {
		case r := <-done:
			return r
		case <-time.After(20 * time.Second):
			t.Fatal("it is unpacked by a reader as well")
		}
		return result{}
	}
	batch := keyed(ms-5, ms, ms-3)
	record.SetMaxTimestamp(batch, ms+1000)
	good := check(batch)
	h, err := record.Validate(good.batch, record.Checks{})
	if good.err != nil || err != nil || h.Codec() != record.Zstd || h.MaxTimestamp != ms || h.Count != 3 {
		t.Errorf("%+v, %v, %v", h, good.err, err)
	}
	for _, c := range []struct {
		name  string
		batch []byte
		code  int16
		at    []int32
	}{
		{"no key", keyless(ms, ms), kerr.InvalidRecord.Code, []int32{0, 1}},
		{"far ahead", keyed(ms, ms+24*time.Hour.Milliseconds(), ms), kerr.InvalidTimestamp.Code, []int32{1}},
		{"a record too few", forged(2, ms, 0, []byte{0, 0, 0, 2, 'k', 2, 'v', 0}), kerr.InvalidRecord.Code, nil},
	} {
		var r result
		if c.at == nil { // what is wrong with it does not survive packing
			r.batch, _, r.err = s.check(t.Context(), produced(s.Broker), c.batch, &topic.Settings, now, &r.sp)
		} else {
			r = check(c.batch)
		}
		var at []int32
		for _, bad := range r.sp.ErrorRecords {
			at = append(at, bad.RelativeOffset)
		}
		if errorCode(r.err) != c.code || !slices.Equal(at, c.at) {
			t.Errorf("%s: %v, records %v", c.name, r.err, at)
		}
	}
}
