package sinktest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/sink"
)

// The log was deleted and made anew while the target kept its offsets: nothing of the new log is applied (invariant 7).
func testOtherLog(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 2)
	rng := random(t)
	s.Work(t, rng, 20)
	r := run(t, l, h.Target("w"), "w", "")
	awaitEqual(t, h, s)
	r.halt(t)
	before := make(map[string][]string)
	for _, tab := range s.Tables() {
		before[tab.Topic] = h.Rows(tab.Schema.Collection())
	}

	anew := NewLog(t, "shop")
	other := NewSource(t, anew, 2)
	other.Work(t, rng, 80) // longer than the first, so that its offsets exist
	again := run(t, anew, h.Target("w"), "w", "")
	select {
	case err := <-again.done:
		again.done <- err
		if err == nil || !strings.Contains(err.Error(), "are of another log") || !strings.Contains(err.Error(), "a sink of a new name") {
			t.Errorf("stopped with %v", err)
		}
	case <-time.After(patience):
		t.Fatalf("the sink reads another log: %+v", again.sink.Status())
	}
	if st := again.sink.Status(); st.State != sink.StateFailed || st.Poison == nil || st.Events != 0 {
		t.Errorf("status %+v", st)
	}
	for _, tab := range s.Tables() {
		if got := h.Rows(tab.Schema.Collection()); !slices.Equal(got, before[tab.Topic]) {
			t.Errorf("%s: rows were changed", tab.Topic)
		}
	}
	exactlyOnce(t, h, s)

	run(t, l, h.Target("w"), "w", "") // the first log is back
	s.Work(t, rng, 5)
	awaitEqual(t, h, s)
}

// A topic is deleted and made anew under a running sink.
func testTopicMadeAnew(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 2)
	r := run(t, l, h.Target("w"), "w", "")
	awaitEqual(t, h, s)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := l.Admin.DeleteTopics(ctx, s.Orders.Topic); err != nil {
		t.Fatalf("delete topic: %v", err)
	}
	l.CreateTopic(t, s.Orders.Topic, 2)
	select {
	case err := <-r.done:
		r.done <- err
		if err == nil || !strings.Contains(err.Error(), "are of another log") {
			t.Errorf("stopped with %v", err)
		}
	case <-time.After(patience):
		t.Fatalf("the sink reads another topic: %+v", r.sink.Status())
	}
}

// Offsets that were stored without their log learn it, also those of partitions in which nothing happens.
func testOffsetsLearnTheirLog(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 2)
	rng := random(t)
	s.Work(t, rng, 20)
	old := &forgetful{h.Target("w")}
	r := run(t, l, old, "w", "")
	awaitEqual(t, h, s)
	r.halt(t)
	if known, unknown := old.look(t); known != 0 || unknown == 0 {
		t.Fatalf("%d offsets know their log, %d do not", known, unknown)
	}
	r = run(t, l, h.Target("w"), "w", "")
	await(t, "the offsets of data topics to be written", func() bool { return r.sink.Status().State == sink.StateStreaming })
	s.Work(t, rng, 3)
	awaitEqual(t, h, s)
	r.halt(t)
	if known, unknown := old.look(t); known == 0 || unknown != 0 {
		t.Errorf("%d offsets know their log, %d do not", known, unknown)
	}
	exactlyOnce(t, h, s)
}

// forgetful stores offsets as a release did that knew nothing of logs.
type forgetful struct {
	sink.Target
}

func (f *forgetful) Open(ctx context.Context) (sink.Session, error) {
	s, err := f.Target.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &forgetfulSession{s}, nil
}

// look counts the offsets that the target has.
func (f *forgetful) look(t testing.TB) (known, unknown int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := f.Target.Open(ctx)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer s.Close()
	for _, o := range s.Offsets() {
		if o.Log == "" {
			unknown++
		} else {
			known++
		}
	}
	return known, unknown
}

type forgetfulSession struct{ sink.Session }

func (s *forgetfulSession) Commit(ctx context.Context, offsets []sink.Offset) error {
	offsets = slices.Clone(offsets)
	for i := range offsets {
		offsets[i].Log = ""
	}
	return s.Session.Commit(ctx, offsets)
}
