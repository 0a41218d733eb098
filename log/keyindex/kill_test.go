package keyindex

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// killDirEnv makes the test binary the child that folds in this directory until it is killed.
const killDirEnv = "ROWTRAIL_KEYINDEX_KILL_DIR"

const killKeys = 997

func killKey(offset int64) []byte { return fmt.Appendf(nil, "key-%d", offset*7919%killKeys) }

// killChild folds one log for ever and prints how far it is committed.
func killChild(dir string) {
	x, err := open(dir, Options{}, 1<<20, limits{entries: 50, bytes: 1 << 10})
	if err != nil {
		panic(err)
	}
	next, err := x.Folded(1)
	if err != nil {
		panic(err)
	}
	fmt.Println(next)
	f := x.NewFold(1)
	for {
		for end := next + rand.Int64N(2000); next < end; next++ {
			if err := f.Put(killKey(next), next); err != nil {
				panic(err)
			}
		}
		if err := f.Commit(next); err != nil {
			panic(err)
		}
		fmt.Println(next)
	}
}

// TestKilledFold: after a SIGKILL at any moment the index is the fold of exactly the records below Folded, and of all that
// was committed.
func TestKilledFold(t *testing.T) {
	dir := t.TempDir()
	for round := range 8 {
		told := runUntilKilled(t, dir, time.Duration(50+rand.IntN(300))*time.Millisecond)
		x := small(t, dir)
		folded, err := x.Folded(1)
		if err != nil || folded < told {
			t.Fatalf("round %d: folded up to %d, %v; the child had committed %d", round, folded, err, told)
		}
		want := map[string]int64{}
		for o := max(0, folded-2*killKeys); o < folded; o++ {
			want[string(killKey(o))] = o
		}
		for o := range int64(killKeys) {
			key := string(killKey(o))
			at, ok := want[key]
			if !ok {
				at = -1
			}
			expect(t, x, 1, key, at)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// runUntilKilled lets a child fold for a while and returns the last offset that it told of.
func runUntilKilled(t *testing.T, dir string, after time.Duration) (told int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killDirEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the child did not open the index")
	}
	kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	for ok := true; ok; ok = lines.Scan() {
		if n, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
			told = max(told, n)
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}
	return told
}
