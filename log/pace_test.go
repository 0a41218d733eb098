package log

import (
	"testing"
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

// TestCommitIsSlowedByGarbage: a commit waits while there is too much garbage, no longer than told, and goes on as soon as a
// measurement finds less.
func TestCommitIsSlowedByGarbage(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(t, s, 1)
	appendAll(t, s, p, batchOf(1<<20, 0)) // the keeper measures this, so it is there before
	s.keeper.pace.retired.Add(4 * garbageHard)
	start := time.Now()
	appendAll(t, s, p, batchOf(1<<20, 0))
	if took := time.Since(start); took < 100*time.Millisecond || took > 3*time.Second {
		t.Errorf("a commit of 1 MiB took %v", took)
	}
	if s.Stats().Slowed < 100*time.Millisecond {
		t.Errorf("stats count %v", s.Stats().Slowed)
	}
	s.keeper.pace.retired.Store(0)
	start = time.Now()
	appendAll(t, s, p, batchOf(1<<20, 0))
	if took := time.Since(start); took > 90*time.Millisecond*raceFactor {
		t.Errorf("without garbage a commit took %v", took)
	}
}

// TestGrowthTrims: size retention does not wait for anybody to call Retain.
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
		if got := p.Retain(now.Add(c.clock)); got != c.want {
			t.Errorf("clock at %v: the log starts at %d, want %d", c.clock, got, c.want)
		}
	}
	appendAll(t, s, p, batchOf(1000, now.Add(-time.Hour).UnixMilli()))
	if m := p.Marks(); m.HighWatermark != 11 || m.LogStart != 9 {
		t.Errorf("%+v after the clock went back", m)
	}
}
