package sink_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The runtime passes the suite with the model target.
func TestConformance(t *testing.T) {
	sinktest.Run(t, func(*testing.T) sinktest.Harness {
		m := sinktest.NewMemory()
		return sinktest.Harness{Target: m.Target, Rows: m.Rows, Applied: m.Applied}
	})
}

// While the target is down the sink says so, shows its lag and goes on by itself afterwards.
func TestTargetDown(t *testing.T) {
	m := sinktest.NewMemory()
	m.SetDown(errors.New("target is down"))
	l := sinktest.NewLog(t, "shop")
	s := sinktest.NewSource(t, l, 2)
	s.Work(t, rand.New(rand.NewPCG(1, 2)), 20)
	p := sink.NewProperties(nil)
	r := sink.NewRunner(p.Settings("w", "test", []string{"shop.public.*"}), m.Target("w"), l.Deps(nil, "node-1"))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	wait := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("gave up waiting for %s: %+v", what, r.Status())
			}
		}
	}
	wait("the sink to retry", func() bool { return r.Status().State == sink.StateRetrying && r.Status().Error != "" })
	m.SetDown(nil)
	equal := func() bool {
		for _, tab := range s.Tables() {
			if !slices.Equal(m.Rows(tab.Schema.Collection()), s.Rows(tab)) {
				return false
			}
		}
		return true
	}
	wait("the target to equal the source", equal)
	m.SetDown(errors.New("target is down"))
	s.Work(t, rand.New(rand.NewPCG(3, 4)), 20)
	wait("the sink to retry again, with its lag in sight", func() bool {
		st := r.Status()
		return st.State == sink.StateRetrying && st.LagEvents > 0 && st.LagBytes > 0 && st.LagSeconds > 0
	})
	m.SetDown(nil)
	wait("the target to equal the source again", equal)
	if m.Applied() != s.Events {
		t.Errorf("the target has taken %d changes, the log has %d", m.Applied(), s.Events)
	}
	cancel()
	if err := <-done; err != nil || r.Status().State != sink.StateStopped {
		t.Fatalf("stop: %v, %+v", err, r.Status())
	}
}

// A sink that is stopped shows a lag that grows in records, bytes and seconds, and none once it has caught up.
func TestLagGrowsAndEnds(t *testing.T) {
	m := sinktest.NewMemory()
	l := sinktest.NewLog(t, "shop")
	s := sinktest.NewSource(t, l, 2)
	s.Work(t, rand.New(rand.NewPCG(1, 2)), 20)
	newSink := func() *sink.Runner {
		p := sink.NewProperties(nil)
		return sink.NewRunner(p.Settings("w", "test", []string{"shop.public.*"}), m.Target("w"), l.Deps(nil, "node-1"))
	}
	await := func(r *sink.Runner, what string, ok func(sink.Status) bool) sink.Status {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			st := r.Status()
			if ok(st) {
				return st
			}
			if time.Now().After(deadline) {
				t.Fatalf("gave up waiting for %s: %+v", what, st)
			}
		}
	}
	none := func(st sink.Status) bool {
		return st.Events > 0 && st.LagEvents == 0 && st.LagBytes == 0 && st.LagSeconds == 0
	}
	run := func(r *sink.Runner) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	r := newSink()
	stop := run(r)
	await(r, "no lag", func(st sink.Status) bool { return none(st) && m.Applied() == s.Events })
	m.SetDown(errors.New("target is down"))
	s.Work(t, rand.New(rand.NewPCG(3, 4)), 20)
	first := await(r, "a lag", func(st sink.Status) bool { return st.LagEvents > 0 && st.LagBytes > 0 && st.LagSeconds > 0 })
	s.Work(t, rand.New(rand.NewPCG(5, 6)), 20)
	grown := await(r, "a lag that grows", func(st sink.Status) bool {
		return st.LagEvents > first.LagEvents && st.LagBytes > first.LagBytes && st.LagSeconds > first.LagSeconds+1
	})
	stop()

	// Another process does not know what was applied before it, and the target cannot tell it: the group's offsets do.
	r = newSink()
	stop = run(r)
	defer func() { stop() }()
	await(r, "the same lag", func(st sink.Status) bool {
		return st.LagEvents == grown.LagEvents && st.LagBytes == grown.LagBytes && st.LagSeconds > 0
	})
	m.SetDown(nil)
	await(r, "no lag again", func(st sink.Status) bool { return none(st) && m.Applied() == s.Events })
}
