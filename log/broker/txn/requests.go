package txn

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// Init handles InitProducerId. An empty id asks for an idempotent producer only.
func (c *Coordinator) Init(ctx context.Context, id string, expected *Producer, timeout time.Duration,
	reply func(code int16, p Producer)) {
	none := Producer{noProducer, noEpoch}
	if id != "" && (timeout <= 0 || timeout > c.opts.MaxTimeout) {
		reply(kerr.InvalidTransactionTimeout.Code, none)
		return
	}
	// Reserving ids is an append of its own, so it happens before the loop is entered.
	pid, err := c.ids.take(ctx)
	if err != nil {
		c.opts.Logger.Warn("no producer id to give out", "error", err)
		reply(kerr.CoordinatorNotAvailable.Code, none)
		return
	}
	if id == "" {
		reply(0, Producer{pid, 0})
		return
	}
	used := false
	answer := func(code int16, p Producer) {
		if !used {
			c.ids.give(pid)
		}
		if code != 0 {
			p = none
		}
		reply(code, p)
	}
	fresh := func() int64 { used = true; return pid }
	until := c.opts.Now().Add(waitTimeout)
	c.on(id, func(s *shard, code int16) {
		if code != 0 {
			answer(code, none)
			return
		}
		s.init(id, expected, timeout, fresh, until, answer)
	})
}

func (s *shard) init(id string, expected *Producer, timeout time.Duration, fresh func() int64, until time.Time,
	reply func(int16, Producer)) {
	k := s.txns[id]
	if k == nil {
		k = &kept{Txn: newTxn(id, s.j.Now())}
		s.txns[id] = k
	}
	v := k.Init(expected, timeout, fresh, s.j.Now())
	if v.Write && v.Wait {
		s.decide(k, func(int16) {}) // fenced: the transaction of the instance before is aborted first
	}
	switch {
	case v.Wait:
		s.wait(k, until, func() { s.init(id, expected, timeout, fresh, until, reply) },
			func(code int16) { reply(code, Producer{}) })
	case v.Write || v.Code == 0 && k.unsettled > 0:
		p := k.Current
		s.save(k, func(code int16) { reply(code, p) })
	default:
		reply(v.Code, k.Current)
	}
}

// Add handles AddPartitionsToTxn, and AddOffsetsToTxn with the group's partition of __consumer_offsets. With V2 it is
// what a Produce or TxnOffsetCommit of that version does first for what is not part of the transaction yet.
func (c *Coordinator) Add(id string, p Producer, list []journal.TopicPartition, version int16, reply func(code int16)) {
	until := c.opts.Now().Add(waitTimeout)
	c.on(id, func(s *shard, code int16) {
		if code != 0 {
			reply(code)
			return
		}
		s.add(id, p, list, version, until, reply)
	})
}

func (s *shard) add(id string, p Producer, list []journal.TopicPartition, version int16, until time.Time, reply func(int16)) {
	k := s.txns[id]
	if k == nil {
		reply(kerr.InvalidProducerIDMapping.Code)
		return
	}
	v := k.Add(p, list, version, s.j.Now())
	switch {
	case v.Wait:
		s.wait(k, until, func() { s.add(id, p, list, version, until, reply) }, reply)
	case v.Write || v.Code == 0 && k.unsettled > 0:
		s.save(k, func(code int16) {
			if code == 0 && k.State == Ongoing && k.Current == p {
				s.expect(k.Txn, list)
				s.view.add(id, p, list) // durable: records may follow
			}
			reply(code)
		})
	default:
		reply(v.Code)
	}
}

// End handles EndTxn: it answers when the decision is durable. In version 2 the answer holds the claim to go on with.
func (c *Coordinator) End(id string, p Producer, commit bool, version int16, reply func(code int16, next Producer)) {
	e := &ending{id: id, p: p, commit: commit, version: version, next: noProducer, until: c.opts.Now().Add(waitTimeout), reply: reply}
	c.on(id, e.run)
}

// ending is an EndTxn on its way.
type ending struct {
	id      string
	p       Producer
	commit  bool
	version int16
	next    int64 // a producer id that was never used; noProducer: none was needed so far
	until   time.Time
	reply   func(code int16, next Producer)
}

func (e *ending) run(s *shard, code int16) {
	if code != 0 {
		e.reply(code, Producer{noProducer, noEpoch})
		return
	}
	k := s.txns[e.id]
	if k == nil {
		e.reply(kerr.InvalidProducerIDMapping.Code, Producer{noProducer, noEpoch})
		return
	}
	var v Verdict
	if e.version >= V2 {
		v = k.EndV2(e.p, e.commit, e.next, s.j.Now())
	} else {
		v = k.End(e.p, e.commit, s.j.Now())
	}
	claim := k.Claim()
	answer := func(code int16) {
		if code != 0 {
			claim = Producer{noProducer, noEpoch}
		}
		e.reply(code, claim)
	}
	switch {
	case v.Wait:
		s.wait(k, e.until, func() { e.run(s, 0) }, answer)
	case v.Fresh:
		e.takeID(s)
	case v.Write && k.completing():
		s.decide(k, answer)
	case v.Write || v.Code == 0 && e.version >= V2 && k.unsettled > 0:
		s.save(k, answer) // the claim that is told rests on records that are still on their way
	default:
		answer(v.Code)
	}
}

// takeID reserves a producer id, which is an append of its own, and asks again. It is rare, once in the life of a
// producer id, so an id that turns out not to be needed is not given back.
func (e *ending) takeID(s *shard) {
	s.c.taking.Go(func() {
		pid, err := s.c.ids.take(s.ctx)
		if err != nil {
			s.c.opts.Logger.Warn("no producer id to give out", "error", err)
			e.reply(kerr.CoordinatorNotAvailable.Code, Producer{noProducer, noEpoch})
			return
		}
		e.next = pid
		s.j.Do(func(err error) { e.run(s, journal.Code(err)) })
	})
}

// Verify handles AddPartitionsToTxn that only asks: is the partition part of the producer's open transaction, and if not,
// why?
func (c *Coordinator) Verify(id string, p Producer, tp journal.TopicPartition, reply func(code int16)) {
	c.on(id, func(s *shard, code int16) {
		if code == 0 {
			code = s.verify(id, p, tp)
		}
		reply(code)
	})
}

func (s *shard) verify(id string, p Producer, tp journal.TopicPartition) int16 {
	k := s.txns[id]
	if k == nil {
		return kerr.InvalidProducerIDMapping.Code
	}
	if code := k.check(p); code != 0 {
		return code
	}
	if k.completing() {
		return kerr.ConcurrentTransactions.Code
	}
	if _, ok := k.Partitions[tp]; !ok {
		return kerr.TransactionAbortable.Code
	}
	if k.unsettled > 0 { // it may not be durable yet
		return kerr.ConcurrentTransactions.Code
	}
	return 0
}
