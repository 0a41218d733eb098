package sink_test

import (
	"context"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// A topic that a sink leaves out for a while and reads again misses nothing: what was written meanwhile is applied.
func TestTopicThatWasLeftOutIsCaughtUp(t *testing.T) {
	l := sinktest.NewLog(t, "shop")
	m := sinktest.NewMemory()
	id := sinktest.Col("id", "integer", event.KindInt32, 1)
	one, two := l.NewTable(t, "public", "one", 1, id), l.NewTable(t, "public", "two", 1, id)
	write := func(key string) {
		tx := l.Begin(t)
		tx.Change(one, event.OpCreate, nil, event.Row{sinktest.Text(key)})
		tx.Change(two, event.OpCreate, nil, event.Row{sinktest.Text(key)})
		l.Write(t, true, tx)
	}
	run := func(topics []string, rowsOne, rowsTwo int) {
		t.Helper()
		p := sink.NewProperties(nil)
		r := sink.NewRunner(p.Settings("w", "test", topics), m.Target("w"), l.Deps(nil, ""))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		for begun := time.Now(); len(m.Rows("public.one")) < rowsOne || len(m.Rows("public.two")) < rowsTwo; time.Sleep(5 * time.Millisecond) {
			if time.Since(begun) > 15*time.Second {
				t.Errorf("with %v: %d and %d rows, want %d and %d; %+v", topics, len(m.Rows("public.one")), len(m.Rows("public.two")), rowsOne, rowsTwo, r.Status())
				break
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	both := []string{"shop.public.*"}
	write("1")
	run(both, 1, 1)
	write("2")
	run([]string{"shop.public.one"}, 2, 1)
	write("3")
	run(both, 3, 3)
}
