package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/journal/journaltest"
	"github.com/rowtrail/rowtrail/log/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// table is the simplest fold: the last value of every key.
type table struct {
	j     *journal.Journal
	rows  map[string]string
	loads int
	lost  chan struct{} // told that this node leads no more
}

func (f *table) Reset(epoch int32) {
	f.rows = map[string]string{}
	if epoch >= 0 {
		f.loads++
	} else if f.lost != nil {
		close(f.lost)
		f.lost = nil
	}
}

func (f *table) Apply(b journal.Batch) error {
	for _, r := range b.Records {
		switch {
		case string(r.Key) == "poison":
			return errors.New("poison")
		case r.Value == nil:
			delete(f.rows, string(r.Key))
		default:
			f.rows[string(r.Key)] = string(r.Value)
		}
	}
	return nil
}

func (f *table) Loaded(time.Time)             {}
func (f *table) Tick(now time.Time) time.Time { return now.Add(time.Hour) }
func (f *table) State(yield func(journal.Record)) {
	for _, k := range slices.Sorted(maps.Keys(f.rows)) {
		yield(journal.Record{Key: []byte(k), Value: []byte(f.rows[k])})
	}
}

// put stages a row; the result comes when it is durable.
func (f *table) put(k, v string) <-chan error {
	ch := make(chan error, 1)
	f.j.Do(func(err error) {
		if err != nil {
			ch <- err
			return
		}
		f.rows[k] = v
		f.j.Stage([]journal.Record{{Key: []byte(k), Value: []byte(v)}}, func(_ int64, err error) { ch <- err })
	})
	return ch
}

// get reads a row on the loop.
func (f *table) get(k string) (v string, err error) {
	done := make(chan struct{})
	f.j.Do(func(e error) {
		if err = e; e == nil {
			v = f.rows[k]
		}
		close(done)
	})
	<-done
	return v, err
}

func run(t testing.TB, l *journaltest.Log, rollover int64) *table {
	t.Helper()
	f := &table{}
	f.j = journal.New(journal.Options{Partition: l.Partition(), Name: "topic-0", Fold: f, RolloverBytes: rollover})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f.j.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return f
}

func until(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to pass in 10 s")
		}
	}
}

func serving(t testing.TB, f *table) {
	t.Helper()
	until(t, func() bool { return f.j.Serving() == nil })
}

// Invariant 1: nothing is answered before its append is committed; what waits shares appends.
func TestJournalAnswersWhenCommitted(t *testing.T) {
	l := &journaltest.Log{}
	f := run(t, l, 0)
	serving(t, f)
	l.Hold()
	first := f.put("k", "1")
	until(t, func() bool { return l.Held() == 1 })
	var rest []<-chan error
	for i := range 50 {
		rest = append(rest, f.put(fmt.Sprint(i), "v"))
	}
	if v, err := f.get("k"); err != nil || v != "1" {
		t.Fatalf("staged state is %q, %v", v, err)
	}
	select {
	case err := <-first:
		t.Fatalf("answered before the commit: %v", err)
	default:
	}
	l.Release(1)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	l.Flow()
	for _, ch := range rest {
		if err := <-ch; err != nil {
			t.Fatal(err)
		}
	}
}

// Invariant 8: after a failed append the state is what the log says, not what was staged.
func TestJournalReloadsAfterFailure(t *testing.T) {
	l := &journaltest.Log{}
	f := run(t, l, 0)
	serving(t, f)
	if err := <-f.put("k", "1"); err != nil {
		t.Fatal(err)
	}
	l.Refuse(log.ErrDiskFull)
	if err := <-f.put("k", "2"); !errors.Is(err, log.ErrDiskFull) {
		t.Fatalf("got %v", err)
	}
	l.Refuse(nil)
	serving(t, f)
	if v, err := f.get("k"); err != nil || v != "1" {
		t.Fatalf("after the reload: %q, %v", v, err)
	}
}

// What is only written, not staged, costs a failure nothing else.
func TestJournalWriteFailsAlone(t *testing.T) {
	l := &journaltest.Log{}
	f := run(t, l, 0)
	serving(t, f)
	l.Refuse(log.ErrDiskFull)
	ch := make(chan error, 1)
	f.j.Do(func(error) {
		f.j.Write([]journal.Record{{Key: []byte("k"), Value: []byte("1")}}, func(_ int64, err error) { ch <- err })
	})
	if err := <-ch; !errors.Is(err, log.ErrDiskFull) {
		t.Fatal(err)
	}
	l.Refuse(nil)
	if err := <-f.put("k", "2"); err != nil {
		t.Fatal(err)
	}
	if f.loads != 1 {
		t.Fatalf("loaded %d times", f.loads)
	}
}

func TestJournalFollowsLeadership(t *testing.T) {
	l := &journaltest.Log{}
	f := run(t, l, 0)
	serving(t, f)
	<-f.put("k", "1")
	l.Lead(false)
	until(t, func() bool {
		_, err := f.get("k")
		return errors.Is(err, journal.ErrNotLeader)
	})
	l.Lead(true)
	until(t, func() bool {
		v, err := f.get("k")
		return err == nil && v == "1"
	})
}

// What waits in the state of a node that leads no more is answered by then, and not when it leads again.
func TestJournalForgetsWhatItDoesNotLead(t *testing.T) {
	l := &journaltest.Log{}
	f := run(t, l, 0)
	serving(t, f)
	<-f.put("k", "1")
	lost, set := make(chan struct{}), make(chan struct{})
	f.j.Do(func(error) { f.lost = lost; close(set) })
	<-set
	l.Lead(false)
	f.j.Do(func(error) {}) // who asks has it look
	select {
	case <-lost:
	case <-time.After(10 * time.Second):
		t.Fatal("the fold was not told")
	}
	l.Lead(true)
	until(t, func() bool {
		v, err := f.get("k")
		return err == nil && v == "1"
	})
}

// A journal writes in the leader epoch that it loaded in, and in no later one that it has not noticed.
func TestJournalWritesInItsEpochOnly(t *testing.T) {
	l := &journaltest.Log{}
	f := run(t, l, 0)
	serving(t, f)
	<-f.put("k", "1")
	done := make(chan error, 1)
	f.j.Do(func(error) {
		l.Lead(false)
		l.Put(batch("k", "2")) // by another leader
		l.Lead(true)
		f.rows["k"] += "!"
		f.j.Stage([]journal.Record{{Key: []byte("k"), Value: []byte(f.rows["k"])}}, func(_ int64, err error) { done <- err })
	})
	if err := <-done; !errors.Is(err, log.ErrNotLeader) {
		t.Fatalf("wrote over what it had not read: %v", err)
	}
	until(t, func() bool {
		v, err := f.get("k")
		return err == nil && v == "2"
	})
}

func batch(k, v string) []byte {
	var b record.Builder
	b.Append(0, []byte(k), []byte(v))
	return b.Build(nil)
}

func TestJournalStopsAtPoison(t *testing.T) {
	l := &journaltest.Log{}
	f := run(t, l, 0)
	serving(t, f)
	if err := <-f.put("poison", "1"); err != nil {
		t.Fatal(err)
	}
	g := run(t, l.Copy(), 0)
	until(t, func() bool { return errors.Is(g.j.Serving(), journal.ErrBroken) })
	if err := g.j.Serving(); !strings.Contains(err.Error(), "topic-0") || !strings.Contains(err.Error(), "offset 0") {
		t.Fatalf("the error does not name the place: %v", err)
	}
}

// The log stays bounded under endless updates, and folds to the same state at every moment, also while
// rollovers are under way and a transaction is open.
func TestJournalRollover(t *testing.T) {
	l := &journaltest.Log{}
	f := run(t, l, 4<<10)
	serving(t, f)
	open := make(chan error, 1)
	f.j.Do(func(error) {
		f.j.WriteTxn(journal.Producer{ID: 1, Epoch: 0}, []journal.Record{{Key: []byte("txn"), Value: []byte("x")}},
			func(_ int64, err error) { open <- err })
	})
	if err := <-open; err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for i := range 3000 {
		k, v := fmt.Sprint(i%20), fmt.Sprint(i)
		want[k] = v
		if err := <-f.put(k, v); err != nil {
			t.Fatal(err)
		}
		if i == 1000 && l.Marks().LogStart > 0 {
			t.Fatal("an open transaction was deleted")
		}
		if i == 1000 {
			f.j.Do(func(error) {
				f.j.WriteTxn(journal.Producer{ID: 1, Epoch: 0}, []journal.Record{{Key: []byte("txn"), Value: []byte("y")}},
					func(_ int64, err error) { open <- err })
			})
			if err := <-open; err != nil { // the numbering went on over rollovers
				t.Fatal(err)
			}
			l.Put(endTxn(1))
		}
	}
	if n := len(l.Batches()); n > 500 {
		t.Errorf("%d batches are left", n)
	}
	g := run(t, l.Copy(), 0)
	serving(t, g)
	for k, v := range want {
		if got, err := g.get(k); got != v || err != nil {
			t.Fatalf("%s folded to %q, %v, not %q", k, got, err, v)
		}
	}
}

// A log that stalls while a rollover is due does not stall what only reads.
func TestJournalServesWhileTheLogStalls(t *testing.T) {
	l := &journaltest.Log{}
	f := run(t, l, 4<<10)
	serving(t, f)
	if err := <-f.put("k", "old"); err != nil {
		t.Fatal(err)
	}
	l.Hold()
	late := f.put("k", strings.Repeat("x", 30<<10))
	until(t, func() bool { return l.Held() == 1 })
	for range 3 {
		if v, err := f.get("k"); err != nil || len(v) != 30<<10 {
			t.Fatalf("%d bytes, %v", len(v), err)
		}
	}
	l.Flow()
	if err := <-late; err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { _, _ = f.get("k"); return l.Marks().LogStart > 0 })
}

func TestJournalRefusesWhenFull(t *testing.T) {
	l := &journaltest.Log{}
	f := run(t, l, 0)
	serving(t, f)
	block, entered := make(chan struct{}), make(chan struct{})
	f.j.Do(func(error) { close(entered); <-block })
	<-entered
	busy := 0
	for range 20_000 {
		f.j.Do(func(err error) {
			if errors.Is(err, journal.ErrBusy) {
				busy++
			}
		})
		if busy > 0 {
			break
		}
	}
	close(block)
	if busy == 0 {
		t.Fatal("the mailbox has no bound")
	}
}

// Why a coordinator cannot write is logged once, and when it can again, however many requests fail meanwhile; what was
// wrong with a request is not.
func TestRefusedAppendsAreExplainedOnce(t *testing.T) {
	l := &journaltest.Log{}
	var out lockedBuffer
	f := &table{}
	f.j = journal.New(journal.Options{Partition: l.Partition(), Name: "x", Fold: f, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { f.j.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	write := func() error {
		ch := make(chan error, 1)
		f.j.Do(func(err error) {
			if err != nil {
				ch <- err
				return
			}
			f.j.Write([]journal.Record{{Key: []byte("k"), Value: []byte("v")}}, func(_ int64, err error) { ch <- err })
		})
		return <-ch
	}
	until := func(want error) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !errors.Is(write(), want); {
			if time.Now().After(end) {
				t.Fatalf("never answered with %v", want)
			}
		}
	}
	until(nil)
	for range 2 {
		l.Refuse(fmt.Errorf("no room: %w", log.ErrDiskFull))
		for range 10 {
			until(log.ErrDiskFull)
		}
		l.Refuse(nil)
		until(nil)
	}
	l.Refuse(log.ErrTooLarge)
	until(log.ErrTooLarge)
	lines := out.String()
	if n := strings.Count(lines, "coordinator cannot write"); n != 2 || strings.Count(lines, "no room") != 2 {
		t.Errorf("%d lines say why:\n%s", n, lines)
	}
	if n := strings.Count(lines, "coordinator writes again"); n != 2 {
		t.Errorf("%d lines say that it is over:\n%s", n, lines)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
