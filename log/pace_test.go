package log

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPaceDelay(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		name                string
		garbage, live, size int64
		want                time.Duration
	}{
		{"none", 0, 0, 4 * mb, 0},
		{"at the soft bound", garbageSoft, 0, 4 * mb, 0},
		{"half way", (garbageSoft + garbageHard) / 2, 0, 4 * mb, 125 * time.Millisecond},
		{"at the hard bound", garbageHard, 0, 4 * mb, 250 * time.Millisecond},
		{"in proportion to size", garbageHard, 0, 4 << 10, 250 * time.Millisecond / 1024},
		{"as much garbage as live bytes is what collection allows", 10 << 30, 10 << 30, 4 * mb, 0},
		{"far beyond", 100 << 30, 0, 4 * mb, time.Second},
		{"never longer than maxPace", 100 << 30, 0, 64 * mb, maxPace},
	} {
		if got := paceDelay(c.garbage, c.live, c.size); (got - c.want).Abs() > time.Millisecond {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestAwait: a wait takes as long as garbage demands, to the moment, ends as soon as a measurement finds less, and with the store.
func TestAwait(t *testing.T) {
	const size = 1 << 20
	wait := func(meanwhile func(p *pacer, quit chan struct{})) (waited, took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			p, quit := &pacer{eased: make(chan struct{})}, make(chan struct{})
			p.retired.Store(4 * garbageHard)
			go func() {
				time.Sleep(10 * time.Millisecond)
				meanwhile(p, quit)
			}()
			start := time.Now()
			waited = p.await(size, quit)
			took = time.Since(start)
		})
		return waited, took
	}
	measured := func(garbage int64) func(*pacer, chan struct{}) {
		return func(p *pacer, _ chan struct{}) {
			p.retired.Store(garbage)
			p.mu.Lock()
			defer p.mu.Unlock()
			close(p.eased)
			p.eased = make(chan struct{})
		}
	}
	long := paceDelay(4*garbageHard, 0, size)
	for _, c := range []struct {
		name      string
		meanwhile func(*pacer, chan struct{})
		want      time.Duration
	}{
		{"nothing happens", func(*pacer, chan struct{}) {}, long},
		{"as much is measured", measured(4 * garbageHard), long},
		{"less is measured", measured(garbageHard), paceDelay(garbageHard, 0, size)},
		{"none is measured", measured(0), 10 * time.Millisecond},
		{"the store closes", func(_ *pacer, quit chan struct{}) { close(quit) }, 10 * time.Millisecond},
	} {
		if waited, took := wait(c.meanwhile); waited != c.want || took != c.want {
			t.Errorf("%s: waited %v in %v, want %v", c.name, waited, took, c.want)
		}
	}
}

// TestCommitIsSlowedByGarbage: a commit waits while there is too much garbage, and does not where there is none.
func TestCommitIsSlowedByGarbage(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(t, s, 1)
	appendAll(t, s, p, batchOf(1<<20, 0))
	if got := s.Stats().Slowed; got != 0 {
		t.Errorf("without garbage a commit was slowed by %v", got)
	}
	for range 10 { // a measurement may come between
		s.keeper.pace.retired.Add(4 * garbageHard)
		appendAll(t, s, p, batchOf(1<<20, 0))
		if s.Stats().Slowed > 0 {
			break
		}
	}
	slowed := s.Stats().Slowed
	if slowed == 0 {
		t.Error("garbage slows no commit")
	}
	s.keeper.measure() // finds that there is none
	appendAll(t, s, p, batchOf(1<<20, 0))
	if got := s.Stats().Slowed; got != slowed {
		t.Errorf("after the measurement a commit was slowed by %v", got-slowed)
	}
}

// TestGrowthTrims: a partition says by itself that it is to be trimmed.
func TestGrowthTrims(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(t, s, 1)
	const keep = 1 << 20
	p.SetConfig(Config{RetentionBytes: keep})
	for range 200 {
		appendAll(t, s, p, batchOf(100<<10, 0))
		if got := p.Bytes(); got > keep+minGrowthSlack+100<<10 {
			t.Fatalf("%d bytes are retained", got)
		}
	}
	if p.Marks().LogStart == 0 {
		t.Error("nothing was trimmed")
	}
}

// TestClockJumps: an hour forwards or backwards moves what retention by time goes by, and nothing else; it never removes
// what is younger than the limit by the clock that it is given, and never brings anything back.
func TestClockJumps(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(t, s, 1)
	p.SetConfig(Config{RetentionMs: (2 * time.Hour).Milliseconds()})
	now := time.UnixMilli(1_700_000_000_000)
	for i := range 10 { // one batch for each half hour that ends now
		appendAll(t, s, p, batchOf(1000, now.Add(time.Duration(i-9)*30*time.Minute).UnixMilli()))
	}
	for _, c := range []struct {
		clock time.Duration
		want  int64
	}{{-time.Hour, 3}, {0, 5}, {-time.Hour, 5}, {time.Hour, 7}, {0, 7}, {365 * 24 * time.Hour, 9}} {
		if got := retain(t, s, p, now.Add(c.clock)); got != c.want {
			t.Errorf("clock at %v: the log starts at %d, want %d", c.clock, got, c.want)
		}
	}
	appendAll(t, s, p, batchOf(1000, now.Add(-time.Hour).UnixMilli()))
	if m := p.Marks(); m.HighWatermark != 11 || m.LogStart != 9 {
		t.Errorf("%+v after the clock went back", m)
	}
}
