package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestAStartThatTakesLongSaysWhy: in the log and to who asks; once the node is ready that is over.
func TestAStartThatTakesLongSaysWhy(t *testing.T) {
	var said bytes.Buffer
	d := &Daemon{logger: slog.New(slog.NewTextHandler(&said, nil))}
	d.phase.Store("starting")
	if why := d.NotReady(); len(why) != 1 || why[0] != "starting" {
		t.Errorf("%q", why)
	}
	d.opening.Store("it opens its replicas")
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.sayNotReady(t.Context(), 10*time.Millisecond)
	}()
	time.Sleep(100 * time.Millisecond)
	d.waiting.Store("what the cluster says itself")
	if why := d.NotReady(); len(why) != 1 || why[0] != "starting: what the cluster says itself" {
		t.Errorf("%q", why)
	}
	time.Sleep(50 * time.Millisecond)
	d.phase.Store("")
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("a node that is ready is still talked of")
	}
	if !strings.Contains(said.String(), `msg="not ready yet" waiting_for="starting: it opens its replicas"`) || strings.Contains(said.String(), "itself") {
		t.Errorf("%s", &said)
	}
}
