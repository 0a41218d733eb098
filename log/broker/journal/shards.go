package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log"
)

// Shards are what a coordinator knows: a fold with its journal for each partition of its topic, in order. A key
// belongs to one of them. Before the topic exists there are none, and work is refused with ErrNotCreated.
type Shards[F Fold] struct {
	opts   Options
	fold   func(*Journal) F
	opened chan struct{} // closed by Open
	list   atomic.Pointer[[]shard[F]]
}

type shard[F Fold] struct {
	fold    F
	journal *Journal
}

// NewShards returns the shards of a topic, for Open and Run. opts hold for every journal; Name is the topic's, and fold makes the fold of one
// journal.
func NewShards[F Fold](opts Options, fold func(*Journal) F) *Shards[F] {
	return &Shards[F]{opts: opts, fold: fold, opened: make(chan struct{})}
}

// Open names the topic's partitions, once.
func (s *Shards[F]) Open(partitions []Partition) {
	list := make([]shard[F], len(partitions))
	for i, p := range partitions {
		opts := s.opts
		opts.Partition, opts.Name = p, fmt.Sprintf("%s-%d", opts.Name, i)
		j := New(opts)
		f := s.fold(j)
		j.opts.Fold = f
		list[i] = shard[F]{f, j}
	}
	s.list.Store(&list)
	close(s.opened)
}

func (s *Shards[F]) all() []shard[F] {
	if l := s.list.Load(); l != nil {
		return *l
	}
	return nil
}

// Run drives the journals until ctx ends. prepare, when not nil, is given every fold before.
func (s *Shards[F]) Run(ctx context.Context, prepare func(F)) {
	select {
	case <-s.opened:
	case <-ctx.Done():
		return
	}
	var wg sync.WaitGroup
	for _, x := range s.all() {
		if prepare != nil {
			prepare(x.fold)
		}
		wg.Go(func() { x.journal.Run(ctx) })
	}
	wg.Wait()
}

// At is the fold of a partition, if there is one. What belongs to a journal's goroutine is touched in Do and Each alone.
func (s *Shards[F]) At(partition int32) (f F, ok bool) {
	all := s.all()
	if partition < 0 || int(partition) >= len(all) {
		return f, false
	}
	return all[partition].fold, true
}

// PartitionFor is the partition that keeps a key; -1: the topic does not exist yet.
func (s *Shards[F]) PartitionFor(key string) int32 {
	if n := len(s.all()); n > 0 {
		return PartitionFor(key, n)
	}
	return -1
}

// For is the fold that a key belongs to; see At.
func (s *Shards[F]) For(key string) (F, bool) { return s.At(s.PartitionFor(key)) }

// Serving reports why a key's journal refuses work, or nil.
func (s *Shards[F]) Serving(key string) error {
	i := s.PartitionFor(key)
	if i < 0 {
		return ErrNotCreated
	}
	return s.all()[i].journal.Serving()
}

// Do runs f on the goroutine of a key's journal, or gives it the reason why not; see Journal.Do.
func (s *Shards[F]) Do(key string, f func(fold F, err error)) {
	i := s.PartitionFor(key)
	if i < 0 {
		var none F
		f(none, ErrNotCreated)
		return
	}
	x := s.all()[i]
	x.journal.Do(func(err error) { f(x.fold, err) })
}

// Look has every journal look at once whether it still leads.
func (s *Shards[F]) Look() {
	for _, x := range s.all() {
		x.journal.signal()
	}
}

// Each runs visit on every fold, one at a time, then done. Those that another node leads are left out; for others that could
// not be visited done is told why.
func (s *Shards[F]) Each(visit func(F), done func(error)) {
	all := s.all()
	if len(all) == 0 {
		done(ErrNotCreated)
		return
	}
	var mu sync.Mutex
	var failed error
	left := len(all)
	for _, x := range all {
		x.journal.Do(func(err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				visit(x.fold)
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
