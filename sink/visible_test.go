package sink_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// The partitions of one log transaction become visible one after the other. A row that is there before its table version
// waits for it: that is no record that cannot be applied.
func TestRowVisibleBeforeItsTableVersion(t *testing.T) {
	l := sinktest.NewLog(t, "shop")
	tab := l.NewTable(t, "public", "orders", 1, sinktest.Col("id", "integer", event.KindInt32, 1))
	m := sinktest.NewMemory()
	p := sink.NewProperties(nil)
	r := sink.NewRunner(p.Settings("w", "test", []string{"shop.public.*"}), m.Target("w"), l.Deps(nil, "node-1"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	has := func(rows ...string) func() bool {
		return func() bool { return slices.Equal(m.Rows("public.orders"), rows) }
	}
	within := func(what string, span time.Duration, ok func() bool) bool {
		for deadline := time.Now().Add(span); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) || r.Status().State == sink.StateFailed {
				t.Logf("waiting for %s: %+v", what, r.Status())
				return false
			}
		}
		return true
	}
	tx := l.Begin(t)
	tx.Change(tab, event.OpCreate, nil, event.Row{sinktest.Text("1")})
	l.Write(t, true, tx)
	if !within("the first row", 20*time.Second, has("1")) {
		t.FailNow()
	}

	// An open transaction in the schema topic keeps what is behind it out of sight.
	other, err := kgo.NewClient(kgo.SeedBrokers(l.Seeds()...), kgo.TransactionalID("other"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := other.ProduceSync(ctx, &kgo.Record{Topic: "shop.schema", Key: tab.Schema.TopicKey()}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	wider := l.NewVersion(t, "public", "orders", 1, sinktest.Col("id", "integer", event.KindInt32, 1), sinktest.Col("note", "text", event.KindText, 0))
	tx = l.Begin(t)
	tx.Change(wider, event.OpCreate, nil, event.Row{sinktest.Text("2"), sinktest.Text("n")})
	l.Write(t, true, tx)
	if within("a row without its table version", 2*time.Second, has("1", "2|n")) {
		t.Fatal("the row was applied before its table version could be seen")
	}
	if st := r.Status(); st.State != sink.StateStreaming || st.Poison != nil {
		t.Fatalf("the sink does not wait: %+v", st)
	}
	if err := other.EndTransaction(ctx, kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	if !within("the second row", 20*time.Second, has("1", "2|n")) {
		t.Fatalf("rows: %q", m.Rows("public.orders"))
	}
}
