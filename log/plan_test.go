package log

import (
	"math"
	"testing"
	"time"
)

func TestWhenCompactionIsDue(t *testing.T) {
	now := time.UnixMilli(100_000_000)
	old := now.UnixMilli() - segmentAge.Milliseconds()
	for _, c := range []struct {
		name string
		dirt dirt
		cfg  Config
		want string
	}{
		{"nothing is dirty", dirt{compacted: 100}, Config{}, ""},
		{"too little of it is dirty", dirt{compacted: 100 << 20, dirty: 40 << 20, oldest: old}, Config{MinDirtyRatio: 0.5}, ""},
		{"enough is dirty", dirt{compacted: 10 << 20, dirty: 10 << 20, oldest: now.UnixMilli()}, Config{MinDirtyRatio: 0.5},
			"min.cleanable.dirty.ratio is reached"},
		{"the segment is not full", dirt{dirty: segmentBytes - 1, oldest: now.UnixMilli()}, Config{SegmentBytes: 1 << 30, SegmentMs: 1 << 40}, ""},
		{"the segment is full", dirt{dirty: segmentBytes, oldest: now.UnixMilli()}, Config{SegmentBytes: 1 << 30, SegmentMs: 1 << 40},
			"min.cleanable.dirty.ratio is reached"},
		{"a small segment is full", dirt{dirty: 10, oldest: now.UnixMilli()}, Config{SegmentBytes: 10}, "min.cleanable.dirty.ratio is reached"},
		{"the segment is old", dirt{dirty: 1, oldest: old}, Config{}, "min.cleanable.dirty.ratio is reached"},
		{"a record is too old", dirt{compacted: 100, dirty: 1, oldest: now.UnixMilli() - 50}, Config{MinDirtyRatio: 1, MaxCompactionLagMs: 50},
			"a record is older than max.compaction.lag.ms"},
		{"a record is not too old", dirt{compacted: 100, dirty: 1, oldest: now.UnixMilli() - 49}, Config{MinDirtyRatio: 1, MaxCompactionLagMs: 50}, ""},
		{"a timestamp is the smallest number", dirt{compacted: 100, dirty: 1, oldest: math.MinInt64}, Config{MinDirtyRatio: 1, MaxCompactionLagMs: 50},
			"a record is older than max.compaction.lag.ms"},
		{"a small segment is older than any number of ms", dirt{dirty: 1, oldest: math.MinInt64}, Config{}, "min.cleanable.dirty.ratio is reached"},
		{"a timestamp is the largest number", dirt{dirty: 1, oldest: math.MaxInt64}, Config{MaxCompactionLagMs: 50}, ""},
		{"tombstones are worth a round", dirt{compacted: 100, expired: 50}, Config{MinDirtyRatio: 0.5}, "tombstones have expired"},
		{"tombstones are few", dirt{compacted: 100, expired: 49}, Config{MinDirtyRatio: 0.5}, ""},
	} {
		if got := c.dirt.due(&c.cfg, now); got != c.want {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
	}
}

func TestThrottleKeepsToItsBounds(t *testing.T) {
	for _, c := range []struct {
		throttle throttle
		bytes    int64
		busy     time.Duration
		want     time.Duration
	}{
		{throttle{rate: 1 << 20, share: 1}, 1 << 20, 200 * time.Millisecond, 800 * time.Millisecond},
		{throttle{rate: 1 << 20, share: 1}, 1 << 18, time.Second, 0},
		{throttle{rate: 1 << 40, share: 0.5}, 1, 100 * time.Millisecond, 100 * time.Millisecond},
		{throttle{rate: 1 << 40, share: 0.25}, 1, 100 * time.Millisecond, 300 * time.Millisecond},
		{throttle{rate: 1 << 20, share: 0.5}, 1 << 20, 100 * time.Millisecond, 900 * time.Millisecond},
		{throttle{}, 1 << 30, time.Second, 0},
	} {
		if got := c.throttle.pause(c.bytes, c.busy); got != c.want {
			t.Errorf("%+v: %v after %d bytes in %v, expected %v", c.throttle, got, c.bytes, c.busy, c.want)
		}
	}
}

func TestSmallRunsAreJoined(t *testing.T) {
	for _, c := range []struct {
		bytes, following int64
		want             bool
	}{{100, 0, false}, {100, 25, true}, {100, 24, false}, {runBytes / 2, runBytes, false}} {
		if got := (&run{bytes: c.bytes}).joins(c.following); got != c.want {
			t.Errorf("%d bytes in front of %d: %v", c.bytes, c.following, got)
		}
	}
}

func TestRunKeysSortByLastOffset(t *testing.T) {
	m := runMeta{last: 300, base: 250, epoch: 7, clean: 9, maxTs: -1, size: 88}
	run, got, err := parseRunKey(runKey(5, 1<<40, &m))
	if err != nil || run != 1<<40 || got != m {
		t.Fatalf("%d %+v %v", run, got, err)
	}
	if string(runSeekKey(5, 1<<40, 300)) > string(runKey(5, 1<<40, &m)) || string(runSeekKey(5, 1<<40, 301)) < string(runKey(5, 1<<40, &m)) {
		t.Error("a seek for an offset does not find the batch that ends there")
	}
}

// FuzzManifest: a damaged manifest is an error, never a panic, and what decodes has one encoding.
func FuzzManifest(f *testing.F) {
	m := newManifest(9, 77, []run{{id: 3, base: 0, next: 10, bytes: 5, batches: 2, maxTs: 4}, {id: 8, base: 12, next: 20, mortal: 3, clean: 99}})
	f.Add(m.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeManifest(b)
		if err != nil {
			return
		}
		again, err := decodeManifest(m.encode())
		if err != nil || string(again.encode()) != string(m.encode()) {
			t.Fatalf("%+v encodes to what is not itself: %v", m, err)
		}
	})
}
