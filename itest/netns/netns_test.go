package netns

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// The test's own binary is the server that runs on a host: it echoes lines.
func TestMain(m *testing.M) {
	if address := os.Getenv("NETNS_TEST_SERVE"); address != "" {
		serve(address)
		return
	}
	if spec := os.Getenv("NETNS_TEST_ASK"); spec != "" {
		took, err := ask(spec)
		fmt.Println(took.Milliseconds(), err)
		return
	}
	os.Exit(m.Run())
}

func serve(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for s := bufio.NewScanner(c); s.Scan(); {
				fmt.Fprintln(c, s.Text())
			}
		}()
	}
}

// ask sends a line over a connection of its own and waits for its echo.
func ask(address string) (time.Duration, error) {
	start := time.Now()
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.SetDeadline(start.Add(2 * time.Second)); err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintln(c, "x"); err != nil {
		return 0, err
	}
	_, err = bufio.NewReader(c).ReadString('\n')
	return time.Since(start), err
}

const testPort = 7000

// start runs the server on every host.
func start(t *testing.T, hosts int) *Network {
	t.Helper()
	if err := Permitted(); err != nil {
		t.Skip(err)
	}
	n, err := New(hosts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, h := range n.Hosts {
		args := append(h.Command(), os.Args[0])
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), fmt.Sprintf("NETNS_TEST_SERVE=%s:%d", h.Address, testPort))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatalf("the server says %q", line)
		}
	}
	return n
}

// reach tells how long a question from one host to another takes; negative: no answer.
func reach(t *testing.T, from, to *Host) int {
	t.Helper()
	return reachAddress(t, from, fmt.Sprintf("%s:%d", to.Address, testPort))
}

func reachAddress(t *testing.T, from *Host, address string) int {
	t.Helper()
	args := append(from.Command(), os.Args[0])
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "NETNS_TEST_ASK="+address)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var ms int
	var text string
	fmt.Sscan(string(out), &ms, &text)
	if text != "<nil>" {
		return -1
	}
	return ms
}

func TestHostsAndTheirFaults(t *testing.T) {
	n := start(t, 3)
	a, b, c := n.Hosts[0], n.Hosts[1], n.Hosts[2]
	link := func(what string, from, to *Host, want bool) {
		t.Helper()
		if got := reach(t, from, to) >= 0; got != want {
			t.Errorf("%s: from %s to %s: %v", what, from.ns, to.ns, got)
		}
	}
	undo := func(u Undo, err error) func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			t.Helper()
			if err := u(); err != nil {
				t.Fatal(err)
			}
			link("healed", a, b, true)
			link("healed", b, a, true)
			link("healed", a, c, true)
		}
	}
	if _, err := ask(fmt.Sprintf("%s:%d", a.Address, testPort)); err != nil {
		t.Errorf("from outside: %v", err)
	}
	link("whole", a, b, true)

	heal := undo(a.Part(b))
	link("parted", a, b, false)
	link("parted", b, a, false)
	link("parted", a, c, true)
	heal()

	heal = undo(a.Refuse(b))
	link("refused", a, b, false)
	link("refused", b, c, true)
	heal()

	heal = undo(a.Deafen(n.Outer))
	if _, err := ask(fmt.Sprintf("%s:%d", a.Address, testPort)); err == nil {
		t.Error("a host hears what it should not")
	}
	link("deaf to the outside", a, b, true)
	heal()

	heal = undo(a.Lose(1))
	link("all lost", b, a, false)
	heal()

	heal = undo(a.Narrow(64 << 10))
	link("narrow", a, b, true)
	heal()

	heal = undo(a.Slow(100*time.Millisecond, 20*time.Millisecond, testPort, b))
	for _, pair := range [][2]*Host{{a, b}, {b, a}} {
		if ms := reach(t, pair[0], pair[1]); ms < 200 {
			t.Errorf("a slow line takes %d ms", ms)
		}
	}
	heal()
}

func TestHostsReachAForwardedAddress(t *testing.T) {
	n := start(t, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(c).ReadString('\n')
			fmt.Fprint(c, line)
			c.Close()
		}
	}()
	address, stop, err := n.Forward(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if reachAddress(t, n.Hosts[0], address) < 0 {
		t.Error("no answer")
	}
}

// What open connections carry is slowed down too: they are closed.
func TestASlowLineClosesWhatIsOpen(t *testing.T) {
	n := start(t, 2)
	if n.Hosts[0].on("tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", "1ms") == nil {
		t.Skip("this kernel has netem, which needs no connection to be closed")
	}
	r, err := startRelay(n.Outer+":0", fmt.Sprintf("%s:%d", n.Hosts[0].Address, testPort), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", r.address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintln(c, "x")
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("still open: %v", err)
	}
}
