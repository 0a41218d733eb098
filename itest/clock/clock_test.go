package clock

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// The test's own binary is the process whose clock is moved: it answers lines with its time.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_CLOCK") != "" {
		start := time.Now()
		for s := bufio.NewScanner(os.Stdin); s.Scan(); {
			fmt.Println(time.Now().UnixMilli(), time.Since(start).Milliseconds())
		}
		return
	}
	os.Exit(m.Run())
}

func TestTheWallClockOfAProcessMovesAlone(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TEST_CLOCK=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	lines := bufio.NewReader(out)
	ask := func() (ahead, since time.Duration) {
		t.Helper()
		fmt.Fprintln(in)
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var wall, ms int64
		if _, err := fmt.Sscan(line, &wall, &ms); err != nil {
			t.Fatal(err)
		}
		return time.Until(time.UnixMilli(wall)).Round(10 * time.Second), time.Duration(ms) * time.Millisecond
	}
	ask()
	c, err := Take(cmd.Process.Pid)
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{0, 20 * time.Minute, -20 * time.Minute, 0} {
		if err := c.Set(d); err != nil {
			t.Fatal(err)
		}
		if ahead, since := ask(); ahead != d || since < 0 || since > time.Minute {
			t.Errorf("moved by %s: the clock is ahead by %s, and %s have passed", d, ahead, since)
		}
	}
}
