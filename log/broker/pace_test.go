package broker

import (
	"net"
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

// Readers of history take turns by hosts, and nobody else waits for them: neither who reads near the end nor who writes. Without a turn
// in time a reader is told that there is more, and nothing else.
func TestReadersOfHistoryTakeTurns(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const megabytes = 40
	fill(t, s, "t", megabytes)
	gate := s.external.building.history
	var ends []func() // of all turns
	for range historyReaders() {
		leave, err := gate.Party().Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, leave)
	}
	fetch := func(host string, offset int64) net.Conn {
		c := from(t, s, host)
		req := fetchAll("t")
		rp := &req.Topics[0].Partitions[0]
		rp.FetchOffset, rp.PartitionMaxBytes = offset, 1<<20
		if _, err := c.Write(request1(1, req)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	const some = 400_000 // bytes of a record, at least
	const many = 60
	var answered atomic.Int32
	before := s.Stats().Requests
	for range many {
		c := fetch("127.0.0.2", 0)
		go func() {
			if _, err := c.Read(make([]byte, 1)); err == nil {
				answered.Add(1)
			}
		}()
	}
	waitFor(t, "all to ask", func() bool { return s.Stats().Requests >= before+many })
	time.Sleep(100 * time.Millisecond) // they come to the gate
	if n := len(readFramed(t, fetch("127.0.0.2", 2*megabytes-1))); n < some {
		t.Errorf("a reader at the end got %d bytes", n)
	}
	late := fetch("127.0.0.3", 0)
	if n := len(readFramed(t, late)); n == 0 || n >= some {
		t.Errorf("a reader of history without a turn got %d bytes", n)
	}
	if n := answered.Load(); n < many {
		waitFor(t, "all to be told to ask again", func() bool { return answered.Load() == many })
	}

	answered.Store(0)
	before = s.Stats().Requests
	for range many {
		c := fetch("127.0.0.2", 0)
		go func() {
			if _, err := c.Read(make([]byte, 1)); err == nil {
				answered.Add(1)
			}
		}()
	}
	waitFor(t, "all to ask", func() bool { return s.Stats().Requests >= before+many })
	one := fetch("127.0.0.3", 0)
	waitFor(t, "the one to ask", func() bool { return s.Stats().Requests >= before+many+1 })
	time.Sleep(100 * time.Millisecond)
	if n := answered.Load(); n != 0 {
		t.Fatalf("%d are answered although there is no turn", n)
	}
	ends[0]()
	if n := len(readFramed(t, one)); n < some {
		t.Errorf("a reader of history got %d bytes in its turn", n)
	}
	if n := answered.Load(); n > many/4 {
		t.Errorf("answered behind %d of %d of another host", n, many)
	}
	for _, leave := range ends[1:] {
		leave()
	}
}

// A client that leaves what it reads of history unread keeps nobody from a turn while its answer is written.
func TestATurnAtHistoryDoesNotWaitForAClient(t *testing.T) {
	s := serve(t)
	fill(t, s, "t", 40)
	for range 4 * historyReaders() { // more than there is room for
		if _, err := from(t, s, "127.0.0.2").Write(request1(1, fetchAll("t"))); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "the room to be taken", func() bool { return s.external.fetching.Held() > s.external.fetching.Most()/4 })
	time.Sleep(100 * time.Millisecond) // the others come to wait
	c := from(t, s, "127.0.0.3")
	start := time.Now()
	if _, err := c.Write(request1(1, fetchAll("t"))); err != nil {
		t.Fatal(err)
	}
	if n := len(readFramed(t, c)); n < 400_000 {
		t.Errorf("another host got %d bytes", n)
	}
	if took := time.Since(start); took > turnWait/2 {
		t.Errorf("another host was answered after %v", took)
	}
}
