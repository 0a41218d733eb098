package txn

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// kept is a transactional id with what is under way for it.
type kept struct {
	*Txn
	unsettled int      // records on their way to the log
	waiters   []waiter // for the end of Prepare*
	left      int      // markers that are not written yet
	attempts  int      // failed tries of markers of this transaction
}

// waiter is a request that runs again when the transaction is complete.
type waiter struct {
	until time.Time
	again func()
	give  func(code int16)
}

// shard is the fold of one partition of __transaction_state. It lives on its journal's goroutine.
type shard struct {
	c    *Coordinator
	ctx  context.Context
	j    *journal.Journal
	view view

	txns    map[string]*kept
	waiting map[*kept]struct{} // with waiters
	retries []retry
	// Invariant: loads counts loads, so outcomes of markers begun before one are told apart.
	loads        int
	scan, expiry time.Time
}

func (s *shard) Reset(epoch int32) {
	code := kerr.CoordinatorLoadInProgress.Code
	if epoch < 0 {
		code = kerr.NotCoordinator.Code
	}
	for k := range s.waiting {
		s.dismiss(k, code)
	}
	s.txns, s.waiting, s.retries = map[string]*kept{}, map[*kept]struct{}{}, nil
	s.loads++
	s.view.reset()
}

// Apply folds one batch.
func (s *shard) Apply(b journal.Batch) error {
	if b.Marker != nil || b.Transactional {
		return fmt.Errorf("a transaction of producer %d in a log that has none", b.Producer.ID)
	}
	for i := range b.Records {
		id, t, err := parse(b.Records[i])
		if err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if t == nil {
			delete(s.txns, id)
			continue
		}
		s.txns[id] = &kept{Txn: t}
	}
	return nil
}

// Loaded goes on with what was decided and not completed.
func (s *shard) Loaded(now time.Time) {
	for _, k := range s.txns {
		switch {
		case k.State == Ongoing:
			s.expect(k.Txn, k.List())
			s.view.set(k.Txn)
		case k.completing():
			s.sendMarkers(k)
		}
	}
	s.scan, s.expiry = now.Add(scanInterval), now.Add(expiryInterval)
}

// expect tells partitions of an open transaction of version 2: only those have an epoch of their own.
func (s *shard) expect(t *Txn, list []journal.TopicPartition) {
	if t.Client != V2 {
		return
	}
	for _, tp := range list {
		s.c.opts.Markers.ExpectFirst(tp, t.Current)
	}
}

// Tick runs what is due.
func (s *shard) Tick(now time.Time) time.Time {
	s.retryMarkers(now)
	if !now.Before(s.scan) {
		for _, k := range s.txns {
			if k.TimeOut(now).Write {
				s.c.opts.Logger.Info("transaction timed out", "transactional_id", k.ID,
					"producer_id", k.Current.ID, "timeout", k.Timeout)
				s.decide(k, func(int16) {})
			}
		}
		s.scan = now.Add(scanInterval)
	}
	if !now.Before(s.expiry) {
		s.expire(now)
		s.expiry = now.Add(expiryInterval)
	}
	next := s.scan
	for k := range s.waiting {
		for len(k.waiters) > 0 && !now.Before(k.waiters[0].until) {
			w := k.waiters[0]
			k.waiters = k.waiters[1:]
			w.give(kerr.ConcurrentTransactions.Code)
		}
		if len(k.waiters) == 0 {
			delete(s.waiting, k)
		} else if t := k.waiters[0].until; t.Before(next) {
			next = t
		}
	}
	for _, r := range s.retries {
		if r.at.Before(next) {
			next = r.at
		}
	}
	return next
}

// State yields the records that fold to this shard.
func (s *shard) State(yield func(journal.Record)) {
	ids := make([]string, 0, len(s.txns))
	for id := range s.txns {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if t := s.txns[id].Txn; t.Current.ID != noProducer {
			yield(t.record())
		}
	}
}

// expire forgets ids that nobody has used for long.
func (s *shard) expire(now time.Time) {
	for id, k := range s.txns {
		if k.unsettled == 0 && k.Idle(now.Add(-s.c.opts.IdleExpiry)) {
			k.State = Dead
			delete(s.txns, id)
			s.j.Stage([]journal.Record{{Key: key(id)}}, func(int64, error) {})
		}
	}
}

// save writes the state as it is now. then gets the outcome, in log order.
func (s *shard) save(k *kept, then func(code int16)) {
	k.unsettled++
	s.j.Stage([]journal.Record{k.record()}, func(_ int64, err error) {
		k.unsettled--
		then(journal.Code(err))
	})
}

// decide writes Prepare*, the transaction's commit point, and then its markers.
func (s *shard) decide(k *kept, then func(code int16)) {
	s.view.drop(k.ID)
	s.save(k, func(code int16) {
		then(code)
		if code == 0 {
			s.sendMarkers(k)
		}
	})
}

// complete writes Complete* and runs what waited for it: their records share the append.
func (s *shard) complete(k *kept) {
	k.Complete(s.j.Now())
	k.attempts = 0
	s.save(k, func(int16) {})
	list := k.waiters
	k.waiters = nil
	delete(s.waiting, k)
	for _, w := range list {
		w.again()
	}
}

// wait parks a request until the transaction is complete.
func (s *shard) wait(k *kept, until time.Time, again func(), give func(code int16)) {
	if len(k.waiters) >= maxWaiters || !s.j.Now().Before(until) {
		give(kerr.ConcurrentTransactions.Code)
		return
	}
	k.waiters = append(k.waiters, waiter{until: until, again: again, give: give})
	s.waiting[k] = struct{}{}
}

func (s *shard) dismiss(k *kept, code int16) {
	for _, w := range k.waiters {
		w.give(code)
	}
	k.waiters = nil
}
