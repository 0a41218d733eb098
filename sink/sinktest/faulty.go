package sinktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/rowtrail/rowtrail/sink"
)

// errInjected stands for a lost connection.
var errInjected = errors.New("injected: connection lost")

// faulty breaks a target's connection at commits: before the target has committed, or after it has and before the sink
// learns of it. Both look the same from outside.
type faulty struct {
	sink.Target

	mu     sync.Mutex
	rng    *rand.Rand
	every  int // one commit of so many fails; 0: none
	struck int
	tried  int // commits
}

func (f *faulty) Open(ctx context.Context) (sink.Session, error) {
	s, err := f.Target.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &faultySession{s, f}, nil
}

// strike decides what happens to a commit.
func (f *faulty) strike() (before, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried++
	if f.every == 0 || f.rng.IntN(f.every) != 0 {
		return false, false
	}
	f.struck++
	before = f.rng.IntN(2) == 0
	return before, !before
}

// strikes counts the commits that were broken.
func (f *faulty) strikes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.struck
}

// tries counts all commits.
func (f *faulty) tries() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tried
}

func (f *faulty) calm() {
	f.mu.Lock()
	f.every = 0
	f.mu.Unlock()
}

type faultySession struct {
	sink.Session
	f *faulty
}

func (s *faultySession) Commit(ctx context.Context, offsets []sink.Offset) error {
	before, after := s.f.strike()
	if before {
		return errInjected
	}
	if err := s.Session.Commit(ctx, offsets); err != nil {
		return err
	}
	if after {
		return errInjected
	}
	return nil
}
