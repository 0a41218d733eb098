package txn

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
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

// Add handles AddPartitionsToTxn, and AddOffsetsToTxn with the group's partition of __consumer_offsets.
func (c *Coordinator) Add(id string, p Producer, list []TopicPartition, reply func(code int16)) {
	until := c.opts.Now().Add(waitTimeout)
	c.on(id, func(s *shard, code int16) {
		if code != 0 {
			reply(code)
			return
		}
		s.add(id, p, list, until, reply)
	})
}

func (s *shard) add(id string, p Producer, list []TopicPartition, until time.Time, reply func(int16)) {
	k := s.txns[id]
	if k == nil {
		reply(kerr.InvalidProducerIDMapping.Code)
		return
	}
	v := k.Add(p, list, s.j.Now())
	switch {
	case v.Wait:
		s.wait(k, until, func() { s.add(id, p, list, until, reply) }, reply)
	case v.Write || v.Code == 0 && k.unsettled > 0:
		s.save(k, func(code int16) {
			if code == 0 && k.State == Ongoing && k.Current == p {
				s.view.add(id, p, list) // durable: records may follow
			}
			reply(code)
		})
	default:
		reply(v.Code)
	}
}

// End handles EndTxn: it answers when the decision is durable.
func (c *Coordinator) End(id string, p Producer, commit bool, reply func(code int16)) {
	until := c.opts.Now().Add(waitTimeout)
	c.on(id, func(s *shard, code int16) {
		if code != 0 {
			reply(code)
			return
		}
		s.end(id, p, commit, until, reply)
	})
}

func (s *shard) end(id string, p Producer, commit bool, until time.Time, reply func(int16)) {
	k := s.txns[id]
	if k == nil {
		reply(kerr.InvalidProducerIDMapping.Code)
		return
	}
	v := k.End(p, commit, s.j.Now())
	switch {
	case v.Wait:
		s.wait(k, until, func() { s.end(id, p, commit, until, reply) }, reply)
	case v.Write:
		s.decide(k, reply)
	default:
		reply(v.Code)
	}
}
