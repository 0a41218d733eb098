package broker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log/broker/pace"
)

// busyMachine is a clock that stands until it is told to go on, of a machine without idle time.
type busyMachine struct {
	mu    sync.Mutex
	at    time.Time
	looks atomic.Int64
}

func (m *busyMachine) now() time.Time {
	m.looks.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

func (m *busyMachine) cpu() (busy, all float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all = float64(m.at.UnixMilli())
	return all, all
}

func (m *busyMachine) pass(d time.Duration) {
	m.mu.Lock()
	m.at = m.at.Add(d)
	m.mu.Unlock()
}

// While producers write and no CPU time is left, a reader of history waits; one near the end does not.
func TestReadersOfHistoryWaitForBusyProducers(t *testing.T) {
	s := serve(t)
	m := &busyMachine{at: time.Unix(1_000_000, 0)}
	s.pacer = pace.New(m.now, m.cpu)
	const megabytes = 40
	fill(t, s, "t", megabytes)
	fetch := func(offset int64) (answer func() int) {
		c := from(t, s, "127.0.0.1")
		req := fetchAll("t")
		rp := &req.Topics[0].Partitions[0]
		rp.FetchOffset, rp.PartitionMaxBytes = offset, 1<<20
		if _, err := c.Write(request1(1, req)); err != nil {
			t.Fatal(err)
		}
		return func() int { return len(readFramed(t, c)) }
	}
	const some = 400_000 // bytes of a record, at least
	if n := fetch(0)(); n < some {
		t.Fatalf("nobody is held, and %d bytes were read", n)
	}
	s.pacer.Produced(100 << 20)
	m.pass(time.Second)
	s.pacer.Read(200 << 20) // the machine is busy by now: this is to be paid for

	if n := fetch(2*megabytes - 1)(); n < some {
		t.Errorf("a reader at the end got %d bytes", n)
	}
	looks := m.looks.Load()
	history := fetch(0)
	waitFor(t, "the reader of history to wait", func() bool { return m.looks.Load() > looks+3 })
	if due := s.pacer.Due(); due == 0 {
		t.Fatal("the reader of history has nothing to wait for: the test shows nothing")
	}
	m.pass(time.Minute)
	if n := history(); n < some {
		t.Errorf("the reader of history got %d bytes once the wait was over", n)
	}
}
