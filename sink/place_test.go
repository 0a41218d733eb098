package sink_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// late finds only at the end of a transaction which of its records is impossible.
type late struct {
	counting
	first sink.Event
}

func (l *late) Open(context.Context) (sink.Session, error) { return l, nil }

func (l *late) Apply(_ context.Context, ev *sink.Event) error {
	if l.first.Topic == "" {
		l.first = sink.Event{Topic: ev.Topic, Partition: ev.Partition, Offset: ev.Offset}
	}
	return nil
}

func (l *late) Commit(context.Context, []sink.Offset) error {
	if l.first.Topic == "" {
		return nil
	}
	return sink.AtRecord(l.first.Topic, l.first.Partition, l.first.Offset, errors.New("impossible"))
}

// A target that can tell at the end alone which record is impossible is believed.
func TestPlaceOfARecordThatTheTargetNames(t *testing.T) {
	l := sinktest.NewLog(t, "shop")
	tab := l.NewTable(t, "public", "t", 1, sinktest.Col("id", "integer", event.KindInt32, 1))
	tx := l.Begin(t)
	for _, id := range []string{"1", "2", "3"} {
		tx.Change(tab, event.OpCreate, nil, event.Row{sinktest.Text(id)})
	}
	l.Write(t, true, tx)
	r := sink.NewRunner(sink.NewProperties(nil).Settings("w", "test", []string{tab.Topic}), &late{}, l.Deps(nil, ""))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := r.Run(ctx); err == nil {
		t.Fatal("the sink goes on")
	}
	if p := r.Status().Poison; p == nil || p.Topic != tab.Topic || p.Offset != 0 || p.Reason != "impossible" {
		t.Fatalf("poison %+v, want the first record", p)
	}
}
