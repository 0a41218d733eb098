package sinktest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// stopsAt checks that the sink stops at a record, that nothing of its transaction is applied and all before it is, that it
// stops there again, and that another sink goes on.
func stopsAt(t *testing.T, h Harness, l *Log, s *Source, topic string, reason string) {
	t.Helper()
	for range 2 {
		r := run(t, l, h.Target("w"), "w", "")
		select {
		case err := <-r.done:
			r.done <- err
			if err == nil {
				t.Fatal("the sink stopped without an error")
			}
		case <-time.After(patience):
			t.Fatalf("the sink does not stop: %+v", r.sink.Status())
		}
		st := r.sink.Status()
		if st.State != sink.StateFailed || st.Poison == nil || st.Poison.Topic != topic || !strings.Contains(st.Poison.Reason, reason) {
			t.Fatalf("status %+v, poison %+v; want topic %s and a reason with %q", st, st.Poison, topic, reason)
		}
		if d := differs(h, s); d != "" {
			t.Fatalf("what came before the record is not all there, or some of its transaction is: %s", d)
		}
	}
	// The Source's tables are fine for another sink that does not read the spoilt one.
	other := run(t, l, h.Target("other"), "other", "", s.Accounts.Topic)
	await(t, "another sink to go on", func() bool { return other.sink.Status().Events > 0 })
}

// spoil writes a transaction with changes to two tables of which the last cannot be applied, and good ones around it.
func spoil(t *testing.T, l *Log, s *Source, how func(tx *Tx, tab *Table)) *Table {
	t.Helper()
	rng := random(t)
	s.Work(t, rng, 10)
	bad := l.NewTable(t, "public", "bad", 1, Col("id", "integer", event.KindInt32, 1), Col("n", "integer", event.KindInt32, 0))
	tx := l.Begin(t)
	tx.Change(s.Customers, event.OpCreate, nil, event.Row{Text("999999"), Text("half@example.org")})
	tx.Change(bad, event.OpCreate, nil, event.Row{Text("1"), Text("1")})
	how(tx, bad)
	l.Write(t, true, tx)
	after := l.Begin(t)
	after.Change(s.Customers, event.OpCreate, nil, event.Row{Text("999998"), Text("later@example.org")})
	l.Write(t, true, after)
	return bad
}

func testPoisonValue(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 3)
	bad := spoil(t, l, s, func(tx *Tx, _ *Table) { tx.Spoil(`{"op":"c","after":{"id":1,"n":"not a number"}}`) })
	stopsAt(t, h, l, s, bad.Topic, "")
}

func testPoisonVersion(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 3)
	bad := spoil(t, l, s, func(tx *Tx, tab *Table) {
		pos := event.Position{Commit: tx.Commit, Order: 2, CollectionOrder: 1, Schema: 4711}
		tx.records[len(tx.records)-1].Headers = []kgo.RecordHeader{{Key: event.PositionHeader, Value: pos.Append(nil)}}
		_ = tab
	})
	stopsAt(t, h, l, s, bad.Topic, "0000000000001267")
}

func testPoisonEnd(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 3)
	rng := random(t)
	s.Work(t, rng, 10)
	tx := l.Begin(t)
	tx.Raw(&kgo.Record{Topic: "shop.transaction", Value: []byte("no JSON")})
	l.Write(t, true, tx)
	stopsAt(t, h, l, s, "shop.transaction", "transaction record")
}

// Invariant 6: an update with absent columns of a row that the target does not have cannot be applied.
func testAbsentWithoutRow(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 3)
	rng := random(t)
	s.Work(t, rng, 10)
	tx := l.Begin(t)
	tx.Change(s.Customers, event.OpCreate, nil, event.Row{Text("999999"), Text("half@example.org")})
	tx.Change(s.Orders, event.OpUpdate, nil, event.Row{Text("888888"), Text("1"), Absent(), Text("s")})
	l.Write(t, true, tx)
	stopsAt(t, h, l, s, s.Orders.Topic, "")
}

// Invariant 7: offsets that retention has deleted stop the sink.
func testGap(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 1)
	rng := random(t)
	s.Work(t, rng, 10)
	r := run(t, l, h.Target("w"), "w", "")
	awaitEqual(t, h, s)
	r.halt(t)
	held := s.Rows(s.Accounts)
	s.Work(t, rng, 10)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ends, err := l.Admin.ListEndOffsets(ctx, s.Accounts.Topic)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Admin.DeleteRecords(ctx, ends.Offsets()); err != nil {
		t.Fatalf("delete records: %v", err)
	}
	again := run(t, l, h.Target("w"), "w", "")
	select {
	case err := <-again.done:
		again.done <- err
		if err == nil || errors.Is(err, context.Canceled) {
			t.Fatalf("run: %v", err)
		}
	case <-time.After(patience):
		t.Fatalf("the sink does not stop: %+v", again.sink.Status())
	}
	if p := again.sink.Status().Poison; p == nil || p.Topic != s.Accounts.Topic || !strings.Contains(p.Reason, "retention") {
		t.Fatalf("poison %+v", p)
	}
	if got := h.Rows("public.accounts"); !slices.Equal(got, held) {
		t.Errorf("the target changed: %v", got)
	}
}
