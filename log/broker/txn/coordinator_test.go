package txn

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/journal/journaltest"
	"github.com/rowtrail/rowtrail/log/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// partitions stands for all data partitions: it keeps the markers that were written.
type partitions struct {
	mu      sync.Mutex
	hold    bool
	fail    error
	held    []func()
	written map[journal.TopicPartition][]record.EndTxn
	begun   map[journal.TopicPartition][]Producer // what ExpectFirst was told
}

func (p *partitions) ExpectFirst(tp journal.TopicPartition, producer Producer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun[tp] = append(p.begun[tp], producer)
}

func (p *partitions) WriteMarker(_ context.Context, tp journal.TopicPartition, m record.EndTxn, done func(error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	write := func() {
		p.written[tp] = append(p.written[tp], m)
		done(nil)
	}
	switch {
	case p.fail != nil:
		done(p.fail)
	case p.hold:
		p.held = append(p.held, write)
	default:
		write()
	}
}

func (p *partitions) set(hold bool, fail error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold, p.fail = hold, fail
	if !hold {
		for _, write := range p.held {
			write()
		}
		p.held = nil
	}
}

// crash loses the markers on their way to the partitions.
func (p *partitions) crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held, p.hold, p.fail = nil, false, nil
}

func (p *partitions) at(tp journal.TopicPartition) []record.EndTxn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written[tp]
}

type counter struct {
	mu   sync.Mutex
	next int64
}

func (c *counter) NextProducerIDs(_ context.Context, n int64) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next += n
	return c.next - n, nil
}

type world struct {
	l     *journaltest.Log
	parts *partitions
	ids   *counter
	mu    sync.Mutex
	now   time.Time
	c     *Coordinator
	stop  func()
}

func newWorld() *world {
	w := &world{l: &journaltest.Log{}, parts: &partitions{written: map[journal.TopicPartition][]record.EndTxn{}, begun: map[journal.TopicPartition][]Producer{}}, ids: &counter{}, now: time.Unix(1_000_000, 0)}
	w.start()
	return w
}

func (w *world) start() {
	w.c = New(Options{Now: w.clock, Markers: w.parts, IDs: w.ids, RolloverBytes: 4 << 10})
	w.c.Open([]journal.Partition{w.l.Partition()})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.c.Run(ctx) })
	w.stop = func() { cancel(); wg.Wait() }
	for end := time.Now().Add(10 * time.Second); w.c.Serving("") != 0 && time.Now().Before(end); {
		time.Sleep(50 * time.Microsecond)
	}
}

// crash ends the coordinator; what was not committed is lost.
func (w *world) crash() {
	w.stop()
	w.parts.crash()
	w.l = w.l.Copy()
	w.start()
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	w.now = w.now.Add(d)
	w.mu.Unlock()
	w.settle() // wakes the loop
}

// settle waits until the loop has nothing left to do by itself.
func (w *world) settle() {
	for range 6 {
		ch := make(chan struct{})
		first(w.c).j.Do(func(error) { close(ch) })
		<-ch
	}
}

// try returns a request's answer, or ok false when there is none yet.
func try[T any](w *world, start func(reply func(T))) (v T, ok bool) {
	ch := make(chan T, 1)
	start(func(v T) { ch <- v })
	w.settle()
	select {
	case v = <-ch:
		return v, true
	default:
		return v, false
	}
}

type claimed struct {
	code int16
	p    Producer
}

func (w *world) init(id string, expected *Producer, timeout time.Duration) (claimed, bool) {
	return try(w, func(reply func(claimed)) {
		w.c.Init(context.Background(), id, expected, timeout, func(code int16, p Producer) { reply(claimed{code, p}) })
	})
}

func (w *world) add(id string, p Producer, tp ...journal.TopicPartition) (int16, bool) {
	return w.addAs(id, p, V1, tp...)
}

func (w *world) addAs(id string, p Producer, version int16, tp ...journal.TopicPartition) (int16, bool) {
	return try(w, func(reply func(int16)) { w.c.Add(id, p, tp, version, reply) })
}

func (w *world) end(id string, p Producer, commit bool) (int16, bool) {
	res, ok := w.endAs(id, p, commit, V1)
	return res.code, ok
}

func (w *world) endAs(id string, p Producer, commit bool, version int16) (claimed, bool) {
	return try(w, func(reply func(claimed)) {
		w.c.End(id, p, commit, version, func(code int16, next Producer) { reply(claimed{code, next}) })
	})
}

func (w *world) describe(id string) Description {
	d, _ := try(w, func(reply func(Description)) { w.c.Describe(id, func(_ int16, d Description) { reply(d) }) })
	return d
}

func must(t testing.TB, code int16, ok bool) {
	t.Helper()
	if !ok || code != 0 {
		t.Fatalf("code %d, answered %v", code, ok)
	}
}

// Partitions are told of transactions that have an epoch of their own before records may follow, and again after a crash.
func TestPartitionsExpectTransactions(t *testing.T) {
	w := newWorld()
	defer func() { w.stop() }()
	told := func(tp journal.TopicPartition) []Producer {
		w.parts.mu.Lock()
		defer w.parts.mu.Unlock()
		return w.parts.begun[tp]
	}
	old, own := journal.TopicPartition{Topic: "t", Partition: 1}, journal.TopicPartition{Topic: "t", Partition: 2}
	p, ok := w.init("old", nil, time.Minute)
	must(t, p.code, ok)
	code, ok := w.add("old", p.p, old)
	must(t, code, ok)
	q, ok := w.init("own", nil, time.Minute)
	must(t, q.code, ok)
	code, ok = w.addAs("own", q.p, V2, own)
	must(t, code, ok)
	if a, b := told(old), told(own); len(a) != 0 || !slices.Equal(b, []Producer{q.p}) {
		t.Errorf("partitions expect %v and %v", a, b)
	}
	w.crash()
	if a, b := told(old), told(own); len(a) != 0 || !slices.Equal(b, []Producer{q.p, q.p}) {
		t.Errorf("after a crash partitions expect %v and %v", a, b)
	}
}

// heldIDs gives out producer ids when it is let, whatever becomes of the request.
type heldIDs struct{ asked, let chan struct{} }

func (h *heldIDs) NextProducerIDs(context.Context, int64) (int64, error) {
	h.asked <- struct{}{}
	<-h.let
	return 1000, nil
}

// A coordinator that is stopped has ended what it began: also a producer id being reserved for an EndTxn.
func TestStopWaitsForReservedIDs(t *testing.T) {
	l, held := &journaltest.Log{}, &heldIDs{asked: make(chan struct{}, 1), let: make(chan struct{})}
	c := New(Options{Markers: &partitions{begun: map[journal.TopicPartition][]Producer{}}, IDs: held})
	c.Open([]journal.Partition{l.Partition()})
	ctx, cancel := context.WithCancel(t.Context())
	stopped, placed := make(chan struct{}), make(chan struct{})
	go func() { c.Run(ctx); close(stopped) }()
	for c.Serving("id") != 0 {
		runtime.Gosched()
	}
	p := Producer{500, lastEpoch}
	c.on("id", func(s *shard, _ int16) {
		k := &kept{Txn: newTxn("id", s.j.Now())}
		k.Current, k.Timeout = p, time.Minute
		s.txns["id"] = k
		close(placed)
	})
	<-placed
	answered := make(chan int16, 1)
	c.End("id", p, false, V2, func(code int16, _ Producer) { answered <- code })
	<-held.asked
	cancel()
	select {
	case <-stopped:
		t.Error("Run returned while a producer id was being reserved")
	case <-time.After(20 * time.Millisecond):
	}
	close(held.let)
	<-stopped
	if code := <-answered; code == 0 {
		t.Error("the request succeeded at a coordinator that is stopped")
	}
}

// A producer's next request waits for the completion of its last transaction, and is answered at once after it.
func TestRequestsWaitForTheCompletion(t *testing.T) {
	w := newWorld()
	defer func() { w.stop() }()
	a, _ := w.init("id", nil, time.Minute)
	code, ok := w.add("id", a.p, journal.TopicPartition{Topic: "t", Partition: 0})
	must(t, code, ok)
	w.parts.set(true, nil)
	code, ok = w.end("id", a.p, true)
	must(t, code, ok) // the decision is durable; the markers are not written
	next := make(chan int16, 1)
	w.c.Add("id", a.p, tps("t", 1), V1, func(code int16) { next <- code })
	w.settle()
	select {
	case code := <-next:
		t.Fatalf("answered %d before the completion", code)
	default:
	}
	appends := len(w.l.Batches())
	w.parts.set(false, nil)
	if code := <-next; code != 0 {
		t.Fatal(code)
	}
	if n := len(w.l.Batches()) - appends; n != 1 {
		t.Errorf("the completion and what waited for it took %d appends", n)
	}
	// The wait has an end.
	w.parts.set(true, nil)
	code, ok = w.end("id", a.p, true)
	must(t, code, ok)
	w.c.Add("id", a.p, tps("t", 1), V1, func(code int16) { next <- code })
	w.settle()
	w.pass(waitTimeout + scanInterval)
	if code := <-next; code != kerr.ConcurrentTransactions.Code {
		t.Fatal(code)
	}
	for range maxWaiters {
		w.c.Add("id", a.p, tps("t", 1), V1, func(int16) {})
	}
	if code, ok := w.add("id", a.p, journal.TopicPartition{Topic: "t", Partition: 1}); !ok || code != kerr.ConcurrentTransactions.Code {
		t.Fatalf("one waiter too many: %d, %v", code, ok)
	}
	w.parts.set(false, nil)
}

// Invariant 1: nothing is answered, and Verify knows nothing, before the record is committed.
func TestAnswersWaitForTheLog(t *testing.T) {
	w := newWorld()
	defer func() { w.stop() }()
	a, _ := w.init("id", nil, time.Minute)
	in := func() bool { return w.c.Has("id", a.p, journal.TopicPartition{Topic: "t", Partition: 0}) }
	w.l.Hold()
	added := make(chan int16, 2)
	w.c.Add("id", a.p, tps("t", 0), V1, func(code int16) { added <- code })
	w.c.Add("id", a.p, tps("t", 0), V1, func(code int16) { added <- code }) // it changes nothing, and must still wait
	w.settle()
	if in() || len(added) > 0 {
		t.Fatalf("before the commit: %v, %d answers", in(), len(added))
	}
	w.l.Flow()
	if a, b := <-added, <-added; a != 0 || b != 0 {
		t.Fatal(a, b)
	}
	if !in() {
		t.Fatal("added and not part of it")
	}
	for _, tt := range []struct {
		id   string
		p    Producer
		tp   journal.TopicPartition
		want *kerr.Error
	}{
		{"id", a.p, journal.TopicPartition{Topic: "t", Partition: 0}, nil},
		{"id", a.p, journal.TopicPartition{Topic: "t", Partition: 1}, kerr.TransactionAbortable},
		{"id", a.p, journal.TopicPartition{Topic: "other", Partition: 0}, kerr.TransactionAbortable},
		{"id", Producer{a.p.ID, a.p.Epoch + 1}, journal.TopicPartition{Topic: "t", Partition: 0}, kerr.ProducerFenced},
		{"id", Producer{a.p.ID + 1, a.p.Epoch}, journal.TopicPartition{Topic: "t", Partition: 0}, kerr.InvalidProducerIDMapping},
		{"other", a.p, journal.TopicPartition{Topic: "t", Partition: 0}, kerr.InvalidProducerIDMapping},
	} {
		want := int16(0)
		if tt.want != nil {
			want = tt.want.Code
		}
		got, ok := try(w, func(reply func(int16)) { w.c.Verify(tt.id, tt.p, tt.tp, reply) })
		if !ok || got != want || w.c.Has(tt.id, tt.p, tt.tp) != (want == 0) {
			t.Errorf("%+v: %d, %v", tt, got, ok)
		}
	}
	w.l.Hold()
	ended := make(chan int16, 1)
	w.c.End("id", a.p, true, V1, func(code int16, _ Producer) { ended <- code })
	w.settle()
	if in() {
		t.Fatal("a transaction that ends took a batch")
	}
	if len(ended) > 0 || len(w.parts.at(journal.TopicPartition{Topic: "t", Partition: 0})) > 0 {
		t.Fatal("the decision was told before it was durable")
	}
	w.l.Flow()
	if code := <-ended; code != 0 {
		t.Fatal(code)
	}
}

func TestMarkersAreTriedAgain(t *testing.T) {
	w := newWorld()
	defer func() { w.stop() }()
	a, _ := w.init("id", nil, time.Minute)
	code, ok := w.add("id", a.p, tps("t", 0, 1, 2)...)
	must(t, code, ok)
	w.parts.set(false, log.ErrNotLeader)
	code, ok = w.end("id", a.p, true)
	must(t, code, ok)
	for range 5 {
		w.pass(retryMost)
	}
	if d := w.describe("id"); d.State != PrepareCommit || len(d.Partitions) != 3 {
		t.Fatalf("%+v", d)
	}
	w.parts.set(false, nil)
	w.pass(retryMost)
	w.settle()
	if d := w.describe("id"); d.State != CompleteCommit {
		t.Fatalf("%+v", d)
	}
	for _, tp := range tps("t", 0, 1, 2) {
		if got := w.parts.at(tp); len(got) != 1 || !got[0].Commit || got[0].ProducerID != a.p.ID {
			t.Errorf("%v: %+v", tp, got)
		}
	}
}

func TestIdleIDsExpire(t *testing.T) {
	w := newWorld()
	defer func() { w.stop() }()
	a, _ := w.init("id", nil, time.Minute)
	w.pass(8 * 24 * time.Hour)
	w.settle()
	if code, _ := w.add("id", a.p, journal.TopicPartition{Topic: "t", Partition: 0}); code != kerr.InvalidProducerIDMapping.Code {
		t.Fatal(code)
	}
	w.crash()
	if d := w.describe("id"); d.State != Dead {
		t.Fatalf("%+v", d)
	}
}

// history is what is known of one transaction. Every transaction writes to a topic of its own, so markers tell
// which one they end.
type history struct {
	topic     string
	claim     Producer
	added     map[int32]bool // acknowledged
	committed bool           // EndTxn(commit) was acknowledged
	aborted   bool
	mayCommit bool // EndTxn(commit) was asked for
	over      bool
}

// Instances of one id take over from each other, time out and commit, while the coordinator crashes and its log and
// the partitions stall: an acknowledged decision always comes true, and no transaction is ever ended two ways.
func TestTransactionsSurviveCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		defer func() { w.stop() }()
		var all []*history
		var claims []Producer
		current := map[Producer]*history{}
		latest := Producer{-1, -1}
		version := rapid.SampledFrom([]int16{V1, V2}).Draw(t, "version")
		t.Repeat(map[string]func(*rapid.T){
			"init": func(t *rapid.T) {
				res, ok := w.init("id", nil, 10*time.Second)
				if ok && res.code == 0 {
					if res.p.ID == latest.ID && res.p.Epoch <= latest.Epoch {
						t.Fatalf("epoch %d follows %d", res.p.Epoch, latest.Epoch)
					}
					latest = res.p
					claims = append(claims, res.p)
				}
			},
			"add": func(t *rapid.T) {
				if len(claims) == 0 {
					t.Skip("no producer")
				}
				p := rapid.SampledFrom(claims).Draw(t, "claim")
				h := current[p]
				if h == nil || h.over {
					h = &history{topic: fmt.Sprintf("t%d", len(all)), claim: p, added: map[int32]bool{}}
					all = append(all, h)
					current[p] = h
				}
				part := int32(rapid.IntRange(0, 2).Draw(t, "partition"))
				code, ok := w.addAs("id", p, version, journal.TopicPartition{Topic: h.topic, Partition: part})
				if ok && code == 0 {
					h.added[part] = true
					if !w.c.Has("id", p, journal.TopicPartition{Topic: h.topic, Partition: part}) {
						t.Fatal("added and not part of it")
					}
				}
			},
			"end": func(t *rapid.T) {
				if len(claims) == 0 {
					t.Skip("no producer")
				}
				p, commit := rapid.SampledFrom(claims).Draw(t, "claim"), rapid.Bool().Draw(t, "commit")
				h := current[p]
				if h == nil || h.over {
					t.Skip("nothing open")
				}
				h.mayCommit = h.mayCommit || commit
				h.over = true
				res, ok := w.endAs("id", p, commit, version)
				switch {
				case !ok || res.code != 0:
					// It may or may not come true; a producer that does not ask again gives up.
					claims = slices.DeleteFunc(claims, func(c Producer) bool { return c == p })
				default:
					if len(h.added) > 0 {
						h.committed, h.aborted = commit, !commit
					}
					if version == V2 {
						latest = res.p
						claims = append(claims, res.p)
					}
				}
			},
			"late end": func(t *rapid.T) {
				// Version 1 has nothing that tells it from an end of the next transaction.
				if version == V1 || len(all) == 0 {
					t.Skip("nothing to come late")
				}
				h, commit := rapid.SampledFrom(all).Draw(t, "transaction"), rapid.Bool().Draw(t, "commit")
				if !h.over {
					t.Skip("not late")
				}
				for _, other := range all { // those that were added under a claim that was over already never began
					other.mayCommit = other.mayCommit || other.claim == h.claim && commit
				}
				res, ok := w.endAs("id", h.claim, commit, version)
				if ok && res.code == 0 && (h.committed && !commit || h.aborted && commit) {
					t.Fatalf("%+v was told to have ended with commit %v", h, commit)
				}
			},
			"time": func(t *rapid.T) {
				w.pass(time.Duration(rapid.IntRange(1, 6000).Draw(t, "ms")) * time.Millisecond)
			},
			"log stalls":        func(*rapid.T) { w.l.Hold() },
			"log moves":         func(t *rapid.T) { w.l.Release(rapid.IntRange(1, 3).Draw(t, "n")); w.settle() },
			"log flows":         func(*rapid.T) { w.l.Flow(); w.settle() },
			"partitions stall":  func(*rapid.T) { w.parts.set(true, nil) },
			"partitions refuse": func(*rapid.T) { w.parts.set(false, log.ErrNotLeader) },
			"partitions flow":   func(*rapid.T) { w.parts.set(false, nil); w.settle() },
			"crash":             func(*rapid.T) { w.crash() },
		})
		// Everything flows again, and open transactions time out.
		w.l.Flow()
		w.parts.set(false, nil)
		for range 6 {
			w.pass(11 * time.Second)
			w.settle()
		}
		if s := w.describe("id").State; s != Dead && s != Empty && s != CompleteCommit && s != CompleteAbort {
			t.Fatalf("it ends in %v", s)
		}
		for _, h := range all {
			commits, aborts := 0, 0
			for part := range int32(3) {
				for _, m := range w.parts.at(journal.TopicPartition{Topic: h.topic, Partition: part}) {
					if m.Commit {
						commits++
					} else {
						aborts++
					}
					if m.ProducerID != h.claim.ID {
						t.Fatalf("%+v was ended for producer %d", h, m.ProducerID)
					}
				}
				n := len(w.parts.at(journal.TopicPartition{Topic: h.topic, Partition: part}))
				if h.added[part] && n == 0 {
					t.Fatalf("%+v: partition %d got no marker", h, part)
				}
			}
			switch {
			case commits > 0 && aborts > 0:
				t.Fatalf("%+v was ended both ways", h)
			case h.committed && aborts > 0, h.aborted && commits > 0:
				t.Fatalf("%+v was ended the other way", h)
			case commits > 0 && !h.mayCommit:
				t.Fatalf("%+v was committed by nobody", h)
			}
		}
		before := w.list(t)
		w.crash()
		if d := cmp.Diff(before, w.list(t)); d != "" {
			t.Fatalf("the load found another state:\n%s", d)
		}
	})
}

func (w *world) list(t *rapid.T) []Description {
	list, ok := try(w, func(reply func([]Description)) {
		w.c.List(func(code int16, list []Description) {
			if code != 0 {
				t.Fatalf("list: %d", code)
			}
			reply(list)
		})
	})
	if !ok {
		t.Fatal("list was not answered")
	}
	return list
}

// Whatever a record holds, folding it ends with a state or an error.
func FuzzRecords(f *testing.F) {
	x := newTxn("id", time.UnixMilli(5))
	x.Init(nil, time.Second, ids(7), time.UnixMilli(6))
	x.Add(Producer{7, 0}, tps("t", 1, 2), V1, time.UnixMilli(7))
	r := x.record()
	f.Add(r.Key, r.Value)
	f.Add(r.Key, []byte(nil))
	f.Add([]byte{0, 1}, []byte{})
	f.Fuzz(func(t *testing.T, k, v []byte) {
		id, x, err := parse(journal.Record{Key: k, Value: v})
		if err != nil || x == nil {
			return
		}
		again, y, err := parse(x.record())
		if err != nil || again != id || y.State != x.State || y.Current != x.Current || len(y.Partitions) != len(x.Partitions) {
			t.Fatalf("%+v came back as %+v, %v", x, y, err)
		}
	})
}

// first is the coordinator's only shard.
func first(c *Coordinator) *shard {
	s, _ := c.shards.At(0)
	return s
}
