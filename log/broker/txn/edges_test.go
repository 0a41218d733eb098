package txn

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// The coordinator is killed between any two steps of a transaction: what was answered stays true, what was not answered
// can be asked again, and every partition gets one decision.
func TestCoordinatorIsKilledAtEveryEdge(t *testing.T) {
	tp := journal.TopicPartition{Topic: "t", Partition: 0}
	for _, version := range []int16{V1, V2} {
		for _, commit := range []bool{true, false} {
			next := Producer{0, 0}
			if version == V2 {
				next.Epoch = 1
			}
			decided := map[bool]State{true: CompleteCommit, false: CompleteAbort}[commit]
			for edge, tt := range map[string]struct {
				kill func(t *testing.T, w *world, p Producer)
				want State // after the kill
				open bool  // the transaction goes on
			}{
				"before the partition is durable": {func(t *testing.T, w *world, p Producer) {
					w.l.Hold()
					w.c.Add("id", p, []journal.TopicPartition{tp}, version, func(int16) {})
					w.settle()
				}, Empty, false},
				"while it is open": {func(t *testing.T, w *world, p Producer) {
					code, ok := w.addAs("id", p, version, tp)
					must(t, code, ok)
				}, Ongoing, true},
				"before the decision is durable": {func(t *testing.T, w *world, p Producer) {
					code, ok := w.addAs("id", p, version, tp)
					must(t, code, ok)
					w.l.Hold()
					w.c.End("id", p, commit, version, func(int16, Producer) {})
					w.settle()
				}, Ongoing, true},
				"before its markers": {func(t *testing.T, w *world, p Producer) {
					code, ok := w.addAs("id", p, version, tp)
					must(t, code, ok)
					w.parts.set(true, nil)
					res, ok := w.endAs("id", p, commit, version)
					must(t, res.code, ok)
				}, decided, false},
				"between its markers": {func(t *testing.T, w *world, p Producer) {
					code, ok := w.addAs("id", p, version, tp, journal.TopicPartition{Topic: "t", Partition: 1})
					must(t, code, ok)
					w.parts.set(true, nil)
					res, ok := w.endAs("id", p, commit, version)
					must(t, res.code, ok)
					w.parts.one()
					w.settle()
				}, decided, false},
				"before the completion is durable": {func(t *testing.T, w *world, p Producer) {
					code, ok := w.addAs("id", p, version, tp)
					must(t, code, ok)
					w.parts.set(true, nil)
					res, ok := w.endAs("id", p, commit, version)
					must(t, res.code, ok)
					w.l.Hold()
					w.parts.set(false, nil)
					w.settle()
				}, decided, false},
				"after it": {func(t *testing.T, w *world, p Producer) {
					code, ok := w.addAs("id", p, version, tp)
					must(t, code, ok)
					res, ok := w.endAs("id", p, commit, version)
					must(t, res.code, ok)
				}, decided, false},
			} {
				t.Run(fmt.Sprintf("version %d commit %v/%s", max(1, version), commit, edge), func(t *testing.T) {
					w := newWorld()
					defer func() { w.stop() }()
					a, ok := w.init("id", nil, time.Minute)
					must(t, a.code, ok)
					tt.kill(t, w, a.p)
					w.crash()
					w.settle()
					if d := w.describe("id"); d.State != tt.want || (len(d.Partitions) > 0) != tt.open {
						t.Fatalf("%+v, want %v", d, tt.want)
					}
					if tt.want == Empty {
						if n := len(w.parts.at(tp)); n != 0 {
							t.Fatalf("%d markers", n)
						}
						return
					}
					// The client asks again, or for the first time.
					res, ok := w.endAs("id", a.p, commit, version)
					must(t, res.code, ok)
					if version == V2 && res.p != next {
						t.Fatalf("it goes on with %+v, not %+v", res.p, next)
					}
					w.settle()
					got := w.parts.at(tp)
					if len(got) == 0 {
						t.Fatal("no marker")
					}
					for _, m := range got {
						if m.Commit != commit || m.ProducerEpoch != next.Epoch {
							t.Fatalf("%+v", m)
						}
					}
					// Of two results only one is ever told.
					if res, ok := w.endAs("id", a.p, !commit, version); !ok || res.code != kerr.InvalidTxnState.Code {
						t.Fatalf("%+v, %v", res, ok)
					}
					code, ok := w.addAs("id", next, version, tp)
					must(t, code, ok)
				})
			}
		}
	}
}

// one writes the first marker that was held back.
func (p *partitions) one() {
	p.mu.Lock()
	defer p.mu.Unlock()
	write := p.held[0]
	p.held = p.held[1:]
	write()
}

// An epoch that could not be written is not spent: a log that refuses for long does not use them up (KAFKA-9666).
func TestRefusedAppendsSpendNoEpochs(t *testing.T) {
	w := newWorld()
	defer func() { w.stop() }()
	a, ok := w.init("id", nil, time.Minute)
	must(t, a.code, ok)
	code, ok := w.add("id", a.p, journal.TopicPartition{Topic: "t", Partition: 0})
	must(t, code, ok)
	w.l.Refuse(errors.New("the disk is full"))
	for range 20 {
		ch := make(chan int16, 1)
		w.c.End("id", a.p, true, V2, func(code int16, _ Producer) { ch <- code })
		if code := <-ch; code == 0 {
			t.Fatal("a refused decision was acknowledged")
		}
	}
	w.l.Refuse(nil)
	for end := time.Now().Add(10 * time.Second); w.c.Serving("") != 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	res, ok := w.endAs("id", a.p, true, V2)
	must(t, res.code, ok)
	if res.p != (Producer{a.p.ID, a.p.Epoch + 1}) {
		t.Fatalf("%+v", res.p)
	}
}

// The end under the last epoch gives a producer id that was never used, and tells it again.
func TestEndGivesTheNextProducerID(t *testing.T) {
	w := newWorld()
	defer func() { w.stop() }()
	a, ok := w.init("id", nil, time.Minute)
	must(t, a.code, ok)
	// Epochs are spent by empty transactions.
	p := a.p
	for p.ID == a.p.ID {
		if p.Epoch == lastEpoch {
			code, ok := w.add("id", p, journal.TopicPartition{Topic: "t", Partition: 0})
			must(t, code, ok)
		}
		ch := make(chan claimed, 1)
		w.c.End("id", p, false, V2, func(code int16, next Producer) { ch <- claimed{code, next} })
		res := <-ch
		if res.code != 0 || res.p == p || res.p.Epoch > lastEpoch {
			t.Fatalf("%+v after %+v", res, p)
		}
		p = res.p
	}
	if p.Epoch != 0 {
		t.Fatalf("%+v", p)
	}
	w.crash()
	res, ok := w.endAs("id", Producer{a.p.ID, lastEpoch}, false, V2)
	must(t, res.code, ok)
	if res.p != p {
		t.Fatalf("told again: %+v, not %+v", res.p, p)
	}
	if m := w.parts.at(journal.TopicPartition{Topic: "t", Partition: 0}); len(m) == 0 || m[0].ProducerID != a.p.ID {
		t.Fatalf("%+v", m)
	}
	code, ok := w.add("id", p, journal.TopicPartition{Topic: "t", Partition: 0})
	must(t, code, ok)
}
