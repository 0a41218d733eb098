package broker

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
	"log/slog"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
		goleak.IgnoreAnyFunction("go.opencensus.io/stats/view.(*worker).start"),
	)
}

// logLines collects log lines for tests that count them.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

func (l *logLines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, s := range l.lines {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "")
}

// served is a broker of a real node in a directory of its own.
type served struct {
	*Broker
	store *log.Store
	addr  string
	logs  *logLines
}

func serve(t testing.TB, change ...func(*Options)) *served {
	t.Helper()
	return serveWith(t, nil, change...)
}

// serveWith is serve on a node with defaults of topics.
func serveWith(t testing.TB, defaults map[string]string, change ...func(*Options)) *served {
	t.Helper()
	store, err := log.Open(t.TempDir(), log.Options{MinFreeBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	node, err := cluster.Start(t.Context(), cluster.Options{NodeID: 1, Store: store, TopicDefaults: defaults})
	if err != nil {
		store.Close()
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	logs := &logLines{}
	opts := Options{
		Node: node, AdvertisedHost: "127.0.0.1", AdvertisedPort: int32(l.Addr().(*net.TCPAddr).Port),
		Logger: slog.New(slog.NewTextHandler(logs, nil)), AutoCreateTopics: true,
	}
	for _, f := range change {
		f(&opts)
	}
	b, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	served := &served{Broker: b, store: store, addr: l.Addr().String(), logs: logs}
	done := make(chan error, 1)
	go func() { done <- b.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Shutdown(ctx); err != nil {
			t.Errorf("shut down: %v", err)
		}
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("Serve returned %v", err)
		}
		if err := node.Stop(ctx); err != nil {
			t.Errorf("stop node: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
		if n := logs.count("request handler failed"); n > 0 {
			t.Errorf("%d handlers panicked:\n%s", n, logs)
		}
	})
	return served
}

// client is a kgo client over TCP, or in process.
func (s *served) client(t testing.TB, inProcess bool, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts = append([]kgo.Opt{kgo.SeedBrokers(s.addr)}, opts...)
	if inProcess {
		opts = append(opts, kgo.Dialer(s.Dialer()))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}
