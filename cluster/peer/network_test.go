package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is two networks, 1 and 2.
type pair struct {
	t     *testing.T
	nets  map[int32]*Network
	addrs map[int32]string

	mu    sync.Mutex
	got   map[int32][][]byte // by receiver
	lost  map[int32]int      // by sender
	gone  map[int32]int      // by who noticed
	check func(Hello) error
	logs  bytes.Buffer

	secure   map[int32]*tls.Config // by node; missing: in the clear
	versions map[int32][2]int      // by node: version and lowest one; this release's where it is not set
}

func newPair(t *testing.T) *pair {
	p := &pair{
		t: t, nets: map[int32]*Network{}, addrs: map[int32]string{}, got: map[int32][][]byte{}, lost: map[int32]int{}, gone: map[int32]int{},
		versions: map[int32][2]int{}, check: func(Hello) error { return nil },
	}
	for id := int32(1); id <= 2; id++ {
		p.start(id)
	}
	t.Cleanup(func() {
		for id := range p.nets {
			p.stop(id)
		}
	})
	return p
}

type lockedWriter struct{ p *pair }

func (w lockedWriter) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return w.p.logs.Write(b)
}

func (p *pair) start(id int32) {
	p.t.Helper()
	address := p.addrs[id]
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		p.t.Fatal(err)
	}
	address = l.Addr().String()
	p.addrs[id] = address
	var client func() *tls.Config
	if p.secure[id] != nil {
		client = func() *tls.Config { return p.secure[id] }
	}
	p.nets[id] = New(l, Options{
		ServerTLS: p.secure[id], ClientTLS: client,
		Self: func() Identity {
			return Identity{Cluster: "c", Node: id, Disk: fmt.Sprint("disk", id), Address: address}
		},
		Addresses: func(node int32) []string { return []string{p.addrs[node]} },
		Check:     func(h Hello) error { return p.check(h) },
		Receive: func(from int32, frame []byte) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.got[id] = append(p.got[id], frame)
			if bytes.Equal(frame, unreadable) {
				return errFrame
			}
			return nil
		},
		Serve: map[Kind]func(net.Conn, Identity){
			Call: func(c net.Conn, from Identity) {
				_ = Answer(context.Background(), c, from, func(_ context.Context, from Identity, b []byte) []byte {
					return fmt.Appendf(nil, "%d of %d: %s", id, from.Node, b)
				})
			},
		},
		Lost: func(int32) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.lost[id]++
		},
		Gone: func(int32) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.gone[id]++
		},
		Logger: slog.New(slog.NewTextHandler(lockedWriter{p}, nil)), Version: p.versions[id][0], MinVersion: p.versions[id][1],
	})
}

func (p *pair) stop(id int32) {
	if n := p.nets[id]; n != nil {
		if err := n.Close(); err != nil {
			p.t.Error(err)
		}
		p.nets[id] = nil
	}
}

func (p *pair) eventually(what string, ok func() bool) {
	p.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		p.mu.Lock()
		done := ok()
		p.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: got %d frames, lost %v, gone %v\n%s", what, len(p.got[2]), p.lost, p.gone, &p.logs)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestFramesArriveInOrder: of one kind, whole, large ones and small ones.
func TestFramesArriveInOrder(t *testing.T) {
	p := newPair(t)
	const n = 200
	for i := range n {
		size := 8
		if i%50 == 0 {
			size = 3 << 20
		}
		b := make([]byte, size)
		binary.BigEndian.PutUint64(b, uint64(i))
		for !p.nets[1].Send(2, Append, Frame{b}) {
			time.Sleep(time.Millisecond)
		}
	}
	p.eventually("frames", func() bool { return len(p.got[2]) == n })
	for i, b := range p.got[2] {
		if got := binary.BigEndian.Uint64(b); got != uint64(i) {
			t.Fatalf("frame %d is %d", i, got)
		}
	}
}

// TestAProcessThatEndsIsNoticed: at once, and it is heard again when it is back.
func TestAProcessThatEndsIsNoticed(t *testing.T) {
	p := newPair(t)
	p.nets[1].Send(2, Control, Frame{[]byte("a")})
	p.eventually("first frame", func() bool { return len(p.got[2]) == 1 })
	began := time.Now()
	p.stop(2)
	p.eventually("gone", func() bool { return p.gone[1] > 0 })
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("noticed after %v", took)
	}
	p.start(2)
	p.eventually("frame after the restart", func() bool {
		p.nets[1].Send(2, Control, Frame{[]byte("b")})
		return len(p.got[2]) > 1
	})
}

// TestNobodyThereCostsNothing: frames to a node that does not answer are dropped, and bounded while they wait (invariant 9).
func TestNobodyThereCostsNothing(t *testing.T) {
	p := newPair(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p.addrs[3] = silent.Addr().String()
	dropped := 0
	for range 200 {
		if !p.nets[1].Send(3, Append, Frame{make([]byte, 1<<20)}) {
			dropped++
		}
	}
	if s := p.nets[1].Stats(); s.QueueBytes > appendBytes || dropped == 0 {
		t.Errorf("%d bytes wait, %d frames were dropped", s.QueueBytes, dropped)
	}
	p.eventually("loss", func() bool { return p.lost[1] > 0 })
	if p.gone[1] != 0 {
		t.Error("a node that is silent is taken for one that has ended")
	}
}

func TestCalls(t *testing.T) {
	p := newPair(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b, err := p.nets[1].Call(ctx, 2, []byte("hello"))
	if err != nil || string(b) != "2 of 1: hello" {
		t.Errorf("%q, %v", b, err)
	}
	b, id, err := p.nets[2].CallAddress(ctx, p.addrs[1], []byte("x"))
	if err != nil || string(b) != "1 of 2: x" || id.Node != 1 || id.Disk != "disk1" {
		t.Errorf("%q of %+v, %v", b, id, err)
	}
	if _, err := p.nets[1].Call(ctx, 7, nil); err == nil || !strings.Contains(err.Error(), "node 7: its address is not known") {
		t.Error(err)
	}
	// Another node than the one that is meant answers there.
	p.addrs[5] = p.addrs[2]
	if _, err := p.nets[1].Call(ctx, 5, nil); err == nil || !strings.Contains(err.Error(), "node 2 answers at") {
		t.Error(err)
	}
	gone, cancelGone := context.WithCancel(ctx)
	cancelGone()
	if _, err := p.nets[1].Call(gone, 2, nil); err == nil {
		t.Error("a call whose context has ended is answered")
	}
}

// TestWhoIsTurnedAwayHearsWhy: the reason reaches the caller, and its log once.
func TestWhoIsTurnedAwayHearsWhy(t *testing.T) {
	p := newPair(t)
	p.check = func(h Hello) error { return fmt.Errorf("node %d is of another cluster; correct cluster.peers", h.Node) }
	_, err := p.nets[1].Call(context.Background(), 2, nil)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "correct cluster.peers") {
		t.Errorf("%v", err)
	}
	for range 20 {
		p.nets[1].Send(2, Control, Frame{[]byte("x")})
		time.Sleep(20 * time.Millisecond)
	}
	p.eventually("refusal", func() bool { return strings.Contains(p.logs.String(), "a peer refuses this node") })
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := strings.Count(p.logs.String(), "a peer refuses this node"); n != 1 {
		t.Errorf("said %d times", n)
	}
	if len(p.got[2]) != 0 {
		t.Error("frames of a node that was turned away arrived")
	}
}

// TestReleasesAsideWorkTogether: nodes of two releases that follow each other speak; of others each says which one is too old, whoever calls.
func TestReleasesAsideWorkTogether(t *testing.T) {
	p := newPair(t)
	for _, c := range []struct {
		name     string
		one, two [2]int
		want     string
	}{
		{"the next release", [2]int{2, 1}, [2]int{1, 1}, ""},
		{"of one line", [2]int{3, 2}, [2]int{2, 1}, ""},
		{"two releases apart", [2]int{3, 2}, [2]int{1, 1}, "node 2 speaks version 1 between nodes, this release needs 2; upgrade it first"},
	} {
		for id, v := range map[int32][2]int{1: c.one, 2: c.two} {
			p.stop(id)
			p.versions[id] = v
			p.start(id)
		}
		for from, to := range map[int32]int32{1: 2, 2: 1} {
			_, err := p.nets[from].Call(t.Context(), to, []byte("x"))
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: node %d calls: %v", c.name, from, err)
			}
		}
	}
}

// TestStrangers: whatever calls, it is answered or cut off, and the others go on.
func TestStrangers(t *testing.T) {
	p := newPair(t)
	frame := func(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }
	for name, say := range map[string][]byte{
		"HTTP":               []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"a huge frame":       {0xff, 0xff, 0xff, 0xff},
		"no JSON":            frame([]byte("hello?")),
		"an old version":     frame([]byte(`{"version":0,"kind":"call","node":9}`)),
		"an unknown kind":    frame([]byte(`{"version":1,"kind":"gossip","node":9}`)),
		"a negative node":    frame([]byte(`{"version":1,"kind":"append","cluster":"c","node":-9}`)),
		"an unreadable one":  append(frame([]byte(`{"version":1,"kind":"append","cluster":"c","node":9}`)), frame(unreadable)...),
		"a huge later frame": append(frame([]byte(`{"version":1,"kind":"append","cluster":"c","node":9}`)), 0xff, 0xff, 0xff, 0xff),
	} {
		c, err := net.Dial("tcp", p.addrs[2])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(say); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays", name)
		}
		_ = c.Close()
	}
	p.nets[1].Send(2, Append, Frame{[]byte("still here")})
	p.eventually("a frame of a peer", func() bool {
		return slices.ContainsFunc(p.got[2], func(b []byte) bool { return string(b) == "still here" })
	})
}

// unreadable is a frame that the receiver makes nothing of.
var unreadable = []byte("unreadable")

// TestAFloodOfStrangers: connections that say nothing keep no node out, however many there are, and little is said of them.
func TestAFloodOfStrangers(t *testing.T) {
	p := newPair(t)
	var silent []net.Conn
	for range 2 * maxStrangers {
		c, err := net.Dial("tcp", p.addrs[2])
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
	}
	defer func() {
		for _, c := range silent {
			_ = c.Close()
		}
	}()
	p.nets[1].Send(2, Append, Frame{[]byte("let me in")})
	p.eventually("a frame of a peer", func() bool { return len(p.got[2]) == 1 })
	if open := p.nets[2].Stats().Accepted; open > maxStrangers+2 {
		t.Errorf("%d connections are open", open)
	}
	for i := range 10 * warnBurst {
		c, err := net.Dial("tcp", p.addrs[2])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte{0xff, 0xff, 0xff, byte(i)})
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := strings.Count(p.logs.String(), "turned away"); n == 0 || n > 2*warnBurst {
		t.Errorf("%d warnings about %d callers", n, 10*warnBurst)
	}
}

// TestALengthAloneCostsNothing: room for a frame grows with what arrives of it.
func TestALengthAloneCostsNothing(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 16 {
		said := append([]byte{0x02, 0xff, 0xff, 0xff}, "a little"...)
		if _, err := ReadFrame(bytes.NewReader(said), maxFrameBytes); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 20*firstBytes {
		t.Errorf("%d bytes for 16 lengths", got)
	}
	for _, n := range []int{0, 1, firstBytes, firstBytes + 1, 9 * firstBytes} {
		b := bytes.Repeat([]byte{7}, n)
		var w bytes.Buffer
		if err := WriteFrame(&w, b); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadFrame(&w, maxFrameBytes); err != nil || !bytes.Equal(got, b) {
			t.Errorf("a frame of %d bytes: %d bytes, %v", n, len(got), err)
		}
	}
}

// FuzzHello: whatever comes first ends with a hello or an error.
func FuzzHello(f *testing.F) {
	f.Add([]byte(`{"version":1,"kind":"call","cluster":"c","node":2,"disk":"d"}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		var h Hello
		_ = readJSON(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)), &h)
	})
}

// TestTheEndWhileARefusalIsRead: what ends a connection with its node may come right behind what ended it before.
func TestTheEndWhileARefusalIsRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	})
	for range 2000 {
		life, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, _, _, err := open(t.Context(), life, l.Addr().String(), nil, Hello{}, 1); err == nil {
				t.Error("a connection that was closed is one to a node")
			}
			end()
		}()
		if rand.IntN(2) == 0 {
			time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
			end()
		}
		<-done
	}
	_ = l.Close()
	wg.Wait()
}
