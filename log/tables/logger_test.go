package tables

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestLoggerTellsErrorsOfAnOpenDatabase(t *testing.T) {
	var out bytes.Buffer
	l := NewLogger(slog.New(slog.NewTextHandler(&out, nil)), "storage engine of x")
	l.Errorf("open: %s\n", "refused")
	l.Infof("compacting")
	l.Debugf("compacting")
	if out.Len() > 0 {
		t.Fatalf("said %q", out.String())
	}
	l.Warningf("slow %d\n", 1)
	l.Opened()
	l.Errorf("sync %d\n", 2)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `level=WARN msg="storage engine of x" message="slow 1"`) ||
		!strings.Contains(lines[1], `level=ERROR msg="storage engine of x" message="sync 2"`) {
		t.Fatalf("said %q", lines)
	}
}
