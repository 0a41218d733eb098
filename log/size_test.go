package log

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log/record"
)

// TestRetentionGivesDiskBack pushes many times what is retained through one partition, as fast as it takes them; nobody calls
// Retain. Set ROWTRAIL_LOG_FULL=1 for the full
// figures: 2 GB through 128 MiB.
func TestRetentionGivesDiskBack(t *testing.T) {
	total, keep, bound := int64(512<<20), int64(32<<20), int64(300<<20)
	if os.Getenv("ROWTRAIL_LOG_FULL") != "" {
		total, keep, bound = 2<<30, 128<<20, 800<<20
	}
	for _, size := range []int{300, 16 << 10, 1 << 20} {
		t.Run(fmt.Sprintf("batch=%d", size), func(t *testing.T) {
			if size == 300 {
				total /= 8 // many small batches cost time, not space
			}
			dir := t.TempDir()
			s := mustOpen(t, dir, Options{})
			p := mustPartition(t, s, 1)
			p.SetConfig(Config{RetentionBytes: keep})
			var peak, peakApparent int64
			start := time.Now()
			perCommit := min(max((1<<20)/size, 1), 1000)
			batches := make([][]byte, perCommit)
			step := int64(0)
			for done := int64(0); done < total; {
				for i := range batches {
					batches[i] = batchOf(size, time.Now().UnixMilli())
					done += int64(len(batches[i]))
				}
				appendAll(t, s, p, batches...)
				if done/(8<<20) > step {
					step = done / (8 << 20)
					b, a := diskUse(t, dir)
					peak, peakApparent = max(peak, b), max(peakApparent, a)
				}
			}
			took := time.Since(start)
			end, _ := diskUse(t, dir)
			t.Logf("%d MB in %v (%.0f MB/s), retained %d MB; disk: peak %d MB (file sizes %d MB), at the end %d MB",
				total>>20, took.Round(time.Millisecond), float64(total)/1e6/took.Seconds(), p.Bytes()>>20, peak>>20, peakApparent>>20, end>>20)
			if peak > bound || peakApparent > bound+256<<20 {
				t.Errorf("disk use peaks at %d MB, bound is %d MB", peak>>20, bound>>20)
			}
			if size > 300 && s.Stats().Collections == 0 {
				t.Error("no value-log file was collected")
			}
			for range 16 {
				retain(t, s, p, time.Now())
			}
			if p.Bytes() > keep+int64(size)*2 {
				t.Errorf("%d bytes are retained, configured are %d", p.Bytes(), keep)
			}
			checkNothingCameBack(t, s, p)
			// Whatever garbage collection moved, what is retained reads as it was written.
			for range 2 {
				checkRetained(t, p)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = mustOpen(t, dir, Options{})
				p = mustPartition(t, s, 1)
				replay(p)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if size == 300 {
				total *= 8
			}
		})
	}
}

// checkNothingCameBack: no entry that was deleted is in the database again, whatever garbage collection wrote anew.
func checkNothingCameBack(t *testing.T, s *Store, p *Partition) {
	t.Helper()
	s.sweep()
	for s.hasRiders() {
		if err := s.ride(); err != nil {
			t.Fatal(err)
		}
	}
	p.mu.RLock()
	from := p.retire.from
	p.mu.RUnlock()
	if err := p.scan(0, func(m *entryMeta) bool {
		if m.index < from {
			t.Errorf("entry %d is there, all below %d were deleted", m.index, from)
			return false
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
}

func checkRetained(t *testing.T, p *Partition) {
	t.Helper()
	p.mu.Lock()
	p.recent.truncate(0) // read from disk
	p.mu.Unlock()
	m := p.Marks()
	next := m.LogStart
	for next < m.HighWatermark {
		res, err := p.Read(next, 8<<20, true, ReadUncommitted)
		if err != nil || len(res.Batches) == 0 {
			t.Fatalf("read %d of %+v: %d bytes, %v", next, m, len(res.Batches), err)
		}
		for rest := res.Batches; len(rest) > 0; {
			var b []byte
			if b, rest, err = record.Next(rest); err != nil {
				t.Fatal(err)
			}
			h, err := record.Validate(b, record.Checks{})
			if err != nil || h.BaseOffset != next {
				t.Fatalf("offset %d, expected %d: %v", h.BaseOffset, next, err)
			}
			next = h.LastOffset() + 1
		}
	}
}

// TestOpenIsFast measures opening a log whose process was killed, and then the same log closed in order.
func TestOpenIsFast(t *testing.T) {
	total := int64(64 << 20)
	if os.Getenv("ROWTRAIL_LOG_FULL") != "" {
		total = 1 << 30
	}
	for _, size := range []int{300, 16 << 10} {
		t.Run(fmt.Sprintf("batch=%d", size), func(t *testing.T) {
			dir := t.TempDir()
			hwm, mbps := fillAndKill(t, dir, size, total)
			for _, how := range []string{"killed", "closed"} {
				start := time.Now()
				s := mustOpen(t, dir, Options{})
				p := mustPartition(t, s, 1)
				opened := time.Since(start)
				tail := p.LastIndex() - p.AppliedIndex()
				replay(p)
				took := time.Since(start)
				if got := p.Marks().HighWatermark; got != hwm {
					t.Errorf("high watermark %d, expected %d", got, hwm)
				}
				t.Logf("%s: %d MB of %d-byte batches (written at %d MB/s): open %v, ready after %d more entries at %v",
					how, total>>20, size, mbps, opened.Round(time.Millisecond), tail, took.Round(time.Millisecond))
				if took > raceFactor*2*time.Second {
					t.Errorf("opening took %v", took)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// fillAndKill lets a child write a log and kills it without a chance to close it.
func fillAndKill(t *testing.T, dir string, size int, total int64) (hwm, mbps int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), killDirEnv+"="+dir, fmt.Sprintf("%s=%d %d", killFillEnv, size, total))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fscan(out, &hwm, &mbps)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	return hwm, mbps
}
