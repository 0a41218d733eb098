package cluster

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log"
)

// killChildDir is set in the process that TestKill starts and kills.
const killChildDir = "ROWTRAIL_CLUSTER_KILL_CHILD"

const (
	killTopic      = "kill"
	killPartitions = 4
	killWindow     = 32
)

// runKillChild appends to every partition as fast as it can and prints a line once it is answered. It
// also creates and deletes topics, so that the catalogue is written, too.
func runKillChild(dir string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	store, err := log.Open(dir, log.Options{Logger: quiet(), MinFreeBytes: 1})
	if err != nil {
		fail(err)
	}
	ctx := context.Background()
	n, err := Start(ctx, Options{NodeID: 1, Store: store, Logger: quiet()})
	if err != nil {
		fail(err)
	}
	if n.Catalog().Topics[killTopic] == nil {
		if _, err := n.CreateTopic(ctx, TopicSpec{Name: killTopic, Partitions: killPartitions}); err != nil {
			fail(err)
		}
	}
	run := os.Getpid()
	for p := range int32(killPartitions) {
		r, err := n.Replica(killTopic, p)
		if err != nil {
			fail(err)
		}
		window := make(chan struct{}, killWindow)
		go func() {
			for i := 0; ; i++ {
				window <- struct{}{}
				value := fmt.Sprintf("%d/%d/%d", run, p, i)
				r.Append(ctx, batchOf(value), -1, func(a AppendResult) {
					if a.Err != nil {
						fail(a.Err)
					}
					fmt.Fprintf(os.Stdout, "append %d %d %s .\n", p, a.BaseOffset, value)
					<-window
				})
			}
		}()
	}
	for i := 0; ; i++ {
		name := fmt.Sprintf("t-%d-%d", run, i)
		if _, err := n.CreateTopic(ctx, TopicSpec{Name: name, Partitions: 1}); err != nil {
			fail(err)
		}
		fmt.Fprintf(os.Stdout, "create %s 0 0 .\n", name)
		if i%2 == 0 {
			if err := n.DeleteTopic(ctx, name); err != nil {
				fail(err)
			}
			fmt.Fprintf(os.Stdout, "delete %s 0 0 .\n", name)
		}
	}
}

// Invariant 1 under SIGKILL: what was answered is there after every restart, at its offset, and in order.
func TestKillKeepsAcknowledged(t *testing.T) {
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	dir := t.TempDir()
	type place struct {
		partition int32
		offset    int64
	}
	acked := map[place]string{}
	created, deleted := map[string]bool{}, map[string]bool{}
	for range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killChildDir+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		first := make(chan struct{})
		var once sync.Once
		var wg sync.WaitGroup
		wg.Add(1)
		go func() {
			defer wg.Done()
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				once.Do(func() { close(first) })
				var verb, a, b, c, end string
				if _, err := fmt.Sscan(lines.Text(), &verb, &a, &b, &c, &end); err != nil {
					continue // the last line, cut by the kill: every whole one ends in a dot
				}
				switch verb {
				case "create":
					created[a] = true
				case "delete":
					deleted[a] = true
				case "append":
					var at place
					if _, err := fmt.Sscan(a+" "+b, &at.partition, &at.offset); err != nil {
						t.Error(err)
					}
					if have, ok := acked[at]; ok {
						t.Errorf("%+v acknowledged for %s and for %s", at, have, c)
					}
					acked[at] = c
				}
			}
		}()
		select {
		case <-first:
		case <-time.After(20 * time.Second):
			t.Error("the child acknowledged nothing")
		}
		time.Sleep(time.Duration(20+rand.IntN(150)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		wg.Wait()
		if t.Failed() {
			return
		}
	}
	n := startNode(t, dir)
	defer n.close(t)
	var values [killPartitions][]string
	for p := range values {
		values[p] = valuesOf(t, n.replica(t, killTopic, int32(p)).Log())
		last := map[int]int{}
		for _, v := range values[p] {
			var run, part, i int
			if _, err := fmt.Sscanf(v, "%d/%d/%d", &run, &part, &i); err != nil || part != p {
				t.Fatalf("partition %d holds %q", p, v)
			}
			if want := last[run]; i != want {
				t.Fatalf("partition %d: run %d has %d where %d belongs", p, run, i, want)
			}
			last[run] = i + 1
		}
	}
	for at, v := range acked {
		if have := values[at.partition]; at.offset >= int64(len(have)) || have[at.offset] != v {
			t.Fatalf("acknowledged %s at %+v is lost", v, at)
		}
	}
	for name := range created {
		// The first delete may have been on its way when the process died.
		var run, i int
		if _, err := fmt.Sscanf(name, "t-%d-%d", &run, &i); err != nil {
			t.Fatal(err)
		}
		exists := n.Catalog().Topics[name] != nil
		if deleted[name] && exists || i%2 == 1 && !exists {
			t.Errorf("topic %s: exists %v, deleted %v", name, exists, deleted[name])
		}
	}
	if len(acked) < 100 || len(created) < 2 {
		t.Errorf("only %d appends and %d topics were acknowledged: the test says nothing", len(acked), len(created))
	}
	t.Logf("%d appends and %d topics acknowledged over %d kills", len(acked), len(created), rounds)
}
