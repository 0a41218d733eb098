package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	sayTimeout   = 5 * time.Second
	askTimeout   = 20 * time.Second
	boardBytes   = 1 << 20 // of one fetch, and of what waits to be sent
	boardMaxWait = 10 * time.Second
	lookAgain    = 500 * time.Millisecond // at the tasks of this node
	tellChanges  = 10 * time.Second       // of counters; a change of state is told at once
)

// entryKey is a record's key: exactly one of the three is set.
type entryKey struct {
	Task    string `json:"task,omitempty"`
	Restart string `json:"restart,omitempty"`
	Ask     string `json:"ask,omitempty"`
}

// maxAsking bounds the questions that this node's tasks answer at a time.
const maxAsking = 16

// entry is a record's value.
type entry struct {
	Node   int32           `json:"node"` // that says or asks
	At     time.Time       `json:"at"`
	Status json.RawMessage `json:"status,omitempty"` // or what is asked
}

// board is a fold of the topic: what nodes said of tasks last.
type board struct {
	client *kgo.Client
	slots  int32
	node   int32
	logger *slog.Logger
	known  map[string]*runner // bounds what is kept (invariant 9)
	ends   kadm.ListedOffsets // requests before them were for others

	asking chan struct{}
	asked  sync.WaitGroup

	mu   sync.Mutex
	said map[string]entry
}

func (g *Node) openBoard(ctx context.Context, runners []*runner, slots int32) (*board, error) {
	client, err := kgo.NewClient(append(append([]kgo.Opt{}, g.opts.Client...),
		kgo.ClientID(fmt.Sprintf("rowtrail-tasks-%d", g.opts.Node)),
		kgo.ConsumeTopics(Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(boardBytes), kgo.FetchMaxWait(boardMaxWait),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedBytes(boardBytes), kgo.ProducerLinger(0),
	)...)
	if err != nil {
		return nil, fmt.Errorf("create client of topic %s: %w", Topic, err)
	}
	b := &board{client: client, slots: slots, node: g.opts.Node, logger: g.logger, known: map[string]*runner{}, said: map[string]entry{}, asking: make(chan struct{}, maxAsking)}
	for _, r := range runners {
		b.known[r.task.Name] = r
	}
	if b.ends, err = kadm.NewClient(client).ListEndOffsets(ctx, Topic); err != nil {
		client.Close()
		return nil, fmt.Errorf("list ends of topic %s: %w", Topic, err)
	}
	return b, nil
}

// follow reads until ctx ends.
func (b *board) follow(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := b.client.PollFetches(ctx)
		fetches.EachError(func(topic string, p int32, err error) {
			if ctx.Err() == nil {
				b.logger.Warn("what other nodes say of tasks cannot be read", "topic", topic, "partition", p, "error", err)
			}
		})
		fetches.EachRecord(func(rec *kgo.Record) { b.fold(ctx, rec) })
		if len(fetches.Errors()) > 0 && !sleep.For(ctx, time.Second) {
			return
		}
	}
}

func (b *board) fold(ctx context.Context, rec *kgo.Record) {
	var key entryKey
	var e entry
	if json.Unmarshal(rec.Key, &key) != nil || rec.Value != nil && json.Unmarshal(rec.Value, &e) != nil {
		return // not one of ours
	}
	if r := b.known[key.Restart]; r != nil && rec.Value != nil {
		if end, ok := b.ends.Lookup(Topic, rec.Partition); ok && rec.Offset >= end.Offset && r.here() {
			r.again()
		}
		return
	}
	if r := b.known[key.Ask]; r != nil && rec.Value != nil {
		if end, ok := b.ends.Lookup(Topic, rec.Partition); ok && rec.Offset >= end.Offset && r.here() && r.task.Ask != nil {
			b.ask(ctx, r, e.Status)
		}
		return
	}
	if b.known[key.Task] == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if rec.Value == nil {
		delete(b.said, key.Task)
		return
	}
	b.said[key.Task] = e
}

// ask gives a task that runs here what another node asked of it; what it answers is in its status.
func (b *board) ask(ctx context.Context, r *runner, what json.RawMessage) {
	select {
	case b.asking <- struct{}{}:
	default:
		b.logger.Warn("a task is asked for too much at a time", "task", r.task.Name, "at_most", maxAsking)
		return
	}
	b.asked.Go(func() {
		defer func() { <-b.asking }()
		asked, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		r.task.Ask(asked, what)
	})
}

// about is what was said last of a task.
func (b *board) about(name string) (entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.said[name]
	return e, ok
}

func (b *board) write(ctx context.Context, key entryKey, status json.RawMessage) error {
	ctx, cancel := context.WithTimeout(ctx, sayTimeout)
	defer cancel()
	k, err := json.Marshal(key)
	if err != nil {
		return err
	}
	v, err := json.Marshal(entry{b.node, time.Now().UTC(), status})
	if err != nil {
		return err
	}
	rec := &kgo.Record{Topic: Topic, Partition: slot(key.Task+key.Restart+key.Ask, b.slots), Key: k, Value: v}
	done := make(chan error, 1)
	b.client.Produce(ctx, rec, func(_ *kgo.Record, err error) { done <- err })
	select {
	case err = <-done:
		return err
	case <-ctx.Done(): // the client may hold on to a record that it has sent
		return ctx.Err()
	}
}

// tell writes what changes of the tasks that run here, until ctx ends.
func (b *board) tell(ctx context.Context) {
	type last struct {
		state, status string
		at            time.Time
	}
	told := map[*runner]last{}
	failing := false
	for {
		for name, r := range b.known {
			if !r.here() {
				delete(told, r)
				continue
			}
			state, before := r.task.State(), told[r]
			if state == before.state && time.Since(before.at) < tellChanges {
				continue
			}
			status, err := json.Marshal(r.task.Status())
			if err == nil && (state != before.state || string(status) != before.status) {
				err = b.write(ctx, entryKey{Task: name}, status)
			}
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && !failing:
				failing = true
				b.logger.Warn("other nodes cannot be told of tasks", "topic", Topic, "error", err)
			case err == nil:
				failing = false
				told[r] = last{state, string(status), time.Now()}
			}
		}
		if !sleep.For(ctx, lookAgain) {
			return
		}
	}
}
