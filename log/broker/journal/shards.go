package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log"
)

// Shards are what a coordinator knows: a fold with its journal for each partition of its topic, in order. A key
// belongs to one of them.
type Shards[F Fold] struct {
	folds    []F
	journals []*Journal
}

// NewShards returns the shards of partitions, for Run to drive. opts hold for every journal; Name is the topic's, and
// fold makes the fold of one journal.
func NewShards[F Fold](opts Options, partitions []Partition, fold func(*Journal) F) *Shards[F] {
	s := &Shards[F]{}
	topic := opts.Name
	for i, p := range partitions {
		opts.Partition, opts.Name = p, fmt.Sprintf("%s-%d", topic, i)
		j := New(opts)
		f := fold(j)
		j.opts.Fold = f
		s.folds, s.journals = append(s.folds, f), append(s.journals, j)
	}
	return s
}

// Run drives the journals until ctx ends.
func (s *Shards[F]) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, j := range s.journals {
		wg.Go(func() { j.Run(ctx) })
	}
	wg.Wait()
}

// Folds are all folds. What belongs to a journal's goroutine is touched in Do and Each alone.
func (s *Shards[F]) Folds() []F { return s.folds }

// PartitionFor is the partition that keeps a key.
func (s *Shards[F]) PartitionFor(key string) int32 { return PartitionFor(key, len(s.folds)) }

// For is the fold that a key belongs to; see Folds.
func (s *Shards[F]) For(key string) F { return s.folds[s.PartitionFor(key)] }

// Serving reports why a key's journal refuses work, or nil.
func (s *Shards[F]) Serving(key string) error { return s.journals[s.PartitionFor(key)].Serving() }

// Do runs f on the goroutine of a key's journal, or gives it the reason why not; see Journal.Do.
func (s *Shards[F]) Do(key string, f func(fold F, err error)) {
	i := s.PartitionFor(key)
	s.journals[i].Do(func(err error) { f(s.folds[i], err) })
}

// Each runs visit on every fold, one at a time, then done. Those that another node leads are left out; for others that could
// not be visited done is told why.
func (s *Shards[F]) Each(visit func(F), done func(error)) {
	var mu sync.Mutex
	var failed error
	left := len(s.folds)
	for i, j := range s.journals {
		j.Do(func(err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				visit(s.folds[i])
			case Code(err) != kerr.NotCoordinator.Code:
				failed = err
			}
			if left--; left == 0 {
				done(failed)
			}
		})
	}
}

// Code is the protocol's word for an error of the journal or of the log below it.
func Code(err error) int16 {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrLoading):
		return kerr.CoordinatorLoadInProgress.Code
	case errors.Is(err, ErrNotLeader), errors.Is(err, log.ErrNotLeader):
		return kerr.NotCoordinator.Code
	default:
		return kerr.CoordinatorNotAvailable.Code
	}
}
