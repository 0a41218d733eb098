package park

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/raw"
	"github.com/rowtrail/rowtrail/itest/fakelog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func fault(table, problem string) error {
	return fmt.Errorf("run: %w", &connectors.Fault{Problem: problem, Remedy: "mend it", Collection: table})
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// A table's Fault is followed by another run, which parks it; what is not one table's, or comes again all the same, is the connector's.
func TestIsolate(t *testing.T) {
	for name, c := range map[string]struct {
		off   bool
		ends  []error
		runs  int
		fails string
	}{
		"nothing":               {ends: []error{nil}, runs: 1},
		"one table":             {ends: []error{fault("a.b", "x"), nil}, runs: 2},
		"two tables":            {ends: []error{fault("a.b", "x"), fault("a.c", "x"), nil}, runs: 3},
		"the connector":         {ends: []error{&connectors.Fault{Problem: "gap"}}, runs: 1, fails: "gap"},
		"the same table twice":  {ends: []error{fault("a.b", "x"), fault("a.b", "y")}, runs: 2, fails: "y"},
		"isolation is not on":   {off: true, ends: []error{fault("a.b", "x")}, runs: 1, fails: "x"},
		"what may heal":         {ends: []error{errors.New("network")}, runs: 1, fails: "network"},
		"a table, then network": {ends: []error{fault("a.b", "x"), errors.New("network")}, runs: 2, fails: "network"},
	} {
		i, runs := NewIsolation("c", !c.off, quiet()), 0
		err := i.Isolate(func(context.Context) error { runs++; return c.ends[runs-1] })(t.Context())
		if runs != c.runs || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %d runs, %v", name, runs, err)
		}
	}
}

// source is a source of numbered changes of one table, and of the connector that captures it.
type source struct {
	t       *testing.T
	w       *connectors.Writer
	e       *connectors.Emitter
	p       *Parking
	commits uint64
	room    uint64
	live    []string
	refuse  string // the change that cannot be written
	loads   bool
	after   error
	stop    func()
}

const table0 = "s.t"

func (s *source) Place() (event.Position, uint64) {
	return event.Position{Commit: s.commits + 1}, s.room
}

func (s *source) Rewrite(ctx context.Context, collection string, kind Kind, record []byte) error {
	if string(record) == s.refuse {
		return &connectors.Fault{Problem: "refused", Collection: collection}
	}
	if err := s.e.Room(ctx); err != nil {
		return err
	}
	if kind == KindChange {
		s.e.Pos.Order++ // as Next does
		s.e.Batch.Record("out", 0, nil, slices.Clone(record), s.e.Now)
	}
	return nil
}

func (s *source) Mark(ctx context.Context, own bool) error {
	if own {
		s.commits++
	}
	return s.mark(ctx)
}

func (s *source) Live(_ context.Context, collection string, load bool) (after, err error) {
	s.live = append(s.live, fmt.Sprint(collection, " ", load))
	return s.after, nil
}

func (s *source) Loads() bool { return s.loads }

func (s *source) mark(ctx context.Context) error {
	if err := s.e.Room(ctx); err != nil {
		return err
	}
	s.e.Batch.Mark(connectors.Mark{Order: s.commits, Resume: s.p.Marked(), Force: true})
	return nil
}

func (s *source) flush(ctx context.Context) error {
	if err := s.e.Send(ctx); err != nil {
		return err
	}
	return s.w.Drain(ctx)
}

// begin begins a run, as a crash of the one before would.
func begin(t *testing.T, deps connectors.Deps, i *Isolation) *source {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := connectors.OpenWriter(ctx, deps, connectors.WriterOptions{
		Name: "c", Prefix: "p", Topics: connectors.TopicOptions{Partitions: -1, Replication: -1},
		AppendResume: func(dst []byte, m connectors.Mark) []byte {
			return append(dst, m.Resume.(*Tables).JSON()...)
		},
		OnCommit: func(m connectors.Mark) { i.Committed(m.Resume.(*Tables)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &source{t: t, w: w, e: &connectors.Emitter{Settings: &connectors.Settings{Prefix: "p"}, Writer: w}, room: 100, loads: true}
	s.e.Touch()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	value, err := w.Resume(ctx)
	must(err)
	saved, err := Parse(value)
	must(err)
	i.Restore(saved)
	s.p, err = i.Begin(func(string) bool { return true }, func(string) bool { return false }, func() (*raw.Store, error) {
		return raw.Open(ctx, w, "p", func(ctx context.Context) error {
			if err := s.mark(ctx); err != nil {
				return err
			}
			return s.flush(ctx)
		})
	})
	must(err)
	for _, topic := range []string{"out", "p.transaction"} {
		_, err = w.EnsureTopic(ctx, topic, connectors.TopicSingle)
		must(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	ended := false
	s.stop = func() {
		if !ended {
			ended = true
			cancel()
			<-done
			w.Close()
		}
	}
	t.Cleanup(s.stop)
	must(s.p.Start(ctx, s.e, s, func() {}))
	must(s.flush(ctx))
	return s
}

// change is a source transaction of some changes of the table.
func (s *source) change(changes ...string) {
	s.t.Helper()
	ctx := context.Background()
	context := &Context{Raw: []byte("columns")}
	for _, c := range changes {
		err := s.p.Keep(ctx, s.e, table0, func(dst []byte) []byte { return append(dst, "tx"...) }, context, func(dst []byte) []byte { return append(dst, c...) })
		if err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.p.End(ctx, s.e); err != nil {
		s.t.Fatal(err)
	}
	s.commits++
	if err := s.mark(ctx); err != nil {
		s.t.Fatal(err)
	}
	if err := s.flush(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// boundary is what happens between two source transactions.
func (s *source) boundary() error {
	ctx := context.Background()
	if err := s.p.Boundary(ctx, s.e, s); err != nil {
		return err
	}
	return s.flush(ctx)
}

func out(t *testing.T, deps connectors.Deps) string {
	var b strings.Builder
	for _, r := range fakelog.Read(t, deps.Client, "out") {
		b.Write(r.Value)
	}
	return b.String()
}

func newLog(t *testing.T) connectors.Deps {
	cluster := fakelog.Start(t)
	return connectors.Deps{Client: []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}, Logger: quiet()}
}

// parkedIsolation is one whose next run parks the table.
func parkedIsolation() *Isolation {
	i := NewIsolation("c", true, quiet())
	i.took(fault(table0, "a value"))
	return i
}

// What waits comes once, in order, with what comes meanwhile behind it; a run that ends in the middle is gone on with.
func TestUnparkInPieces(t *testing.T) {
	deps, i := newLog(t), parkedIsolation()
	s := begin(t, deps, i)
	big := strings.Repeat("x", segmentBytes/2)
	s.change("a", "b")
	s.change(big)
	s.change(big + "!") // the segment is full
	s.change("c")
	if st := i.Status(); len(st) != 1 || st[0].Changes != 5 || st[0].Bytes < segmentBytes || st[0].Reason != "a value" || st[0].Remedy != "mend it" {
		t.Fatalf("%+v", st)
	}
	s.stop() // with or without a crash
	i = NewIsolation("c", true, quiet())
	s = begin(t, deps, i)
	s.change("d")
	if err := i.Unpark(connectors.Unpark{Table: "s.u"}); !errors.Is(err, connectors.ErrNotParked) {
		t.Fatal(err)
	}
	if err := i.Unpark(connectors.Unpark{Table: table0}); err != nil {
		t.Fatal(err)
	}
	if err := s.boundary(); err != nil { // the first segment
		t.Fatal(err)
	}
	if got := out(t, deps); got != "ab"+big+big+"!" {
		t.Fatalf("%d bytes", len(got))
	}
	s.stop()
	i = NewIsolation("c", true, quiet())
	s = begin(t, deps, i)
	s.change("e")
	for range 3 {
		if err := s.boundary(); err != nil {
			t.Fatal(err)
		}
	}
	if got := out(t, deps); got != "ab"+big+big+"!cde" {
		t.Fatalf("%d bytes", len(got))
	}
	if len(i.Status()) != 0 || fmt.Sprint(s.live) != "[s.t false]" {
		t.Fatalf("%+v %v", i.Status(), s.live)
	}
	left := map[string]bool{}
	for _, r := range fakelog.Read(t, deps.Client, "p.raw") {
		left[string(r.Key)] = r.Value != nil && !strings.Contains(string(r.Key), "session")
	}
	for key, live := range left {
		if live {
			t.Errorf("%s is kept for nobody", key)
		}
	}
}

// A change that is refused again leaves its segment where it was.
func TestUnparkFailsAgain(t *testing.T) {
	deps, i := newLog(t), parkedIsolation()
	s := begin(t, deps, i)
	s.change("a", "b")
	s.refuse = "b"
	if err := i.Unpark(connectors.Unpark{Table: table0}); err != nil {
		t.Fatal(err)
	}
	err := s.boundary()
	if !i.took(err) {
		t.Fatal(err)
	}
	s.stop()
	s = begin(t, deps, i)
	if st := i.Status(); len(st) != 1 || st[0].State != connectors.StateParked || st[0].Changes != 2 || st[0].Reason != "refused" {
		t.Fatalf("%+v", st)
	}
	if got := out(t, deps); got != "" {
		t.Fatal(got)
	}
	if err := i.Unpark(connectors.Unpark{Table: table0}); err != nil { // it is mended
		t.Fatal(err)
	}
	if err := s.boundary(); err != nil {
		t.Fatal(err)
	}
	if got := out(t, deps); got != "ab" || len(i.Status()) != 0 {
		t.Fatal(got)
	}
}

// Where little room is left before the source's next transaction, more is written in one; where there is none, it waits.
func TestUnparkWithLittleRoom(t *testing.T) {
	deps, i := newLog(t), parkedIsolation()
	s := begin(t, deps, i)
	big := strings.Repeat("x", segmentBytes)
	for _, c := range []string{"1", "2", "3"} {
		s.change(c + big)
	}
	s.room = 0
	if err := i.Unpark(connectors.Unpark{Table: table0}); err != nil {
		t.Fatal(err)
	}
	before := s.commits
	if err := s.boundary(); err != nil || out(t, deps) != "" {
		t.Fatal(err)
	}
	s.room = 1
	if err := s.boundary(); err != nil || len(out(t, deps)) != 3*(segmentBytes+1) || s.commits != before+1 {
		t.Fatalf("%v, %d bytes, %d transactions", err, len(out(t, deps)), s.commits-before)
	}
}

// Loaded again, or with what waits thrown away, the table goes on at once.
func TestUnparkOtherwise(t *testing.T) {
	for how, live := range map[string]string{connectors.UnparkReload: "[s.t true]", connectors.UnparkDiscard: "[s.t false]"} {
		deps, i := newLog(t), parkedIsolation()
		s := begin(t, deps, i)
		s.change("a")
		if how == connectors.UnparkReload {
			s.after = errors.New("the next run loads it")
		}
		if err := i.Unpark(connectors.Unpark{Table: table0, How: how}); err != nil {
			t.Fatal(err)
		}
		if err := s.boundary(); !errors.Is(err, s.after) {
			t.Fatal(err)
		}
		if len(i.Status()) != 0 || fmt.Sprint(s.live) != live || out(t, deps) != "" {
			t.Errorf("%s: %+v %v", how, i.Status(), s.live)
		}
		if err := i.Unpark(connectors.Unpark{Table: table0, How: "skip"}); err == nil {
			t.Error("a request without sense is taken")
		}
		s.stop()
	}
}

// A table that is captured no longer, and a connector that begins anew, leave nothing behind.
func TestForgotten(t *testing.T) {
	deps, i := newLog(t), parkedIsolation()
	s := begin(t, deps, i)
	s.change("a")
	s.stop()
	i = NewIsolation("c", true, quiet())
	i.took(fault("s.other", "x"))
	s = begin(t, deps, i) // the table's segments are in a resume point that is restored
	if len(s.p.Names()) != 2 {
		t.Fatal(s.p.Names())
	}
	delete(s.p.tables, table0)
	if err := s.p.forget(t.Context(), s.e); err != nil {
		t.Fatal(err)
	}
	if s.p.store.Len() != 0 {
		t.Errorf("%d segments are kept", s.p.store.Len())
	}
}
