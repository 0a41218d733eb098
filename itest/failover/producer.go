package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/itest/nodes"
)

const (
	topic     = "failover"
	sendEvery = 2 * time.Millisecond
	inFlight  = 2000 // unanswered records at most
	patience  = 30 * time.Second
)

// producer sends numbers and notes when they were sent and answered.
type producer struct {
	cl *kgo.Client

	mu     sync.Mutex
	sent   []time.Time
	acked  []time.Time // zero: not yet
	offset []int64
	failed []error
	wait   chan struct{} // closed and made anew at every answer
	served []serving     // which node answered from when on
}

// serving is a node that began to answer.
type serving struct {
	node  int32
	since time.Time
}

func newProducer(c *nodes.Cluster) (*producer, error) {
	p := &producer{wait: make(chan struct{})}
	var err error
	p.cl, err = c.Client(kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(inFlight), kgo.RecordDeliveryTimeout(2*patience),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.WithHooks(p))
	return p, err
}

// OnBrokerE2E notes which node answers; it is kgo.HookBrokerE2E. The records of an answer are given out after it.
func (p *producer) OnBrokerE2E(meta kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key != kmsg.Produce.Int16() || e2e.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.served); n == 0 || p.served[n-1].node != meta.NodeID {
		p.served = append(p.served, serving{meta.NodeID, time.Now()})
	}
}

// run sends until the context ends, and waits for all answers.
func (p *producer) run(ctx context.Context) {
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		p.mu.Lock()
		n := len(p.sent)
		p.sent, p.acked, p.offset = append(p.sent, time.Now()), append(p.acked, time.Time{}), append(p.offset, -1)
		p.mu.Unlock()
		p.cl.Produce(context.Background(), &kgo.Record{Value: binary.BigEndian.AppendUint64(nil, uint64(n))}, func(r *kgo.Record, err error) { p.answered(n, r, err) })
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	_ = p.cl.Flush(context.Background())
}

func (p *producer) answered(n int, r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failed = append(p.failed, fmt.Errorf("record %d: %w", n, err))
	} else {
		p.acked[n], p.offset[n] = time.Now(), r.Offset
	}
	close(p.wait)
	p.wait = make(chan struct{})
}

// next is the time from a moment to the answer of the first record that was sent after it and is answered.
func (p *producer) next(ctx context.Context, moment time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p.mu.Lock()
	first := len(p.sent)
	for first > 0 && p.sent[first-1].After(moment) {
		first--
	}
	p.mu.Unlock()
	for {
		p.mu.Lock()
		for n := first; n < len(p.acked); n++ {
			if !p.acked[n].IsZero() && p.sent[n].After(moment) {
				d := p.acked[n].Sub(moment)
				p.mu.Unlock()
				return d, nil
			}
		}
		wait := p.wait
		p.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return 0, fmt.Errorf("no write was acknowledged for %s", patience)
		}
	}
}

// gap is the longest time between two answers in a span.
func (p *producer) gap(from, to time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	longest, last := time.Duration(0), from
	for _, at := range p.acked { // answers of one idempotent producer come in order
		if at.After(from) && at.Before(to) {
			longest = max(longest, at.Sub(last))
			last = at
		}
	}
	return max(longest, to.Sub(last))
}

// handover is the longest time, of those at which another node began to answer in a span, from the last answer before it to the
// next one; gap is what passes without answers for other reasons, too.
func (p *producer) handover(from, to time.Time) (longest time.Duration, moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.served {
		if s.since.Before(from) || s.since.After(to) {
			continue
		}
		last := from
		for _, at := range p.acked { // answers of one idempotent producer come in order
			if at.IsZero() || at.Before(from) {
				continue
			}
			if !at.Before(s.since) {
				longest, moved = max(longest, at.Sub(last)), true
				break
			}
			last = at
		}
	}
	return longest, moved
}

// check reads everything and says what is not where its answer said.
func (p *producer) check(ctx context.Context, c *nodes.Cluster) error {
	cl, err := c.Client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.failed) > 0 {
		return fmt.Errorf("%d records were not acknowledged, the first: %w", len(p.failed), p.failed[0])
	}
	at := map[int64]int64{} // number to offset
	for len(at) < len(p.sent) && ctx.Err() == nil {
		var twice error
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			n := int64(binary.BigEndian.Uint64(r.Value))
			if before, there := at[n]; there {
				twice = errors.Join(twice, fmt.Errorf("record %d stands at %d and at %d", n, before, r.Offset))
			}
			at[n] = r.Offset
		})
		if twice != nil {
			return twice
		}
	}
	for n, offset := range p.offset {
		if got, there := at[int64(n)]; !there || got != offset {
			return fmt.Errorf("record %d was acknowledged at offset %d and stands at %d (there: %v)", n, offset, got, there)
		}
	}
	return nil
}
