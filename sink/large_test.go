package sink_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// counting is a target that keeps nothing.
type counting struct {
	order   []uint64 // Order of each event of the current transaction, compacted to the last
	applied int
	commits []int // events at each commit with events
}

func (c *counting) Ping(context.Context) error                 { return nil }
func (c *counting) Open(context.Context) (sink.Session, error) { return c, nil }
func (c *counting) Offsets() []sink.Offset                     { return nil }
func (c *counting) SetCareful(bool)                            {}
func (c *counting) Close()                                     {}

func (c *counting) Apply(_ context.Context, ev *sink.Event) error {
	if n := len(c.order); n > 0 && c.order[n-1]+1 != ev.Position.Order {
		return sink.Permanent(errOrder)
	}
	c.order = append(c.order[:0], ev.Position.Order)
	c.applied++
	return nil
}

func (c *counting) Commit(context.Context, []sink.Offset) error {
	if c.applied > 0 && (len(c.commits) == 0 || c.commits[len(c.commits)-1] != c.applied) {
		c.commits = append(c.commits, c.applied)
	}
	return nil
}

type orderError string

func (e orderError) Error() string { return string(e) }

const errOrder = orderError("events are out of order")

// A transaction far beyond the buffers passes in source order and in one target transaction, although partitions run ahead
// of the merge: first all rows of one partition, then all of another, twice over.
func TestTransactionLargerThanBuffers(t *testing.T) {
	l := sinktest.NewLog(t, "shop")
	tab := l.NewTable(t, "public", "big", 2, sinktest.Col("id", "integer", event.KindInt32, 1), sinktest.Col("v", "text", event.KindText, 0))
	ids := keysOf(t, l, tab)
	pad := strings.Repeat("x", 2000)
	const stretch = 9_000 // 20 MB, more than a partition's share of the buffers
	tx := l.Begin(t)
	for range 2 {
		for p := range ids {
			for i := range stretch {
				tx.Change(tab, event.OpUpdate, nil, event.Row{sinktest.Text(ids[p][i%len(ids[p])]), sinktest.Text(pad)})
			}
		}
	}
	l.Write(t, true, tx)
	want := tx.Len()
	c := &counting{}
	p := sink.NewProperties(map[string]string{"batch.max.rows": "100"})
	r := sink.NewRunner(p.Settings("big", "test", []string{"shop.public.big"}), c, l.Deps(nil, ""))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	deadline := time.Now().Add(60 * time.Second)
	for r.Status().Events < uint64(want) && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	st := r.Status()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if st.Events != uint64(want) || st.Transactions != 1 || len(c.commits) != 1 {
		t.Fatalf("status %+v, commits at %v; want %d events in 1 commit", st, c.commits, want)
	}
}

// keysOf finds ids of each of two partitions.
func keysOf(t *testing.T, l *sinktest.Log, tab *sinktest.Table) (ids [2][]string) {
	t.Helper()
	for i := 0; len(ids[0]) < 5 || len(ids[1]) < 5; i++ {
		id := strconv.Itoa(i)
		p := l.PartitionOf(t, tab, event.Row{sinktest.Text(id), sinktest.Null()})
		ids[p] = append(ids[p], id)
	}
	return ids
}
