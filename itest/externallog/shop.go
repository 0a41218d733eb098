package externallog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/audit"
	"github.com/rowtrail/rowtrail/itest/pipeline"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/shop"
	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	drainTimeout = 3 * time.Minute
	pollEvery    = 100 * time.Millisecond
)

// Log is where the log is, and how nodes and this program get in.
type Log struct {
	Brokers []string
	YAML    string // further keys of log.kafka
	Client  []kgo.Opt
}

// Options of a Shop.
type Options struct {
	Binary string
	Dir    string
	Log    Log
	Nodes  int
	Seed   uint64
	Logf   func(format string, args ...any)
}

// Shop is two databases, and nodes that run the connector and the sink between them over a log elsewhere.
type Shop struct {
	Options
	pipeline.Pipeline
	Nodes []*process.Rowtrail // node.id 1, 2, ...

	size shop.Size
}

// Status is what a node says of a connector or sink.
type Status struct {
	Name, State, Error string
	Node               int
	Here               bool
}

// Open starts the databases, loads the source and starts the nodes.
func Open(ctx context.Context, opts Options) (*Shop, error) {
	s := &Shop{Options: opts, size: shop.Size{Customers: 1000, Products: 200, Orders: 1000, Items: 2000}}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Shop) open(ctx context.Context) error {
	if err := s.StartServers(ctx, pipeline.Options{Size: s.size, Logf: s.Logf}); err != nil {
		return err
	}
	connectors, sinks := pipeline.Tasks(s.Source.DSN, s.Target.DSN, 3)
	connectors[0].Config["topic.creation.default.retention.ms"] = "-1"
	for id := range s.Options.Nodes {
		dir := filepath.Join(s.Dir, "node-"+strconv.Itoa(id+1))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		node, err := process.New(s.Binary, dir, process.Config{
			Node: map[string]string{"id": strconv.Itoa(id + 1)}, Brokers: s.Log.Brokers, KafkaMore: s.Log.YAML,
			Connectors: connectors, Sinks: sinks,
		})
		if err != nil {
			return err
		}
		s.Nodes = append(s.Nodes, node)
		if err := node.Start(); err != nil {
			return err
		}
	}
	for _, node := range s.Nodes {
		if err := node.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close ends everything.
func (s *Shop) Close() error {
	var errs []error
	for _, node := range s.Nodes {
		_ = node.Resume() // it may be paused, or gone
		errs = append(errs, node.Kill())
	}
	return errors.Join(append(errs, s.Pipeline.Close())...)
}

// Loaded waits for the initial load; what is written from then on is audited.
func (s *Shop) Loaded(ctx context.Context) error {
	if _, _, err := s.Runner(ctx, "connectors", "streaming", drainTimeout); err != nil {
		return err
	}
	return s.Source.Audit.Watch(ctx)
}

// Work writes transactions.
func (s *Shop) Work(ctx context.Context, transactions int64, rate int) error {
	work := &shop.Workload{DB: s.Source.DB, Size: s.size, Sessions: 3, Seed: s.Seed, Rate: rate}
	return work.Run(ctx, transactions)
}

// Storm writes transactions while the first node is ended with SIGKILL and started again, at moments that the seed tells.
func (s *Shop) Storm(ctx context.Context, transactions int64, rate, kills int) error {
	rng := rand.New(rand.NewPCG(s.Seed, 1))
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Work(working, transactions, rate) }()
	for range kills {
		if !sleep.For(ctx, time.Duration(500+rng.IntN(2000))*time.Millisecond) {
			return ctx.Err()
		}
		if err := errors.Join(s.Nodes[0].Kill(), s.Nodes[0].Start()); err != nil {
			return err
		}
	}
	return <-done
}

// Runner waits until a node says that it runs the connector or the sink (role connectors or sinks) in a state, and tells which and
// how long that took. Nodes that do not answer are passed over, as are those of skip.
func (s *Shop) Runner(ctx context.Context, role, state string, within time.Duration, skip ...int) (node int, took time.Duration, err error) {
	began := time.Now()
	var seen []Status
	for {
		seen = seen[:0]
		for i, n := range s.Nodes {
			if contains(skip, i) {
				continue
			}
			var list []Status
			if ask(ctx, n, "/v1/"+role, &list) != nil || len(list) != 1 {
				continue
			}
			seen = append(seen, list[0])
			if list[0].Here && list[0].State == state {
				return i, time.Since(began), nil
			}
		}
		if time.Since(began) > within {
			return 0, 0, fmt.Errorf("no node has the %s %s within %s: %+v\n%s", role, state, within, seen, s.logs())
		}
		if !sleep.For(ctx, pollEvery) {
			return 0, 0, ctx.Err()
		}
	}
}

// ask does not wait for a node that is paused.
func ask(ctx context.Context, n *process.Rowtrail, path string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return n.JSON(ctx, path, v)
}

func (s *Shop) logs() (all string) {
	for i, n := range s.Nodes {
		all += fmt.Sprintf("node %d:\n%s\n", i+1, n.Tail(15))
	}
	return all
}

// Judge waits until the target has what the source has, then reads the log and compares everything.
func (s *Shop) Judge(ctx context.Context) (*audit.Report, error) {
	different, err := s.AwaitEqual(ctx, drainTimeout)
	if err != nil || len(different) > 0 {
		return nil, fmt.Errorf("the target differs from the source: %+v %w\n%s", different, err, s.logs())
	}
	report, loaded, twice, err := s.Audit(ctx, s.Nodes[0], s.Log.Client...)
	if err != nil {
		return nil, err
	}
	switch {
	case !report.OK():
		return report, fmt.Errorf("the log differs from the source: %+v\n%s", *report, s.logs())
	case loaded != s.size.Rows() || twice > 0:
		return report, fmt.Errorf("initial load: %d rows in the log and %d of them twice, %d in the source", loaded, twice, s.size.Rows())
	}
	return report, nil
}

func contains(list []int, n int) bool {
	for _, x := range list {
		if x == n {
			return true
		}
	}
	return false
}
