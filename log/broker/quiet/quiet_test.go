package quiet

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// written are the lines that pass, without their times.
func written(opts Options) (*slog.Logger, *Handler, *bytes.Buffer) {
	var out bytes.Buffer
	h := New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}), opts)
	return slog.New(h), h, &out
}

// A flood costs its burst and one line a window, which says how many it stands for; another kind is not touched by it.
func TestFloodIsSummed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, h, out := written(Options{Window: 10 * time.Second, Burst: 2, Bursts: map[string]int{"rare": 1}})
		for i := range 1000 {
			logger.Warn("closed", Kind, "malformed", "n", i)
		}
		logger.With(Kind, "tls").Warn("closed")
		logger.Error("closed", Kind, "malformed")
		logger.Warn("rare", Kind, "a")
		logger.Warn("rare", Kind, "b")
		want := "level=WARN msg=closed kind=malformed n=0\nlevel=WARN msg=closed kind=malformed n=1\n" +
			"level=WARN msg=closed kind=tls\nlevel=ERROR msg=closed kind=malformed\nlevel=WARN msg=rare kind=a\n"
		if out.String() != want {
			t.Fatalf("at once:\n%s", out)
		}
		out.Reset()
		time.Sleep(10*time.Second + 1)
		synctest.Wait()
		for _, line := range []string{"level=WARN msg=closed kind=malformed n=999 left_out=997\n", "level=WARN msg=rare kind=b\n"} {
			if !strings.Contains(out.String(), line) {
				t.Errorf("after the window:\n%s", out)
			}
		}
		out.Reset()
		for i := range 5 { // the next window
			logger.Warn("closed", Kind, "malformed", "n", i)
		}
		h.Close()
		if n := strings.Count(out.String(), "\n"); n != 3 || !strings.Contains(out.String(), "n=4 left_out=2") {
			t.Errorf("at the end:\n%s", out)
		}
	})
}

// After a quiet while a kind has its burst again.
func TestWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, h, out := written(Options{Window: time.Second, Burst: 1})
		defer h.Close()
		for range 3 {
			logger.Info("x")
			time.Sleep(time.Second)
		}
		if out.String() != strings.Repeat("level=INFO msg=x\n", 3) {
			t.Errorf("%s", out)
		}
	})
}

// Invariant 9: kinds that others make up are one after maxKinds of them.
func TestKindsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, h, out := written(Options{Window: time.Second, Burst: 1})
		for i := range 10 * maxKinds {
			logger.Info("x", Kind, fmt.Sprint(i))
		}
		if n := strings.Count(out.String(), "\n"); n != maxKinds+1 {
			t.Errorf("%d lines", n)
		}
		if n := len(h.state.kinds); n != maxKinds+1 {
			t.Errorf("%d kinds are kept", n)
		}
		h.Close()
		if !strings.Contains(out.String(), fmt.Sprintf("left_out=%d", 9*maxKinds-2)) {
			t.Errorf("the rest is not summed: %s", out.String()[out.Len()-200:])
		}
	})
}
