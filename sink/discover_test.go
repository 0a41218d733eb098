package sink_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// A new topic is found and applied within about a second, whatever the moment at which it comes.
func TestNewTopicIsFoundSoon(t *testing.T) {
	const topics, bound = 4, 2 * time.Second // on average, on a busy machine
	l := sinktest.NewLog(t, "shop")
	m := sinktest.NewMemory()
	id := sinktest.Col("id", "integer", event.KindInt32, 1)
	write := func(name string) {
		tab := l.NewTable(t, "public", name, 1, id)
		tx := l.Begin(t)
		tx.Change(tab, event.OpCreate, nil, event.Row{sinktest.Text("1")})
		l.Write(t, true, tx)
	}
	applied := func(name string) bool { return len(m.Rows("public."+name)) == 1 }
	write("first")
	p := sink.NewProperties(nil)
	deps := l.Deps(nil, "node-1")
	deps.Client = append(deps.Client, kgo.MetadataMinAge(50*time.Millisecond)) // as an in-process client has it
	r := sink.NewRunner(p.Settings("w", "test", []string{"shop.public.*"}), m.Target("w"), deps)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	var total time.Duration
	for i := range topics + 1 {
		name, begin := "first", time.Now()
		if i > 0 {
			name = fmt.Sprintf("late%d", i)
			write(name)
		}
		for !applied(name) {
			if time.Since(begin) > 30*time.Second {
				t.Fatalf("%s is not applied: %+v", name, r.Status())
			}
			time.Sleep(5 * time.Millisecond)
		}
		if i > 0 {
			total += time.Since(begin)
		}
		time.Sleep(time.Duration(i) * 130 * time.Millisecond) // another moment between two looks
	}
	t.Logf("found and applied after %s on average", total/topics)
	if total/topics > bound {
		t.Errorf("found and applied after %s on average, want at most %s", total/topics, bound)
	}
}
