package broker

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Invariant 9: with room for one large request and one batch at a time, everybody still gets through, and
// all that was taken is given back.
func TestTightLimitsLetEverybodyThrough(t *testing.T) {
	s := serve(t, func(o *Options) { o.MaxRequestBytes, o.InFlightBytes, o.FetchBytes = 1<<20, 1, minFetchReserve })
	big := "2000000"
	create(t, s, "t", 4, map[string]*string{"max.message.bytes": &big})
	const clients, each = 6, 5
	var wg sync.WaitGroup
	for i := range clients {
		p := s.client(t, false, kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.BrokerMaxWriteBytes(1<<20), kgo.ProducerBatchMaxBytes(900_000))
		wg.Go(func() {
			for range each {
				r := &kgo.Record{Value: make([]byte, 800_000), Partition: int32(i % 4)}
				if err := p.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for range 3 {
		c := s.client(t, false, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		wg.Go(func() { consume(t, c, clients*each); c.Close() })
	}
	wg.Wait()
	waitFor(t, "all bytes to be given back", func() bool {
		return freeAll(s.external)
	})
}

func freeAll(l *listenerLimits) bool {
	return l.bytes.Held() == 0 && l.fetching.Held() == 0 && l.answering.Held() == 0
}

// A client that does not read its responses is hung up on, and holds nothing afterwards.
func TestUnreadResponses(t *testing.T) {
	s := serve(t, func(o *Options) { o.FrameTimeout = 100 * time.Millisecond; o.MinTransferRate = 100 << 20 })
	create(t, s, "t", 1, nil)
	p := s.client(t, true, kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for range 40 {
		p.Produce(t.Context(), &kgo.Record{Value: make([]byte, 500_000)}, nil)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes = 12, 50<<20, 1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = "t"
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.PartitionMaxBytes, rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = 50<<20, -1, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	c := dial(t, s.addr)
	for i := range int32(5) {
		if _, err := c.Write(request1(i, req)); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "records on their way", func() bool { return !freeAll(s.external) })
	waitFor(t, "the connection to be closed", func() bool { return s.external.conns.Load() == 0 })
	if !freeAll(s.external) {
		t.Fatal("bytes were not given back")
	}
}

func TestStats(t *testing.T) {
	s := serve(t)
	adm := kadm.NewClient(s.client(t, false))
	if _, err := adm.ListTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Connections == 0 || st.Requests < 2 || st.BytesIn == 0 || st.BytesOut < st.BytesIn {
		t.Errorf("stats: %s", fmt.Sprintf("%+v", st))
	}
}
