package sink_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// A connector's topics come into being one after the other. Until all are there its events wait, load rows too, and the
// topics that are its own are not taken for tables of someone else.
func TestEventsWaitForTheConnectorsOwnTopics(t *testing.T) {
	l := sinktest.NewLog(t, "shop")
	tab := l.NewTable(t, "public", "orders", 1, sinktest.Col("id", "integer", event.KindInt32, 1))
	tx := l.Begin(t)
	tx.Load(tab, event.Row{sinktest.Text("1")})
	l.Write(t, true, tx)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	if _, err := l.Admin.DeleteTopics(ctx, "shop.transaction"); err != nil {
		t.Fatal(err)
	}
	m := sinktest.NewMemory()
	r := sink.NewRunner(sink.NewProperties(nil).Settings("w", "test", []string{"shop.*"}), m.Target("w"), l.Deps(nil, "node-1"))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	reads := func() bool { return slices.Equal(r.Status().Topics, []string{"shop.public.orders"}) }
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end) || !reads() && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if st := r.Status(); st.State == sink.StateFailed || st.State == sink.StateRetrying || st.Events > 0 {
			t.Fatalf("the sink does not wait: %+v", st)
		}
	}
	if !reads() {
		t.Fatalf("the sink does not read what it should: %+v", r.Status())
	}
	l.CreateTopic(t, "shop.transaction", 1)
	tx = l.Begin(t)
	tx.Change(tab, event.OpCreate, nil, event.Row{sinktest.Text("2")})
	l.Write(t, true, tx)
	for !slices.Equal(m.Rows("public.orders"), []string{"1", "2"}) {
		if ctx.Err() != nil || r.Status().State == sink.StateFailed {
			t.Fatalf("rows %q, %+v", m.Rows("public.orders"), r.Status())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestSelectionLeavesOut(t *testing.T) {
	s := sink.Selection{"!shop.public.audit*", "shop.public.*", "other.x", "!other.x"}
	for topic, want := range map[string]bool{
		"shop.public.orders": true, "shop.public.audit": false, "shop.public.audit_2": false, "other.x": false, "third": false,
	} {
		if got := s.Wants(topic); got != want {
			t.Errorf("wants %s: %v", topic, got)
		}
	}
	if errs := s.Validate(); len(errs) > 0 {
		t.Error(errs)
	}
	for _, bad := range []sink.Selection{{}, {"!a"}, {"a", "!"}, {"a", "![x"}} {
		if errs := bad.Validate(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "!") {
			t.Errorf("%q: %v", bad, errs)
		}
	}
}

// What a sink leaves out it does not wait for in the transactions that name it.
func TestLeftOutTableIsNotWaitedFor(t *testing.T) {
	l := sinktest.NewLog(t, "shop")
	id := sinktest.Col("id", "integer", event.KindInt32, 1)
	orders, audit := l.NewTable(t, "public", "orders", 1, id), l.NewTable(t, "public", "audit", 1, id)
	tx := l.Begin(t)
	tx.Change(audit, event.OpCreate, nil, event.Row{sinktest.Text("1")})
	tx.Change(orders, event.OpCreate, nil, event.Row{sinktest.Text("2")})
	l.Write(t, true, tx)
	m := sinktest.NewMemory()
	settings := sink.NewProperties(nil).Settings("w", "test", []string{"shop.public.*", "!*.audit"})
	r := sink.NewRunner(settings, m.Target("w"), l.Deps(nil, "node-1"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	for len(m.Rows("public.orders")) == 0 && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if o, a := m.Rows("public.orders"), m.Rows("public.audit"); len(o) != 1 || len(a) != 0 {
		t.Errorf("orders %q, audit %q", o, a)
	}
}
