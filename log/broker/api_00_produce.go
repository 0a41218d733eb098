package broker

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log/broker/admit"
	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/txn"
	"github.com/rowtrail/rowtrail/log/record"
)

// production is one Produce request on its way. Partitions answer in any order; the last one completes it.
type production struct {
	b    *Broker
	resp *kmsg.ProduceResponse
	left atomic.Int32 // partitions that have not answered, and one for staging itself
	done func(kmsg.Response, error)
	acks int16
	// misled says that a partition was answered with NOT_LEADER_OR_FOLLOWER.
	misled atomic.Bool

	mu    sync.Mutex // of the response's partitions, once the timer may run
	over  bool       // the answer is on its way
	timer *time.Timer
}

// settle changes a partition's answer, unless the client has its own already.
func (p *production) settle(change func()) {
	p.mu.Lock()
	if !p.over {
		change()
	}
	p.mu.Unlock()
	p.finish()
}

// limit has the client answered when its time is up: partitions that are not settled by then are REQUEST_TIMED_OUT, as they were from the start, and
// what becomes of their batches is not known.
func (p *production) limit(left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.timer = time.AfterFunc(max(left, 0), p.end)
	}
}

func (p *production) finish() {
	if p.left.Add(-1) == 0 {
		p.end()
	}
}

// end answers, once.
func (p *production) end() {
	p.mu.Lock()
	over := p.over
	p.over = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	if over {
		return
	}
	if p.acks != 0 {
		if !p.misled.Load() || p.b.hintProduce(p.resp) {
			p.done(p.resp, nil)
			return
		}
		go func() { // who settles the last partition is not held up
			p.b.awaitHints(p.b.ctx.Done(), func() bool { return p.b.hintProduce(p.resp) })
			p.done(p.resp, nil)
		}()
		return
	}
	// Nothing is sent with acks=0, so a failure can only be shown by closing the connection.
	for i := range p.resp.Topics {
		for j := range p.resp.Topics[i].Partitions {
			if code := p.resp.Topics[i].Partitions[j].ErrorCode; code != 0 {
				p.done(nil, fmt.Errorf("append with acks=0: %w", kerr.ErrorForCode(code)))
				return
			}
		}
	}
	p.done(nil, nil)
}

// stageProduce appends every partition's batch in order; answers follow as batches become durable.
func (b *Broker) stageProduce(ctx context.Context, r *request, done func(kmsg.Response, error)) {
	req := r.req.(*kmsg.ProduceRequest)
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	p := &production{b: b, resp: resp, done: done, acks: req.Acks}
	// All slots exist before the first append: its callback may run at any time.
	resp.Topics = make([]kmsg.ProduceResponseTopic, len(req.Topics))
	count := int32(1)
	for i := range req.Topics {
		rt, st := &req.Topics[i], &resp.Topics[i]
		st.Default()
		// The request's strings share its frame, and the response outlives neither.
		st.Topic, st.TopicID = rt.Topic, rt.TopicID
		st.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(rt.Partitions))
		for j := range rt.Partitions {
			sp := &st.Partitions[j]
			sp.Default()
			sp.Partition = rt.Partitions[j].Partition
			sp.BaseOffset, sp.LogAppendTime, sp.LogStartOffset = -1, -1, -1
			sp.ErrorCode = kerr.RequestTimedOut.Code
		}
		count += int32(len(rt.Partitions))
	}
	p.left.Store(count)
	now := time.Now()
	joined := b.joinProduce(ctx, req)
	for i := range req.Topics {
		rt := &req.Topics[i]
		t, err := b.topic(rt.Topic, rt.TopicID, req.Version >= 13)
		if err == nil && t.Internal {
			err = refuse(kerr.InvalidTopicException, "topic "+t.Name+" is written by the broker alone")
		}
		for j := range rt.Partitions {
			sp := &resp.Topics[i].Partitions[j]
			if err != nil {
				p.refuse(sp, err)
				continue
			}
			b.append(ctx, p, r, t, now, joined, rt.Partitions[j].Records, sp)
		}
	}
	if p.acks != 0 && p.left.Load() > 1 {
		p.limit(time.Duration(cmp.Or(max(req.TimeoutMillis, 0), defaultAdminTimeoutMillis))*time.Millisecond - time.Since(now))
	}
	p.finish()
}

// refuse answers one partition with an error.
func (p *production) refuse(sp *kmsg.ProduceResponseTopicPartition, err error) {
	p.settle(func() {
		sp.ErrorCode = errorCode(err)
		sp.ErrorMessage = errorMessage(err)
		if sp.ErrorCode == kerr.NotLeaderForPartition.Code {
			p.misled.Store(true)
		}
	})
}

// append checks one partition's batch and hands it to the partition's leader, which owns it from then on.
func (b *Broker) append(ctx context.Context, p *production, r *request, t *cluster.Topic,
	now time.Time, joined int16, batch []byte, sp *kmsg.ProduceResponseTopicPartition,
) {
	req, settings := r.req.(*kmsg.ProduceRequest), &t.Settings
	if req.Acks < -1 || req.Acks > 1 {
		p.refuse(sp, kerr.InvalidRequiredAcks)
		return
	}
	replica, epoch, err := b.leading(t, sp.Partition)
	if err != nil {
		p.refuse(sp, err)
		return
	}
	batch, h, err := b.check(ctx, r, batch, settings, now, sp)
	var pass *admit.Pass
	if err == nil && h.Transactional() {
		pass, err = b.enterProduce(ctx, req, h, joined, led{journal.TopicPartition{Topic: t.Name, Partition: sp.Partition}, replica, epoch})
	} else {
		epoch = cluster.AnyEpoch
	}
	if err != nil {
		p.refuse(sp, err)
		return
	}
	b.pacer.Produced(len(batch))
	// A pass holds in the leader epoch that it was given in.
	replica.AppendIn(ctx, epoch, batch, req.Acks, func(res cluster.AppendResult) {
		pass.Leave()
		if res.Err != nil {
			p.refuse(sp, res.Err)
			return
		}
		p.settle(func() {
			sp.ErrorCode, sp.BaseOffset, sp.LogStartOffset = 0, res.BaseOffset, res.LogStart
			if settings.Log.LogAppendTime {
				if h, err := record.ParseHeader(batch); err == nil {
					sp.LogAppendTime = h.MaxTimestamp // stamped by the append
				}
			}
		})
	})
}

// joinProduce makes what a Produce writes part of its transaction, where the request's version does so (KIP-890, part 2).
func (b *Broker) joinProduce(ctx context.Context, req *kmsg.ProduceRequest) (code int16) {
	if req.TransactionID == nil || req.Version < produceJoins {
		return 0
	}
	e := entry{id: *req.TransactionID}
	var list []led
	for i := range req.Topics {
		rt := &req.Topics[i]
		t, err := b.topic(rt.Topic, rt.TopicID, req.Version >= 13)
		if err != nil || t.Internal {
			continue // refused
		}
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			h, err := record.ParseHeader(rp.Records)
			if replica, epoch, elsewhere := b.leading(t, rp.Partition); err == nil && elsewhere == nil && h.Transactional() {
				// A request is one producer's; a batch of another one does not get in.
				e.producer = txn.Producer{ID: h.ProducerID, Epoch: h.ProducerEpoch}
				list = append(list, led{journal.TopicPartition{Topic: t.Name, Partition: rp.Partition}, replica, epoch})
			}
		}
	}
	if len(list) == 0 {
		return 0
	}
	return b.join(ctx, e, list)
}

// enterProduce lets in a transactional batch. joined is what came of joining its transaction.
func (b *Broker) enterProduce(ctx context.Context, req *kmsg.ProduceRequest, h record.Header, joined int16, p led) (*admit.Pass, error) {
	e := entry{deref(req.TransactionID), txn.Producer{ID: h.ProducerID, Epoch: h.ProducerEpoch}}
	pass, code := (*admit.Pass)(nil), joined
	if code == 0 {
		pass, code = b.enter(ctx, e, p)
	}
	if code = produceRefusals().of(code, req.Version); code != 0 {
		return nil, refuse(kerr.TypedErrorForCode(code), fmt.Sprintf("%s-%d is not part of an open transaction %q of producer %d, epoch %d",
			p.Topic, p.Partition, e.id, h.ProducerID, h.ProducerEpoch))
	}
	return pass, nil
}
