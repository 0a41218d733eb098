package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// arena counts who runs what, and fails when two do at a time.
type arena struct {
	t    *testing.T
	mu   sync.Mutex
	runs map[string]int // task -> node that runs it
	seen map[string]int // task -> times it was started
	told []string       // what was asked of tasks, and on which node
}

func (a *arena) enter(task string, node int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if other, busy := a.runs[task]; busy {
		a.t.Errorf("%s runs on node %d and on node %d", task, other, node)
	}
	a.runs[task] = node
	a.seen[task]++
}

func (a *arena) exit(task string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.runs, task)
}

func (a *arena) on(task string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs[task]
}

func (a *arena) starts(task string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[task]
}

func (a *arena) nodes() (all []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.runs {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// wire is a node's network, which can be cut: what is on the way stays there, and nothing tells either side.
type wire struct{ cut chan struct{} }

func newWire() *wire { return &wire{cut: make(chan struct{})} }

func (w *wire) sever() { close(w.cut) }

type wireConn struct {
	net.Conn
	w *wire
}

func (c *wireConn) Write(b []byte) (int, error) {
	select {
	case <-c.w.cut:
		return len(b), nil // into the void
	default:
		return c.Conn.Write(b)
	}
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	select {
	case <-w.cut:
		<-ctx.Done()
		return nil, ctx.Err()
	default:
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wireConn{c, w}, nil
}

type node struct {
	*Node
	stop func()
}

func newLog(t *testing.T) []string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()
}

func (a *arena) task(node int, name string) Task {
	return Task{
		Name: name,
		Run: func(ctx context.Context) error {
			a.enter(name, node)
			defer a.exit(name)
			<-ctx.Done()
			return ctx.Err()
		},
		State: func() string { return "running" }, Status: func() any { return map[string]string{"state": "running"} },
		Failed: func(error) {}, Recovered: func() {},
		Ask: func(_ context.Context, what json.RawMessage) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.told = append(a.told, fmt.Sprintf("%s on %d: %s", name, node, what))
		},
	}
}

func newArena(t *testing.T) *arena {
	return &arena{t: t, runs: map[string]int{}, seen: map[string]int{}}
}

func run(t *testing.T, seeds []string, id int, w *wire, tasks ...Task) *node {
	t.Helper()
	opts := []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(50 * time.Millisecond)}
	if w != nil {
		opts = append(opts, kgo.Dialer(w.dial))
	}
	g := New(Options{Client: opts, Node: int32(id), Tasks: tasks, Logger: slog.New(slog.NewTextHandler(testWriter{t}, nil)).With("node", id)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { g.Run(ctx); close(done) }()
	var once sync.Once
	n := &node{Node: g, stop: func() { once.Do(func() { cancel(); <-done }) }}
	t.Cleanup(n.stop)
	return n
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func (a *arena) start(seeds []string, id int, w *wire, names ...string) *node {
	a.t.Helper()
	var tasks []Task
	for _, name := range names {
		tasks = append(tasks, a.task(id, name))
	}
	return run(a.t, seeds, id, w, tasks...)
}

func until(t *testing.T, what string, within time.Duration, check func() (bool, any)) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		ok, got := check()
		if ok {
			return time.Since(began)
		}
		if time.Since(began) > within {
			t.Fatalf("%s: not within %s: %v", what, within, got)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestOneNodeRunsAll(t *testing.T) {
	a := newArena(t)
	n := a.start(newLog(t), 1, nil, "connector/a", "sink/b", "sink/c")
	until(t, "all run", 20*time.Second, func() (bool, any) { return len(a.nodes()) == 3, a.nodes() })
	if at := n.Where("sink/b"); !at.Here || at.Node != 1 {
		t.Errorf("%+v", at)
	}
}

// TestNodesShare: three nodes share the tasks; one that stops hands its own on, and one that is cut off stops them by itself before
// others start them.
func TestNodesShare(t *testing.T) {
	names := namesApart(6)
	seeds, a, cable := newLog(t), newArena(t), newWire()
	a.start(seeds, 1, nil, names...)
	second := a.start(seeds, 2, cable, names...)
	third := a.start(seeds, 3, nil, names...)
	even := func(want ...int) func() (bool, any) {
		return func() (bool, any) { got := a.nodes(); return slices.Equal(got, want), got }
	}
	until(t, "two each", 30*time.Second, even(1, 1, 2, 2, 3, 3))
	if second.Fenced() != nil {
		t.Error(second.Fenced())
	}
	third.stop()
	until(t, "a stopped node's tasks", 10*time.Second, even(1, 1, 1, 2, 2, 2))
	cable.sever()
	took := until(t, "a node that is cut off", 20*time.Second, even(1, 1, 1, 1, 1, 1))
	t.Logf("moved %s after the cut", took)
	if took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}

// TestWhereAndRestart: a node knows of the tasks of others, and restarts them.
func TestWhereAndRestart(t *testing.T) {
	names := namesApart(2)
	seeds, a := newLog(t), newArena(t)
	one := a.start(seeds, 1, nil, names...)
	two := a.start(seeds, 2, nil, names...)
	until(t, "one each", 30*time.Second, func() (bool, any) { return slices.Equal(a.nodes(), []int{1, 2}), a.nodes() })
	far := names[0]
	if a.on(far) == 1 {
		far = names[1]
	}
	until(t, "node 1 hears of node 2's", 20*time.Second, func() (bool, any) {
		at := one.Where(far)
		return !at.Here && at.Node == 2 && string(at.Status) == `{"state":"running"}`, at
	})
	before := a.starts(far)
	if at, err := one.Restart(context.Background(), far); err != nil || at.Node != 2 {
		t.Fatalf("%+v, %v", at, err)
	}
	until(t, "a restart on another node", 20*time.Second, func() (bool, any) { return a.starts(far) == before+1 && a.on(far) == 2, a.starts(far) })
	if _, err := two.Restart(context.Background(), far); err != nil {
		t.Fatal(err)
	}
	until(t, "a restart here", 20*time.Second, func() (bool, any) { return a.starts(far) == before+2 && a.on(far) == 2, a.starts(far) })
	for _, what := range []string{`{"n":1}`, `{"n":2}`} {
		if err := one.Ask(context.Background(), far, json.RawMessage(what)); err != nil {
			t.Fatal(err)
		}
	}
	want := fmt.Sprintf(`%[1]s on 2: {"n":1}, %[1]s on 2: {"n":2}`, far)
	until(t, "questions from another node, once each", 20*time.Second, func() (bool, any) {
		a.mu.Lock()
		defer a.mu.Unlock()
		got := slices.Sorted(slices.Values(a.told)) // they are answered side by side
		return strings.Join(got, ", ") == want, got
	})
}

// TestSameNumber: of two processes with one number the first is fenced, stops and says so, and does not fence back.
func TestSameNumber(t *testing.T) {
	seeds, a := newLog(t), newArena(t)
	first := a.start(seeds, 1, nil, "sink/a")
	until(t, "it runs", 20*time.Second, func() (bool, any) { return a.on("sink/a") == 1, a.nodes() })
	b := newArena(t)
	b.start(seeds, 1, nil, "sink/a")
	until(t, "the first is fenced", 20*time.Second, func() (bool, any) {
		err := first.Fenced()
		return err != nil && strings.Contains(err.Error(), "give each node its own") && a.on("sink/a") == 0, err
	})
	until(t, "the second runs", 20*time.Second, func() (bool, any) { return b.on("sink/a") == 1, b.nodes() })
	if at := first.Where("sink/a"); at.Here || !strings.Contains(at.Why, "node.id") {
		t.Errorf("%+v", at)
	}
}

// TestFailedNeighbours: a task that panics and one that fails leave the others alone, and are restarted when asked for.
func TestFailedNeighbours(t *testing.T) {
	seeds, a := newLog(t), newArena(t)
	var mu sync.Mutex
	failures := map[string]error{}
	broken := func(name string, how func()) Task {
		task := a.task(1, name)
		task.Run = func(context.Context) error { how(); return errors.New("no such target") }
		task.Failed = func(err error) { mu.Lock(); failures[name] = err; mu.Unlock() }
		task.Recovered = func() { mu.Lock(); delete(failures, name); mu.Unlock() }
		return task
	}
	failure := func(name string) string {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprint(failures[name])
	}
	tries := 0
	n := run(t, seeds, 1, nil, broken("connector/bad", func() { panic("oh") }),
		broken("sink/dead", func() { mu.Lock(); tries++; mu.Unlock() }), a.task(1, "sink/good"))
	until(t, "all were tried", 20*time.Second, func() (bool, any) {
		return strings.Contains(failure("connector/bad"), "stopped by a defect: oh") && failure("sink/dead") == "no such target" && a.on("sink/good") == 1, failures
	})
	if _, err := n.Restart(context.Background(), "sink/dead"); err != nil {
		t.Fatal(err)
	}
	until(t, "tried again", 20*time.Second, func() (bool, any) { mu.Lock(); defer mu.Unlock(); return tries == 2, tries })
	if !n.Where("sink/dead").Here {
		t.Error("a failed task is not here any more")
	}
}
