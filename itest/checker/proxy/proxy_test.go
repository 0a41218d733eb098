package proxy

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// arrival is a request as the node got it.
type arrival struct {
	conn int
	corr uint32
}

// node answers each frame with its correlation id.
func node(t *testing.T) (addr string, arrivals chan arrival) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	arrivals = make(chan arrival, 100)
	var work sync.WaitGroup
	work.Go(func() {
		for i := 0; ; i++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				for {
					frame, err := readFrame(c)
					if err != nil {
						return
					}
					arrivals <- arrival{i, binary.BigEndian.Uint32(frame[8:])}
					c.Write(append([]byte{0, 0, 0, 4}, frame[8:12]...))
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); work.Wait() })
	return l.Addr().String(), arrivals
}

func request(key, version int16, corr uint32) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 12}, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, corr)
	return append(b, 0, 2, 'm', 'e')
}

// through sends requests 1, 2, ... of keys 1, 2, ... with a plan for key 1.
func through(t *testing.T, plan Plan, count int) (net.Conn, *Proxy, chan arrival) {
	addr, arrivals := node(t)
	p, err := Start(addr, func(r Request) Plan {
		if r.ClientID != "me" || r.Version != 7 || r.Bytes != 12 {
			t.Errorf("parsed %+v", r)
		}
		if r.Key == 1 {
			return plan
		}
		return Plan{}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	for i := range count {
		if _, err := c.Write(request(int16(i+1), 7, uint32(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	return c, p, arrivals
}

func answers(t *testing.T, c net.Conn, want ...uint32) {
	t.Helper()
	for _, corr := range want {
		frame, err := readFrame(c)
		if err != nil || binary.BigEndian.Uint32(frame[4:]) != corr {
			t.Fatalf("got % x, %v, want the answer to %d", frame, err, corr)
		}
	}
}

func arrived(t *testing.T, ch chan arrival, want ...arrival) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-ch:
			if got != w {
				t.Fatalf("%+v arrived, want %+v", got, w)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%+v did not arrive", w)
		}
	}
}

func TestRequestsPass(t *testing.T) {
	c, p, ch := through(t, Plan{}, 3)
	answers(t, c, 1, 2, 3)
	arrived(t, ch, arrival{0, 1}, arrival{0, 2}, arrival{0, 3})
	if n := p.Counts(); n != (Counts{Passed: 3}) {
		t.Errorf("counted %+v", n)
	}
}

func TestTwiceIsAnsweredOnce(t *testing.T) {
	c, _, ch := through(t, Plan{Twice: true}, 2)
	answers(t, c, 1, 2)
	arrived(t, ch, arrival{0, 1}, arrival{0, 1}, arrival{0, 2})
}

func TestACopyFollowsOverAnotherConnection(t *testing.T) {
	c, p, ch := through(t, Plan{Later: 20 * time.Millisecond}, 2)
	answers(t, c, 1, 2)
	arrived(t, ch, arrival{0, 1}, arrival{0, 2}, arrival{1, 1})
	for p.Counts().Copied != 1 {
		time.Sleep(time.Millisecond)
	}
}

func TestLaterRequestsOvertakeAndAnswersStayInOrder(t *testing.T) {
	c, _, ch := through(t, Plan{Aside: 50 * time.Millisecond}, 3)
	answers(t, c, 1, 2, 3)
	arrived(t, ch, arrival{0, 2}, arrival{0, 3}, arrival{1, 1})
}

func TestADelayHoldsWhatFollows(t *testing.T) {
	start := time.Now()
	c, _, ch := through(t, Plan{Delay: 50 * time.Millisecond}, 2)
	answers(t, c, 1, 2)
	arrived(t, ch, arrival{0, 1}, arrival{0, 2})
	if took := time.Since(start); took < 50*time.Millisecond {
		t.Errorf("took %s", took)
	}
}

func ended(t *testing.T, c net.Conn) {
	t.Helper()
	var timeout net.Error
	if n, err := io.Copy(io.Discard, c); n != 0 || errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("%d bytes, %v", n, err)
	}
}

func TestCuts(t *testing.T) {
	c, p, ch := through(t, Plan{Cut: CutBefore}, 1)
	ended(t, c)
	if p.Counts().Cut != 1 || len(ch) != 0 {
		t.Errorf("%+v, %d arrived", p.Counts(), len(ch))
	}
	c, p, ch = through(t, Plan{Cut: CutAnswer}, 1)
	ended(t, c)
	arrived(t, ch, arrival{0, 1})
	if p.Counts().Cut != 1 {
		t.Errorf("%+v", p.Counts())
	}
}

func TestNoCutWhileAFragileRequestIsUnanswered(t *testing.T) {
	addr, _ := node(t)
	p, err := Start(addr, func(r Request) Plan {
		if r.Key == 1 {
			return Plan{Aside: 50 * time.Millisecond, Fragile: true}
		}
		return Plan{Cut: CutBefore}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	c.Write(request(1, 7, 1))
	c.Write(request(2, 7, 2))
	answers(t, c, 1, 2)
	c.Write(request(3, 7, 3))
	ended(t, c)
}

func TestCloseEndsEverything(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("run", func(t *testing.T) {
		c, p, _ := through(t, Plan{Later: time.Hour, Aside: time.Hour}, 1)
		p.Close()
		ended(t, c)
	})
	goleak.VerifyNone(t, before)
}
