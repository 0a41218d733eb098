package txn

import (
	"errors"
	"time"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/record"
)

// retry is a marker to be tried again.
type retry struct {
	at time.Time
	k  *kept
	tp journal.TopicPartition
}

// sendMarkers writes the transaction's markers to all its partitions, side by side.
func (s *shard) sendMarkers(k *kept) {
	list := k.List()
	k.left, k.attempts = len(list), 0
	if k.left == 0 {
		s.complete(k)
		return
	}
	for _, tp := range list {
		s.sendMarker(k, tp)
	}
}

func (s *shard) sendMarker(k *kept, tp journal.TopicPartition) {
	loads := s.loads
	m := record.EndTxn{ProducerID: k.Current.ID, ProducerEpoch: k.Current.Epoch, CoordinatorEpoch: s.j.Epoch(),
		Commit: k.State == PrepareCommit}
	s.c.opts.Markers.WriteMarker(s.ctx, tp, m, func(err error) {
		s.j.Post(func() {
			if loads == s.loads {
				s.marked(k, tp, err)
			}
		})
	})
}

func (s *shard) marked(k *kept, tp journal.TopicPartition, err error) {
	switch {
	case err == nil:
	case errors.Is(err, log.ErrInvalidProducerEpoch), errors.Is(err, log.ErrFencedCoordinator):
		// The partition has seen the end of this transaction and what came after it.
		s.c.opts.Logger.Warn("partition knows a later end of the transaction", "transactional_id", k.ID,
			"topic", tp.Topic, "partition", tp.Partition, "error", err)
	default:
		if k.attempts == 0 {
			s.c.opts.Logger.Warn("transaction marker is tried again", "transactional_id", k.ID,
				"topic", tp.Topic, "partition", tp.Partition, "error", err)
		}
		k.attempts++
		pause := min(retryFirst<<min(k.attempts/max(1, len(k.Partitions)), 10), retryMost)
		s.retries = append(s.retries, retry{s.j.Now().Add(pause), k, tp})
		return
	}
	if k.left--; k.left == 0 {
		s.complete(k)
	}
}

func (s *shard) retryMarkers(now time.Time) {
	if len(s.retries) == 0 {
		return
	}
	var later, due []retry
	for _, r := range s.retries {
		if now.Before(r.at) {
			later = append(later, r)
		} else {
			due = append(due, r)
		}
	}
	s.retries = later
	for _, r := range due {
		s.sendMarker(r.k, r.tp)
	}
}
