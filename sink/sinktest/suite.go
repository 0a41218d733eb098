package sinktest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// patience is how long a test waits for what must come.
const patience = 45 * time.Second

// Harness is one empty target of the type under test.
type Harness struct {
	// Target is the target of a sink by that name. All names share one database.
	Target func(name string) sink.Target
	// Rows reads a source table's rows in the target, each as Format prints it, sorted.
	Rows func(table string) []string
	// Applied counts the row changes that the target has taken; nil when the target cannot tell.
	Applied func() int
	// Interrupt breaks the connections that a sink has now; nil when there is no such thing.
	Interrupt func(name string)
}

// Run runs the suite; make is called for each test.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"Applies", testApplies},
		{"Resumes", testResumes},
		{"DuplicateDelivery", testDuplicateDelivery},
		{"CrashAroundCommit", testCrashAroundCommit},
		{"Fencing", testFencing},
		{"SecondInstanceTakesOver", testTakeOver},
		{"WholeTransactions", testWholeTransactions},
		{"PoisonValue", testPoisonValue},
		{"PoisonUnknownVersion", testPoisonVersion},
		{"PoisonTransactionRecord", testPoisonEnd},
		{"P6AbsentColumnWithoutRow", testAbsentWithoutRow},
		{"GapAtStart", testGap},
		{"OtherLog", testOtherLog},
		{"TopicMadeAnew", testTopicMadeAnew},
		{"OffsetsLearnTheirLog", testOffsetsLearnTheirLog},
		{"NewTopic", testNewTopic},
		{"TopicJoinsLate", testJoinsLate},
		{"MorePartitions", testMorePartitions},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newHarness(t)) })
	}
}

// running is a sink that runs.
type running struct {
	sink *sink.Runner
	stop context.CancelFunc
	done chan error
}

func settings(name string, topics ...string) sink.Settings {
	p := sink.NewProperties(nil)
	return p.Settings(name, "test", topics)
}

func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// run starts a sink.
func run(t *testing.T, l *Log, target sink.Target, name, instance string, topics ...string) *running {
	t.Helper()
	if len(topics) == 0 {
		topics = []string{l.Prefix + ".public.*"}
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{sink: sink.NewRunner(settings(name, topics...), target, l.Deps(logger(t), instance)), stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- r.sink.Run(ctx) }()
	t.Cleanup(func() { r.halt(t) })
	return r
}

// halt stops the sink and waits for it.
func (r *running) halt(t testing.TB) {
	t.Helper()
	r.stop()
	select {
	case err := <-r.done:
		r.done <- err
	case <-time.After(patience):
		t.Errorf("sink does not stop: %+v", r.sink.Status())
	}
}

// await waits until a condition holds.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok() {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}

// awaitEqual waits until the target equals the source.
func awaitEqual(t testing.TB, h Harness, s *Source) {
	t.Helper()
	await(t, "the target to equal the source", func() bool { return differs(h, s) == "" })
}

func differs(h Harness, s *Source) string {
	for _, tab := range s.Tables() {
		want, got := s.Rows(tab), h.Rows(tab.Schema.Collection())
		if !slices.Equal(want, got) {
			return fmt.Sprintf("%s: target has %d rows, source %d", tab.Schema.Collection(), len(got), len(want))
		}
	}
	return ""
}

// exactlyOnce checks that the target has taken each change once.
func exactlyOnce(t testing.TB, h Harness, s *Source) {
	t.Helper()
	if h.Applied == nil {
		return
	}
	if got := h.Applied(); got != s.Events {
		t.Errorf("the target has taken %d changes, the log has %d", got, s.Events)
	}
}

func random(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

func testApplies(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 3)
	rng := random(t)
	s.Work(t, rng, 60)
	r := run(t, l, h.Target("w"), "w", "")
	awaitEqual(t, h, s)
	s.Work(t, rng, 60)
	awaitEqual(t, h, s)
	exactlyOnce(t, h, s)
	await(t, "the counts and the lag to follow", func() bool {
		st := r.sink.Status()
		return st.LagEvents == 0 && st.Events >= uint64(s.Events) && st.Transactions >= uint64(s.Count)
	})
	st := r.sink.Status()
	if st.State != sink.StateStreaming || st.Events != uint64(s.Events) || st.Transactions != uint64(s.Count) {
		t.Errorf("status %+v, want %d events and %d transactions", st, s.Events, s.Count)
	}
	await(t, "the group's offsets to follow", func() bool { return groupLag(t, l, "w") == 0 })
}

// groupLag is what any Kafka tool would show.
func groupLag(t testing.TB, l *Log, name string) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lags, err := l.Admin.Lag(ctx, "rowtrail-sink-"+name)
	if err != nil {
		t.Fatalf("read lag: %v", err)
	}
	if len(lags) != 1 {
		t.Fatalf("lag of %d groups", len(lags))
	}
	sum := int64(0)
	for _, g := range lags {
		for _, topic := range g.Lag {
			for _, p := range topic {
				if p.Lag < 0 {
					return p.Lag
				}
				sum += p.Lag
			}
		}
	}
	return sum
}

func testResumes(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 4)
	rng := random(t)
	for i := range 5 {
		r := run(t, l, h.Target("w"), "w", "node-1")
		s.Work(t, rng, 30)
		if i%2 == 0 {
			await(t, "something to be applied", func() bool { return r.sink.Status().Events > 0 })
		}
		r.halt(t)
	}
	run(t, l, h.Target("w"), "w", "node-1")
	awaitEqual(t, h, s)
	exactlyOnce(t, h, s)
}

// The group's offsets are lost or reset: the target's win.
func testDuplicateDelivery(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 2)
	rng := random(t)
	s.Work(t, rng, 40)
	r := run(t, l, h.Target("w"), "w", "")
	awaitEqual(t, h, s)
	r.halt(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	offsets := make(kadm.Offsets)
	for _, tab := range s.Tables() {
		for p := range tab.Partitions {
			offsets.AddOffset(tab.Topic, p, 0, -1)
		}
	}
	offsets.AddOffset("shop.transaction", 0, 0, -1)
	if err := l.Admin.CommitAllOffsets(ctx, "rowtrail-sink-w", offsets); err != nil {
		t.Fatalf("reset group: %v", err)
	}
	s.Work(t, rng, 10)
	run(t, l, h.Target("w"), "w", "")
	awaitEqual(t, h, s)
	exactlyOnce(t, h, s)
}

func testCrashAroundCommit(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 3)
	rng := random(t)
	f := &faulty{Target: h.Target("w"), rng: rand.New(rand.NewPCG(rng.Uint64(), 1)), every: 3}
	run(t, l, f, "w", "node-1")
	const rounds, atLeast, atMost = 12, 2, 200
	tries := 0
	for i := 0; i < rounds || (f.strikes() < atLeast && i < atMost); i++ {
		s.Work(t, rng, 8)
		// A slow machine gets to a commit between two interruptions, too.
		if now := f.tries(); h.Interrupt != nil && i%3 == 0 && (i == 0 || now > tries) {
			h.Interrupt("w")
			tries = now
		}
		pause(200 * time.Millisecond)
	}
	f.calm()
	awaitEqual(t, h, s)
	exactlyOnce(t, h, s)
	if f.strikes() < atLeast {
		t.Error("too few commits were struck: the test shows nothing")
	}
}

// pause waits a moment in which the sink goes on.
func pause(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

// A session that was replaced cannot commit, whatever it has applied.
func testFencing(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	tab := l.NewTable(t, "public", "items", 1, Col("id", "integer", event.KindInt32, 1), Col("v", "text", event.KindText, 0))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	open := func() sink.Session {
		s, err := h.Target("w").Open(ctx)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		t.Cleanup(s.Close)
		return s
	}
	ev := func(id, v string) *sink.Event {
		row := event.Row{Text(id), Text(v)}
		return &sink.Event{
			Topic: tab.Topic, Schema: tab.Schema, Key: event.Row{Text(id), {}},
			Change: event.Change{Op: event.OpCreate, After: row},
		}
	}
	offsets := func(next int64) []sink.Offset { return []sink.Offset{{Topic: tab.Topic, Next: next, Position: 7}} }
	first := open()
	if err := first.Apply(ctx, ev("1", "first")); err != nil {
		t.Fatal(err)
	}
	if err := first.Commit(ctx, offsets(1)); err != nil {
		t.Fatal(err)
	}
	if err := first.Apply(ctx, ev("2", "first")); err != nil {
		t.Fatal(err)
	}
	second := open()
	if got := second.Offsets(); len(got) != 1 || got[0] != offsets(1)[0] {
		t.Fatalf("offsets %v, want %v", got, offsets(1))
	}
	if err := first.Commit(ctx, offsets(2)); err == nil {
		t.Fatal("a fenced session committed")
	} else if sink.IsPermanent(err) {
		t.Fatalf("fencing must not look like poison: %v", err)
	}
	if err := second.Apply(ctx, ev("3", "second")); err != nil {
		t.Fatal(err)
	}
	if err := second.Commit(ctx, offsets(3)); err != nil {
		t.Fatal(err)
	}
	if got, want := h.Rows("public.items"), []string{"1|first", "3|second"}; !slices.Equal(got, want) {
		t.Fatalf("rows %v, want %v", got, want)
	}
}

// A second instance stands by, and takes over when the first goes.
func testTakeOver(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 3)
	rng := random(t)
	a := run(t, l, h.Target("w"), "w", "node-1")
	s.Work(t, rng, 20)
	awaitEqual(t, h, s)
	b := run(t, l, h.Target("w"), "w", "node-2")
	s.Work(t, rng, 20)
	awaitEqual(t, h, s)
	if n := b.sink.Status().Events; n != 0 {
		t.Errorf("the instance that stands by has applied %d events", n)
	}
	a.halt(t)
	s.Work(t, rng, 20)
	awaitEqual(t, h, s)
	exactlyOnce(t, h, s)
	await(t, "the second instance to say that it took over", func() bool { return b.sink.Status().Events > 0 })
}

// A reader of the target never sees half a source transaction: transfers keep the sum.
func testWholeTransactions(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 4)
	rng := random(t)
	run(t, l, h.Target("w"), "w", "")
	await(t, "the accounts to be loaded", func() bool { return len(h.Rows("public.accounts")) == accounts })
	looks := 0
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if got := sum(h.Rows("public.accounts")); got != total {
				t.Errorf("the accounts add up to %d, not %d", got, total)
				return
			}
			looks++
		}
	}()
	s.Work(t, rng, 150)
	awaitEqual(t, h, s)
	close(stop)
	<-done
	if looks < 10 {
		t.Errorf("looked %d times only", looks)
	}
}

func sum(rows []string) int {
	n := 0
	for _, row := range rows {
		_, balance, _ := strings.Cut(row, "|")
		v, err := strconv.Atoi(balance)
		if err != nil {
			return -1
		}
		n += v
	}
	return n
}

// A table that appears while the sink runs is picked up, in the transaction that names it first.
func testNewTopic(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 2)
	rng := random(t)
	run(t, l, h.Target("w"), "w", "")
	s.Work(t, rng, 10)
	awaitEqual(t, h, s)
	tab := l.NewTable(t, "public", "fresh", 3, Col("id", "integer", event.KindInt32, 1), Col("v", "text", event.KindText, 0))
	tx := l.Begin(t)
	want := []string{}
	for i := range 5 {
		tx.Change(tab, event.OpCreate, nil, event.Row{Text(strconv.Itoa(i)), Text("v")})
		want = append(want, fmt.Sprint(i, "|v"))
	}
	l.Write(t, true, tx)
	s.Work(t, rng, 10)
	await(t, "the new table", func() bool { return slices.Equal(h.Rows("public.fresh"), want) })
	awaitEqual(t, h, s)
}

// A table that is added to a sink's topics later is brought up from its first event.
func testJoinsLate(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 2)
	rng := random(t)
	s.Work(t, rng, 30)
	r := run(t, l, h.Target("w"), "w", "", s.Accounts.Topic, s.Orders.Topic)
	await(t, "the first tables", func() bool { return slices.Equal(h.Rows("public.orders"), s.Rows(s.Orders)) })
	r.halt(t)
	s.Work(t, rng, 10)
	r = run(t, l, h.Target("w"), "w", "")
	awaitEqual(t, h, s)
	r.halt(t)
	s.Work(t, rng, 10)
	run(t, l, h.Target("w"), "w", "")
	awaitEqual(t, h, s)
	exactlyOnce(t, h, s)
}
