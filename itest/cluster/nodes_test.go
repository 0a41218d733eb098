package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/process"
)

// nodes are processes that name each other in their files.
type nodes struct {
	t     *testing.T
	bin   string
	procs []*process.Rowtrail
	peers []string // as YAML

	more func(id int) (cluster, listen string) // YAML of further keys of these sections; nil: none
	dial *tls.Config                           // of clients; nil: in the clear
}

func binary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs several processes of the binary; run without -short")
	}
	path, err := process.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := process.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// newNodes writes the files of n nodes; none is started.
func newNodes(t *testing.T, n int) *nodes {
	t.Helper()
	return (&nodes{t: t, bin: binary(t)}).write(n)
}

func (c *nodes) write(n int) *nodes {
	t := c.t
	t.Helper()
	addresses := make([]string, n)
	for i := range n {
		addresses[i] = freeAddress(t)
		c.peers = append(c.peers, fmt.Sprintf("{id: %d, address: %q}", i+1, addresses[i]))
	}
	for i := range n {
		c.procs = append(c.procs, c.node(t.TempDir(), i+1, addresses[i], c.peers, nil))
	}
	return c
}

// node writes the file of one node, in a directory of its own, and ends its process with the test.
func (c *nodes) node(dir string, id int, address string, peers []string, more map[string]string) *process.Rowtrail {
	c.t.Helper()
	section := map[string]string{"id": fmt.Sprint(id), "rack": fmt.Sprint("rack-", id), "min_free_bytes": "1MiB"}
	for k, v := range more {
		section[k] = v
	}
	var between, listen string
	if c.more != nil {
		between, listen = c.more(id)
	}
	r, err := process.New(c.bin, dir, process.Config{
		Node: section, Log: map[string]string{"min.insync.replicas": "2"}, ListenMore: listen,
		More: fmt.Sprintf("cluster:\n  listen: %q\n  replica_lag_time_max: 5s\n  peers: [%s]\n%s", address, strings.Join(peers, ", "), between),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("node %d:\n%s", id, r.Tail(15))
		}
		if err := r.Kill(); err != nil {
			c.t.Error(err)
		}
	})
	return r
}

// start starts processes and waits until all are ready.
func (c *nodes) start(procs ...*process.Rowtrail) {
	c.t.Helper()
	for _, r := range procs {
		if err := r.Start(); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, r := range procs {
		if err := r.WaitReady(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
}

// whole waits until the cluster is, as one node says.
func (c *nodes) whole(at *process.Rowtrail) {
	c.t.Helper()
	if _, err := at.CLI(c.t.Context(), "cluster", "status", "--wait", "90s"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *nodes) seeds() []string {
	var out []string
	for _, r := range c.procs {
		out = append(out, r.Kafka)
	}
	return out
}

func (c *nodes) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	if c.dial != nil {
		opts = append(opts, kgo.DialTLSConfig(c.dial))
	}
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.seeds()...)}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// said waits until a process has written a text.
func said(t *testing.T, r *process.Rowtrail, text string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		b, err := os.ReadFile(r.LogFile())
		if err == nil && strings.Contains(string(b), text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q was not said:\n%s", text, r.Tail(15))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// ends waits until a process has ended with an error, and returns its last line.
func ends(t *testing.T, r *process.Rowtrail) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := r.WaitReady(ctx); err == nil || !strings.Contains(err.Error(), "ended while starting") {
		t.Fatalf("the process did not end: %v", err)
	}
	return r.Tail(1)
}

// endsAtLast is ends for a process that may have been ready.
func endsAtLast(t *testing.T, r *process.Rowtrail) string {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		if running, exit := r.Runs(); !running {
			if exit == nil {
				t.Fatal("the process ended without an error")
			}
			return r.Tail(1)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the process runs on:\n%s", r.Tail(15))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func dataOf(r *process.Rowtrail) string { return filepath.Join(r.Dir, "data") }
