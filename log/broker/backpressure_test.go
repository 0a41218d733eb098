package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// from dials from one of the loopback addresses, as a host of its own.
func from(t testing.TB, s *served, host string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	c, err := d.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second))
	return c
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // pools are emptied by the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// roundTrip asks for the brokers and says how long that took.
func roundTrip(t testing.TB, c net.Conn) time.Duration {
	t.Helper()
	start := time.Now()
	if _, err := c.Write(request1(1, kmsg.NewPtrMetadataRequest())); err != nil {
		t.Fatal(err)
	}
	readFramed(t, c)
	return time.Since(start)
}

// fetchAll asks for up to 50 MB from the start of partition 0.
func fetchAll(topic string) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes, req.MaxWaitMillis = 12, 50<<20, 1, 100
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.PartitionMaxBytes, rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = 50<<20, -1, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// fill writes megabytes to a topic.
func fill(t testing.TB, s *served, topic string, megabytes int) {
	t.Helper()
	create(t, s, topic, 1, nil)
	p := s.client(t, true, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for range 2 * megabytes {
		p.Produce(t.Context(), &kgo.Record{Value: make([]byte, 500_000)}, nil)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Close()
}

// Invariant 9: 2,000 idle connections, 500 that stopped within a frame, readers that stopped within a response of 50 MB and
// writers that stopped within one of 60 MB cost little memory, hold up nobody, and are gone once their time is up.
func TestManyBadClientsCostLittleAndEnd(t *testing.T) {
	const idle, halfOpen, readers, writers = 2000, 500, 20, 20
	raiseFileLimit(t, 3*(idle+halfOpen))
	// Idle time outlasts the first measurements; frames and responses have a second, and 60 MB two more.
	s := serve(t, func(o *Options) {
		o.IdleTimeout, o.FrameTimeout, o.MinTransferRate = 15*time.Second, time.Second, 32<<20
	})
	fill(t, s, "t", 60)
	roundTrip(t, from(t, s, "127.0.0.9"))
	before, goroutines := heap(), runtime.NumGoroutine()

	start := time.Now()
	for i := range idle {
		roundTrip(t, from(t, s, fmt.Sprintf("127.0.1.%d", 1+i%200)))
	}
	waitFor(t, "the idle connections", func() bool { return s.Stats().Connections == idle+1 })
	each := (heap() - before) / idle
	if each > 32<<10 {
		t.Errorf("an idle connection costs %d bytes, its client's end included", each)
	}
	if n := runtime.NumGoroutine() - goroutines; n > 2*idle+20 {
		t.Errorf("%d idle connections have %d goroutines", idle, n)
	}
	t.Logf("%d idle connections after %v: %d bytes each", idle, time.Since(start), each)

	for i := range halfOpen {
		c := from(t, s, fmt.Sprintf("127.0.2.%d", 1+i%200))
		c.Write([]byte{0, 0, 1, 0, 0, 3}[:1+i%6])
	}
	for range readers {
		c := from(t, s, "127.0.3.1")
		c.Write(request1(1, fetchAll("t")))
		io.ReadFull(c, make([]byte, 100_000))
	}
	part := make([]byte, 300_000)
	for range writers {
		c := from(t, s, "127.0.4.1")
		c.Write(append(binary.BigEndian.AppendUint32(nil, 60<<20), append(rawHeader(0, 9, 1), part...)...))
	}
	held := heap() - before
	// Half of what all may hold, twice for what is being written, and what connections cost themselves.
	if bound := s.external.fetching.Most()*2 + s.external.bytes.Most() + int64(idle+halfOpen)*32<<10; held > bound {
		t.Errorf("%d MiB are held, the bound is %d MiB", held>>20, bound>>20)
	}
	took := roundTrip(t, from(t, s, "127.0.0.9"))
	other := from(t, s, "127.0.0.10")
	other.Write(request1(2, fetchAll("t")))
	if n := len(readFramed(t, other)); n < 1<<20 {
		t.Errorf("another host read %d bytes", n)
	}
	other.Close()
	t.Logf("with bad clients: %d MiB held, a round trip takes %v", held>>20, took)

	for over := time.Now().Add(40 * time.Second); s.Stats().Connections > 0; {
		if time.Now().After(over) {
			t.Fatalf("%d connections are still open", s.Stats().Connections)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !freeAll(s.external) {
		t.Error("bytes were not given back")
	}
	s.external.mu.Lock()
	hosts := len(s.external.hosts)
	s.external.mu.Unlock()
	if hosts > 0 {
		t.Errorf("%d hosts are remembered", hosts)
	}
	closed := s.Stats().Closed
	// A reader that got a small answer, as its host holds its share already, is idle in the end.
	if closed["idle"] < idle || closed["slow"] <= halfOpen+writers || closed["idle"]+closed["slow"] < idle+halfOpen+readers+writers {
		t.Errorf("closed: %v", closed)
	}
	waitFor(t, "their goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines+10 })
	if left := heap() - before; left > 24<<20 { // the test's own ends are still there
		t.Errorf("%d MiB are left", left>>20)
	}
}

func raiseFileLimit(t *testing.T, n uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur >= n {
		return
	}
	limit.Cur = min(n, limit.Max)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < n {
		t.Skipf("needs %d open files, may have %d: %v", n, limit.Max, err)
	}
}

// A flood of connections from one address is refused beyond its share; others get in.
func TestOneHostCannotTakeAllConnections(t *testing.T) {
	s := serve(t, func(o *Options) { o.MaxConnections, o.MaxConnectionsPerIP = 60, 40 })
	for range 100 {
		from(t, s, "127.0.5.1")
	}
	waitFor(t, "refusals", func() bool { return s.Stats().Refused["max_connections_per_ip"] == 60 })
	for range 13 {
		roundTrip(t, from(t, s, "127.0.5.2"))
	}
	// Two hosts have what is not kept for those that have few: 7 of 60, and few is one.
	refused := int64(0)
	turnedAway := func(host string) {
		t.Helper()
		c := from(t, s, host)
		if _, err := io.ReadAll(c); err != nil && !isReset(err) {
			t.Errorf("another one from %s: %v", host, err)
		}
		refused++
		waitFor(t, "a refusal", func() bool { return s.Stats().Refused["max_connections"] == refused })
	}
	turnedAway("127.0.5.2")
	for i := range 7 {
		host := fmt.Sprintf("127.0.5.%d", 3+i)
		roundTrip(t, from(t, s, host))
		turnedAway(host)
	}
	turnedAway("127.0.5.10")
	if n := s.logs.count("refused a connection"); n != 1 {
		t.Errorf("%d log lines about refused connections", n)
	}
}

// Slow writers of one host that promise large frames hold half of the bytes; large and small requests of others go on.
func TestOneHostCannotHoldAllBytes(t *testing.T) {
	s := serve(t, func(o *Options) { o.MaxRequestBytes, o.InFlightBytes = 4<<20, 8<<20 })
	big := "4000000"
	create(t, s, "t", 1, map[string]*string{"max.message.bytes": &big})
	var slow []net.Conn
	for range 10 {
		c := from(t, s, "127.0.6.1")
		go c.Write(append(binary.BigEndian.AppendUint32(nil, 4<<20), append(rawHeader(0, 9, 1), make([]byte, 3<<20)...)...))
		slow = append(slow, c)
	}
	waitFor(t, "the slow ones to hold what they may", func() bool { return s.external.bytes.Held() >= s.external.bytes.Most()*3/4 })
	other := from(t, s, "127.0.6.2")
	start := time.Now()
	if code := produceCode(t, other.Write, func() []byte { return readFramed(t, other) },
		produceRequest("t", -1, batchOf(string(bytes.Repeat([]byte("x"), 3_900_000))))); code != 0 {
		t.Errorf("a large batch of another host: code %d", code)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, c := range slow {
		c.Close()
	}
}

// A large frame that stops coming is given up in the time of a part of it, not of the whole.
func TestFramesMustKeepComing(t *testing.T) {
	s := serve(t, func(o *Options) { o.FrameTimeout, o.MinTransferRate = 300*time.Millisecond, 1<<20 })
	c := dial(t, s.addr) // 60 MB may take a minute
	start := time.Now()
	c.Write(append(binary.BigEndian.AppendUint32(nil, 60<<20), append(rawHeader(0, 9, 1), make([]byte, 3<<20)...)...))
	if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection stays open")
	}
	if took := time.Since(start); took > 6*time.Second {
		t.Errorf("given up after %v", took)
	}
	waitFor(t, "the count", func() bool { return s.Stats().Closed["slow"] == 1 })
}

// What comes byte by byte is given up when the frame's time is over.
func TestSlowlorisFrames(t *testing.T) {
	s := serve(t, func(o *Options) { o.FrameTimeout = 300 * time.Millisecond })
	c := dial(t, s.addr)
	frame := request1(1, kmsg.NewPtrMetadataRequest())
	frame = append(binary.BigEndian.AppendUint32(nil, 5000), append(frame[4:], make([]byte, 5000)...)...)
	start := time.Now()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for _, b := range frame {
		<-ticker.C
		if _, err := c.Write([]byte{b}); err != nil {
			break
		}
		if time.Since(start) > 8*time.Second {
			t.Fatal("the connection stays open")
		}
	}
	waitFor(t, "the count", func() bool { return s.Stats().Closed["slow"] == 1 })
}

func TestConnectionsAreKeptAlive(t *testing.T) {
	s := serve(t)
	roundTrip(t, dial(t, s.addr))
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.internal {
			continue
		}
		raw, err := c.socket.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var on, after int
		err = raw.Control(func(fd uintptr) {
			on, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
			after, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
		})
		if err != nil || on == 0 || after != int(keepAlive.Idle/time.Second) {
			t.Errorf("keep-alive %d after %d s, %v", on, after, err)
		}
	}
}

func TestHostsAreToldApart(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"10.0.0.1:1", "10.0.0.1:2", true},
		{"10.0.0.1:1", "10.0.0.2:1", false},
		{"10.0.0.1:1", "[::ffff:10.0.0.1]:9", true},
		{"[2001:db8::1]:1", "[2001:db8::ffff:1]:1", true},
		{"[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
		{"[fe80::1%eth0]:1", "[fe80::2%eth1]:1", true},
	} {
		a, b := net.TCPAddrFromAddrPort(mustAddr(t, c.a)), net.TCPAddrFromAddrPort(mustAddr(t, c.b))
		if got := hostOf(a) == hostOf(b); got != c.same {
			t.Errorf("%s and %s are one host: %t", c.a, c.b, got)
		}
	}
}

func mustAddr(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
