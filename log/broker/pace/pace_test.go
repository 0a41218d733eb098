package pace

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"
)

const mb = 1 << 20

func TestNext(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name string
		rate float64
		load Load
		want float64
	}{
		{"no producer, every core busy", 100 * mb, Load{Read: 100 * mb, Quiet: patience}, inf},
		{"a producer that hardly writes", 100 * mb, Load{Produced: quiet, Read: 100 * mb, Quiet: patience}, inf},
		{"a producer that does not get to write", 100 * mb, Load{Read: 100 * mb, Quiet: patience - 1}, MinRate},
		{"a producer and cores to spare", inf, Load{Produced: 50 * mb, Read: 900 * mb, Idle: 0.5}, inf},
		{"a producer and no core to spare", inf, Load{Produced: 20 * mb, Read: 900 * mb, Idle: 0.02}, 450 * mb},
		{"still none", 450 * mb, Load{Produced: 20 * mb, Read: 440 * mb, Idle: 0.02}, 220 * mb},
		{"never below the floor", 70 * mb, Load{Produced: 20 * mb, Read: 70 * mb}, MinRate},
		{"nor below what producers write", 450 * mb, Load{Produced: 300 * mb, Read: 450 * mb}, 375 * mb},
		{"a reader that does not use its rate", 900 * mb, Load{Produced: 20 * mb, Read: 10 * mb}, MinRate},
		{"neither busy nor calm", 100 * mb, Load{Produced: 20 * mb, Read: 100 * mb, Idle: 0.2}, 100 * mb},
		{"calm again", 100 * mb, Load{Produced: 20 * mb, Read: 100 * mb, Idle: 0.4}, 150 * mb},
		{"idle time is not known", inf, Load{Produced: 20 * mb, Read: 900 * mb, Idle: -1}, 450 * mb},
	} {
		if got := Next(c.rate, c.load); got != c.want {
			t.Errorf("%s: %.0f, want %.0f", c.name, got, c.want)
		}
	}
}

// machine is a machine in simulated time whose CPU is shared by producers and readers.
type machine struct {
	at        time.Time
	busy, all float64
}

func (m *machine) now() time.Time           { return m.at }
func (m *machine) cpu() (busy, all float64) { return m.busy, m.all }
func (m *machine) pass(d time.Duration, busy float64) {
	m.at = m.at.Add(d)
	m.all += d.Seconds()
	m.busy += busy * d.Seconds()
}

// read lets a reader that could read 1000 MB/s read for a while, beside producers that write, and returns its rate.
func read(m *machine, p *Pacer, d time.Duration, produced float64, busy float64) float64 {
	const step, full = 5 * time.Millisecond, 1000 * mb
	total := 0
	for end := m.at.Add(d); m.at.Before(end); {
		m.pass(step, busy)
		p.Produced(int(produced * step.Seconds()))
		if p.Due() == 0 {
			n := int(full * step.Seconds())
			p.Read(n)
			total += n
		}
	}
	return float64(total) / d.Seconds()
}

func TestReadersAreHeldOnlyWhileProducersNeedTheCPU(t *testing.T) {
	m := &machine{at: time.Unix(1_000_000, 0)}
	p := New(m.now, m.cpu)
	near := func(what string, got, want float64) {
		t.Helper()
		if got < 0.9*want || got > 1.1*want {
			t.Errorf("%s: %.0f MB/s, want about %.0f", what, got/mb, want/mb)
		}
	}
	near("an idle machine", read(m, p, 5*time.Second, 0, 0.5), 1000*mb)
	near("readers alone keep every core busy", read(m, p, 5*time.Second, 0, 1), 1000*mb)
	near("producers and cores to spare", read(m, p, 5*time.Second, 50*mb, 0.5), 1000*mb)
	read(m, p, 3*time.Second, 20*mb, 1) // the rate falls
	near("producers and no core to spare", read(m, p, 10*time.Second, 20*mb, 1), MinRate)
	near("producers that write much", read(m, p, 10*time.Second, 200*mb, 1), 250*mb)
	read(m, p, interval, 0, 1)
	near("producers that do not get to write", read(m, p, patience-3*interval, 0, 1), MinRate)
	read(m, p, 3*interval, 0, 1)
	near("producers have gone", read(m, p, 5*time.Second, 0, 1), 1000*mb)
}

func TestAReaderThatComesLaterIsNotHeldByWhatWasBefore(t *testing.T) {
	m := &machine{at: time.Unix(1_000_000, 0)}
	p := New(m.now, m.cpu)
	read(m, p, 5*time.Second, 20*mb, 1)
	p.Read(100 * mb)
	if p.Due() == 0 {
		t.Fatal("readers are not held: the test shows nothing")
	}
	m.pass(forgotten, 1)
	if due := p.Due(); due != 0 {
		t.Errorf("waits %v", due)
	}
}

func TestWaitIsBoundedAndEndsWithItsContext(t *testing.T) {
	m := &machine{at: time.Unix(1_000_000, 0)}
	p := New(m.now, m.cpu)
	read(m, p, 5*time.Second, 20*mb, 1)
	p.Read(1 << 40)
	p.Read(1)
	if due := p.Due(); due != maxWait {
		t.Errorf("waits %v for what takes hours, want %v", due, maxWait)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("wait without a client: %v", err)
	}
}

func TestParseCPU(t *testing.T) {
	busy, all := parse([]byte("cpu  10 20 30 400 50 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n"))
	if busy != 81 || all != 531 {
		t.Errorf("busy %v of %v, want 81 of 531", busy, all)
	}
	for _, text := range []string{"", "cpu 1 2", "intr 1 2 3 4 5 6 7 8 9", "cpu a b c d e f g h"} {
		if busy, all := parse([]byte(text)); busy != 0 || all != 0 {
			t.Errorf("%q: %v of %v", text, busy, all)
		}
	}
}
