package connectors

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A topic holds records once a transaction with some has committed; what aborted ones left does not count.
func TestHoldsRecords(t *testing.T) {
	_, deps := newCluster(t)
	h := open(t, deps, "c").run()
	h.ensure("p.data")
	holds := func(want bool) {
		t.Helper()
		got, err := h.w.HoldsRecords(context.Background(), "p.data")
		if err != nil || got != want {
			t.Fatalf("holds records: %v, %v; want %v", got, err, want)
		}
	}
	holds(false)
	aborter, err := kgo.NewClient(append(append([]kgo.Opt{}, deps.Client...), kgo.TransactionalID("aborter"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer aborter.Close()
	for range 3 {
		if err := aborter.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := aborter.ProduceSync(context.Background(), &kgo.Record{Topic: "p.data", Value: []byte("aborted")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := aborter.EndTransaction(context.Background(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
	}
	holds(false)
	h.send(1, 1)
	h.committed(1)
	holds(true)
}
