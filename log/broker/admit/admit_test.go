package admit

import (
	"testing"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

func TestGate(t *testing.T) {
	g := New()
	at := journal.TopicPartition{Topic: "t"}
	c := Claim{"id", 7, 1}
	if _, ok := g.Enter(c, at, 3); ok {
		t.Fatal("entered without a pass")
	}
	if p := g.Begin(c, at, 3); g.Has(c, at, 3) {
		t.Fatal("a question is no answer")
	} else if p.Refuse(); len(g.passes) != 0 {
		t.Fatal("what was refused is kept")
	}
	first := g.Begin(c, at, 3)
	if !first.Admit() || !g.Has(c, at, 3) {
		t.Fatal("not admitted")
	}
	for _, other := range []Claim{{"id", 7, 2}, {"other", 7, 1}} {
		if g.Has(other, at, 3) {
			t.Errorf("%+v has the pass of %+v", other, c)
		}
	}
	if g.Has(c, at, 4) {
		t.Error("a pass holds in another leader epoch")
	}
	second, ok := g.Enter(c, at, 3)
	if !ok {
		t.Fatal("the pass does not hold")
	}
	late := g.Begin(Claim{"id", 7, 2}, at, 3) // asks while the marker comes
	closed := 0
	if g.Close(7, at, func() { closed++ }) {
		t.Error("the marker overtakes two batches")
	}
	if g.Has(c, at, 3) || late.Admit() {
		t.Error("somebody entered behind the marker")
	}
	first.Leave()
	if closed != 0 {
		t.Error("the marker did not wait for the second batch")
	}
	second.Leave()
	if closed != 1 || len(g.passes) != 0 {
		t.Errorf("closed %d times, %d passes are left", closed, len(g.passes))
	}
	if !g.Close(7, at, func() { closed++ }) || closed != 1 {
		t.Error("a marker without passes waits")
	}
	if p := g.Begin(c, at, 5); !p.Admit() {
		t.Error("no next transaction")
	} else {
		p.Leave()
	}
	g.Sweep(func(_ journal.TopicPartition, in int32) bool { return in == 5 })
	if !g.Has(c, at, 5) {
		t.Error("swept what is led")
	}
	g.Sweep(func(journal.TopicPartition, int32) bool { return false })
	if len(g.passes) != 0 {
		t.Error("passes into partitions led elsewhere are kept")
	}
	(*Pass)(nil).Leave()
}
