package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log"
)

func stopped(t *testing.T, s *scheduler) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.stop(ctx); err != nil && !errors.Is(err, log.ErrClosed) {
			t.Errorf("stop: %v", err)
		}
	})
}

func mustOpen(t *testing.T, s *scheduler, d *disk, id log.GroupID) (*group, *memLog) {
	t.Helper()
	g, m, err := openMem(s, d, id)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.led:
	case <-time.After(10 * time.Second):
		t.Fatalf("group %d did not elect itself", id)
	}
	return g, m
}

func TestOrderAndCompletionUnderManyProducers(t *testing.T) {
	const producers, each, groups = 16, 300, 5
	d := newDisk()
	s := memScheduler(d, 2, nil)
	s.start()
	stopped(t, s)
	var gs []*group
	var ms []*memLog
	for i := range groups {
		g, m := mustOpen(t, s, d, log.GroupID(i+2))
		gs, ms = append(gs, g), append(ms, m)
	}
	var wg, answers sync.WaitGroup
	answered := make([]atomic.Int64, producers) // next expected per producer
	var wrong atomic.Int64
	for p := range producers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			last := int64(-1)
			for i := range each {
				answers.Add(1)
				acks := int16(-1)
				if i%3 == 1 {
					acks = 1
				}
				s.append(context.Background(), gs[p%groups], payload(fmt.Sprintf("%d/%d", p, i)), acks, func(base int64, err error) {
					defer answers.Done()
					answered[p].Add(1)
					if err != nil {
						t.Errorf("producer %d append %d: %v", p, i, err)
					}
					if acks == -1 { // one worker answers all of a group's in order
						if base <= last {
							wrong.Add(1)
						}
						last = base
					}
				})
			}
		}()
	}
	wg.Wait()
	answers.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d answers were out of order", n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.stop(ctx); err != nil {
		t.Fatal(err)
	}
	for i, m := range ms {
		next := map[int]int{}
		for _, text := range m.fold.texts {
			var p, n int
			if _, err := fmt.Sscanf(text, "%d/%d", &p, &n); err != nil {
				t.Fatal(err)
			}
			if n != next[p] || p%groups != i {
				t.Fatalf("group %d: %q where %d/%d belongs", i, text, p, next[p])
			}
			next[p]++
		}
		if want := each * len(next); len(m.fold.texts) != want {
			t.Errorf("group %d holds %d, want %d", i, len(m.fold.texts), want)
		}
	}
	if n := s.queueBytes(); n != 0 {
		t.Errorf("%d bytes still counted as queued", n)
	}
	for _, g := range gs {
		if n := g.gate.inUse(); n != 0 {
			t.Errorf("group %d: %d bytes still counted", g.id, n)
		}
	}
}

// Everything that is ready while a sync runs shares the next one.
func TestGroupsShareSyncs(t *testing.T) {
	const groups, rounds = 64, 20
	d := newDisk()
	s := memScheduler(d, 2, nil)
	s.start()
	stopped(t, s)
	var gs []*group
	for i := range groups {
		g, _ := mustOpen(t, s, d, log.GroupID(i+2))
		gs = append(gs, g)
	}
	d.hold = make(chan struct{})
	syncs, written := s.counters.syncs.Load(), s.counters.written.Load()
	var wg sync.WaitGroup
	for r := range rounds {
		for i, g := range gs {
			wg.Add(1)
			s.append(context.Background(), g, payload(fmt.Sprintf("%d/%d", r, i)), -1, func(_ int64, err error) {
				if err != nil {
					t.Error(err)
				}
				wg.Done()
			})
		}
	}
	close(d.hold)
	wg.Wait()
	syncs, written = s.counters.syncs.Load()-syncs, s.counters.written.Load()-written
	if written != groups*rounds {
		t.Errorf("%d entries written, want %d", written, groups*rounds)
	}
	t.Logf("%d entries of %d groups in %d syncs", written, groups, syncs)
	if limit := int64(8); syncs > limit {
		t.Errorf("%d syncs for %d entries that were queued behind one: want at most %d", syncs, written, limit)
	}
}

func TestRefusedDuplicateAndUnknown(t *testing.T) {
	d := newDisk()
	s := memScheduler(d, 1, nil)
	s.start()
	stopped(t, s)
	g, m := mustOpen(t, s, d, 2)
	type answer struct {
		base int64
		err  error
	}
	ask := func(text string, acks int16) answer {
		c := make(chan answer, 1)
		s.append(context.Background(), g, payload(text), acks, func(b int64, err error) { c <- answer{b, err} })
		return <-c
	}
	if a := ask("a", -1); a.base != 0 || a.err != nil {
		t.Fatal(a)
	}
	if a := ask("bad", -1); !errors.Is(a.err, errRefused) {
		t.Fatal(a)
	}
	if a := ask("a", -1); a.base != 0 || a.err != nil {
		t.Fatalf("duplicate: %v", a)
	}
	if a := ask("b", 0); a.base != 1 || a.err != nil {
		t.Fatal(a)
	}
	if a := ask("c", 1); a.base != 2 || a.err != nil {
		t.Fatal(a)
	}
	proposals := s.counters.proposals.Load()
	if proposals != 3 {
		t.Errorf("%d proposals, want 3: a duplicate must not be proposed", proposals)
	}
	dropped := make(chan struct{})
	s.close(g, ErrUnknownTopic, func() { close(dropped) })
	<-dropped
	if a := ask("d", -1); !errors.Is(a.err, ErrUnknownTopic) {
		t.Fatal(a)
	}
	if len(m.fold.texts) != 3 {
		t.Errorf("log holds %v", m.fold.texts)
	}
}

// A duplicate of an append that is still on its way is answered with it, not before.
func TestDuplicateInFlightWaits(t *testing.T) {
	d := newDisk()
	s := memScheduler(d, 1, nil)
	w := s.workers[0]
	settle := func() {
		for w.turn() || s.writer.turn() {
		}
	}
	g, _, err := openMem(s, d, 2)
	if err != nil {
		t.Fatal(err)
	}
	settle()
	var order []string
	add := func(name, text string) {
		s.append(context.Background(), g, payload(text), -1, func(_ int64, err error) {
			if err != nil {
				t.Error(err)
			}
			order = append(order, name)
		})
	}
	add("first", "x")
	w.turn()
	add("repeat", "x")
	add("second", "y")
	w.turn()
	if len(order) != 0 {
		t.Fatalf("%v answered before the disk has it", order)
	}
	settle()
	if fmt.Sprint(order) != "[first repeat second]" {
		t.Errorf("answered in order %v", order)
	}
}

func TestFailedCommitHaltsAndAcknowledgesNothing(t *testing.T) {
	d := newDisk()
	fatal := make(chan error, 1)
	s := memScheduler(d, 2, func(err error) { fatal <- err })
	s.start()
	stopped(t, s)
	g, _ := mustOpen(t, s, d, 2)
	other, _ := mustOpen(t, s, d, 3)
	boom := errors.New("disk is gone")
	d.hold = make(chan struct{})
	var errs []error
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Add(1)
		target := g
		if i%2 == 0 {
			target = other
		}
		s.append(context.Background(), target, payload(fmt.Sprint(i)), -1, func(_ int64, err error) {
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
			wg.Done()
		})
	}
	d.fail = boom
	close(d.hold)
	wg.Wait()
	for _, err := range errs {
		if !errors.Is(err, boom) || !errors.Is(err, errHalted) {
			t.Fatalf("answered %v after a failed commit", err)
		}
	}
	if err := <-fatal; !errors.Is(err, boom) {
		t.Errorf("OnFatal got %v", err)
	}
	done := make(chan error, 1)
	s.append(context.Background(), g, payload("later"), -1, func(_ int64, err error) { done <- err })
	if err := <-done; !errors.Is(err, errHalted) {
		t.Errorf("append on a halted node: %v", err)
	}
	late, _, err := openMem(s, d, 4)
	if err != nil {
		t.Fatal(err)
	}
	<-late.dead // whoever waits for it to lead is told
}

// A full disk holds writes back; they go on when there is space, in order and once.
func TestDiskFullWaits(t *testing.T) {
	d := newDisk()
	s := memScheduler(d, 1, func(err error) { t.Errorf("halted: %v", err) })
	s.start()
	stopped(t, s)
	g, m := mustOpen(t, s, d, 2)
	d.mu.Lock()
	d.full = 2
	d.mu.Unlock()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Add(1)
		s.append(context.Background(), g, payload(fmt.Sprint(i)), -1, func(base int64, err error) {
			if err != nil || base != int64(i) {
				t.Errorf("append %d: offset %d, %v", i, base, err)
			}
			wg.Done()
		})
	}
	wg.Wait()
	if d.full != 0 || len(m.fold.texts) != 20 {
		t.Errorf("%d refusals left, %d records", d.full, len(m.fold.texts))
	}
}

// A storage panic below Raft halts the node as a failed commit does.
func TestPanicInTurnHalts(t *testing.T) {
	d := newDisk()
	fatal := make(chan error, 1)
	s := memScheduler(d, 1, func(err error) { fatal <- err })
	s.start()
	stopped(t, s)
	g, m := mustOpen(t, s, d, 2)
	m.fold.index = 77 // Apply finds a hole
	done := make(chan error, 2)
	for range 2 {
		s.append(context.Background(), g, payload("x"), -1, func(_ int64, err error) { done <- err })
	}
	m2 := <-fatal
	if !errors.Is(m2, errHalted) {
		t.Fatal(m2)
	}
	for range 2 {
		<-done
	}
}

func TestAppendBlocksAtItsBound(t *testing.T) {
	d := newDisk()
	s := memScheduler(d, 1, nil)
	s.start()
	stopped(t, s)
	g, _ := mustOpen(t, s, d, 2)
	d.hold = make(chan struct{})
	var wg sync.WaitGroup
	big := make([]byte, 1<<20)
	for i := range maxGroupBytes / (1<<20 + proposalOverhead) {
		wg.Add(1)
		b := append([]byte(nil), big...)
		copy(b[12:], fmt.Sprint(i))
		s.append(context.Background(), g, b, -1, func(int64, error) { wg.Done() })
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	refused := make(chan error, 1)
	s.append(ctx, g, append([]byte(nil), big...), -1, func(_ int64, err error) { refused <- err })
	if err := <-refused; !errors.Is(err, ErrOverloaded) {
		t.Fatalf("append above the bound: %v", err)
	}
	// A caller that waits when the node stops is told so.
	waiting := make(chan error, 1)
	go s.append(context.Background(), g, append([]byte(nil), big...), -1, func(_ int64, err error) { waiting <- err })
	for !waits(g.gate) {
		time.Sleep(time.Millisecond)
	}
	stop := make(chan error, 1)
	go func() { stop <- s.stop(context.Background()) }()
	if err := <-waiting; !errors.Is(err, log.ErrClosed) {
		t.Errorf("waiting append at stop: %v", err)
	}
	close(d.hold)
	if err := <-stop; err != nil {
		t.Error(err)
	}
	wg.Wait()
}

func waits(g *gate) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiters) > 0
}

// Stop gives up waiting when its context ends, and answers everything.
func TestStopAnswersWhatCannotFinish(t *testing.T) {
	d := newDisk()
	s := memScheduler(d, 1, nil)
	s.start()
	g, _ := mustOpen(t, s, d, 2)
	hold := make(chan struct{})
	d.hold = hold
	done := make(chan error, 1)
	s.append(context.Background(), g, payload("x"), -1, func(_ int64, err error) { done <- err })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	stop := make(chan error, 1)
	go func() { stop <- s.stop(ctx) }()
	if err := <-done; !errors.Is(err, log.ErrClosed) {
		t.Errorf("append: %v", err)
	}
	close(hold)
	if err := <-stop; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stop: %v", err)
	}
}

func TestRestartKeepsAcknowledged(t *testing.T) {
	d := newDisk()
	var acked []string
	for round := range 4 {
		s := memScheduler(d, 1, nil)
		s.start()
		g, m := mustOpen(t, s, d, 2)
		if fmt.Sprint(m.fold.texts) != fmt.Sprint(acked) {
			t.Fatalf("round %d: log holds %v, acknowledged were %v", round, m.fold.texts, acked)
		}
		if _, epoch, self := leader(g); !self || int(epoch) != round+1 {
			t.Errorf("round %d: epoch %d self %v", round, epoch, self)
		}
		for i := range 10 {
			text := fmt.Sprintf("%d/%d", round, i)
			done := make(chan error, 1)
			s.append(context.Background(), g, payload(text), -1, func(_ int64, err error) { done <- err })
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			acked = append(acked, text)
		}
		if err := s.stop(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

func leader(g *group) (int32, int32, bool) {
	l := g.lead.Load()
	return l.node, l.epoch, l.self
}

// Invariant 1: between winning the election and applying the first entry of its term a leader serves nothing.
func TestLeaderServesAfterItsOwnEntry(t *testing.T) {
	d := newDisk()
	s := memScheduler(d, 1, nil)
	g, _, err := openMem(s, d, 2)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for turns := 0; ; turns++ {
		if turns > 20 {
			t.Fatal("never leads")
		}
		if _, _, self := leader(g); self {
			break
		}
		s.append(context.Background(), g, payload("early"), -1, func(_ int64, err error) {
			if !errors.Is(err, log.ErrNotLeader) {
				t.Errorf("answered %v before it leads", err)
			}
			refused++
		})
		s.workers[0].turn()
		s.writer.turn()
	}
	if d.syncs != 2 || refused == 0 {
		t.Errorf("leads after %d syncs and %d refusals; the vote and the first entry need one each", d.syncs, refused)
	}
	if last := d.log(2).entries; len(last) != 1 || last[0].Type != log.EntryMeta || last[0].Term != 1 {
		t.Errorf("the log holds %+v", last)
	}
}

func TestLostTailIsRefused(t *testing.T) {
	d := newDisk()
	d.log(2).hs = log.HardState{Term: 3, Vote: Member{Node: 1}.raftID(), Commit: 9}
	s := memScheduler(d, 1, nil)
	if _, _, err := openMem(s, d, 2); !errors.Is(err, log.ErrCorrupt) {
		t.Fatalf("a log that ends before its commit was opened: %v", err)
	}
}

func TestMinTermRaisesFirstEpoch(t *testing.T) {
	d := newDisk()
	s := memScheduler(d, 1, nil)
	s.start()
	stopped(t, s)
	m := newMemLog(d.log(2))
	g, err := s.open(groupConfig{id: 2, self: Member{Node: 1}, first: []Member{{Node: 1}}, minTerm: 41, sm: m, store: m, logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	<-g.led
	if _, epoch, _ := leader(g); epoch != 42 {
		t.Errorf("first epoch is %d, want 42", epoch)
	}
}
