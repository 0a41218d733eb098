package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	minBackoff = 250 * time.Millisecond
	maxBackoff = 5 * time.Second
	topicPoll  = 20 * time.Millisecond
	topicPolls = 250
)

// Options of a node's part in the group.
type Options struct {
	Client      []kgo.Opt // seed brokers and dialer of the log
	Node        int32     // unique among the nodes of the log
	Tasks       []Task
	Replication int16 // of the topic; 0 or less: the log's default
	Logger      *slog.Logger
	// Explain adds to an error of the log's client what to do; nil: nothing is known of it.
	Explain func(error) error
}

// sayAgain is how often what goes on is said again.
const sayAgain = 10 * time.Minute

// instance names the node to the group.
func (o Options) instance() string { return fmt.Sprintf("rowtrail-%d", o.Node) }

func (o Options) replication() int16 {
	if o.Replication <= 0 {
		return -1 // the log's default
	}
	return o.Replication
}

// Node is this node's part in the group.
type Node struct {
	opts   Options
	logger *slog.Logger

	mu      sync.Mutex
	runners []*runner // nil: the topic is not known yet
	problem error     // why this node is no member
	board   atomic.Pointer[board]
}

// New prepares; Run does.
func New(opts Options) *Node {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Explain == nil {
		opts.Explain = func(err error) error { return err }
	}
	return &Node{opts: opts, logger: opts.Logger, problem: errors.New("joining group " + Group)}
}

func (g *Node) names() []string {
	names := make([]string, len(g.opts.Tasks))
	for i, t := range g.opts.Tasks {
		names[i] = t.Name
	}
	slices.Sort(names)
	return names
}

// Run runs the tasks that the group gives this node, until ctx ends and they have ended too.
func (g *Node) Run(ctx context.Context) {
	slots, ok := g.awaitTopic(ctx)
	if !ok {
		return
	}
	runners := make([]*runner, len(g.opts.Tasks))
	for i, t := range g.opts.Tasks {
		runners[i] = newRunner(t, slots, g.logger)
	}
	g.mu.Lock()
	g.runners = runners
	g.mu.Unlock()

	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { g.keepBoard(ctx, runners, slots) })

	wait := minBackoff
	for ctx.Err() == nil {
		began := time.Now()
		err := g.attend(ctx, runners)
		if err == nil || ctx.Err() != nil {
			return
		}
		err = g.opts.Explain(err)
		g.trouble(err)
		if errors.Is(err, errFenced) {
			g.logger.Error("connectors and sinks are stopped", "error", err)
			<-ctx.Done() // joining again would fence the other, and so on
			return
		}
		if time.Since(began) > time.Minute {
			wait = minBackoff
		}
		g.logger.Warn("connectors and sinks are stopped; joining again", "error", err, "after", wait)
		if !sleep.For(ctx, wait) {
			return
		}
		wait = min(2*wait, maxBackoff)
	}
}

// trouble notes why this node is no member, or that it is one.
func (g *Node) trouble(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && (g.problem == nil || g.problem.Error() != err.Error()) {
		g.logger.Debug("tasks", "error", err)
	}
	g.problem = err
}

// awaitTopic makes sure that the topic exists and reads its number of partitions, however long that takes.
func (g *Node) awaitTopic(ctx context.Context) (slots int32, ok bool) {
	wait := minBackoff
	var said time.Time
	var last string
	for {
		slots, err := g.ensureTopic(ctx)
		if err == nil {
			return slots, true
		}
		if ctx.Err() != nil {
			return 0, false
		}
		err = g.opts.Explain(err)
		g.trouble(err)
		level := slog.LevelDebug
		if kind := kindOf(err); kind != last || time.Since(said) >= sayAgain {
			level, last, said = slog.LevelWarn, kind, time.Now()
		}
		g.logger.Log(ctx, level, "connectors and sinks wait for the log", "error", err, "after", wait)
		if !sleep.For(ctx, wait) {
			return 0, false
		}
		wait = min(2*wait, maxBackoff)
	}
}

// kindOf is the part of an error that is the same at every attempt: no ports of this side.
func kindOf(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

func (g *Node) ensureTopic(ctx context.Context) (int32, error) {
	client, err := kgo.NewClient(append(append([]kgo.Opt{}, g.opts.Client...), kgo.MetadataMinAge(topicPoll))...)
	if err != nil {
		return 0, fmt.Errorf("create log client: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	n, err := partitionsOf(ctx, admin)
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return n, err
	}
	compact := "compact"
	_, err = admin.CreateTopic(ctx, Slots, g.opts.replication(), map[string]*string{"cleanup.policy": &compact}, Topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return 0, fmt.Errorf("create topic %s: %w", Topic, err)
	}
	for range topicPolls {
		if n, err = partitionsOf(ctx, admin); err == nil {
			return n, nil
		}
		if !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.LeaderNotAvailable) || !sleep.For(ctx, topicPoll) {
			break
		}
	}
	return 0, err
}

func partitionsOf(ctx context.Context, admin *kadm.Client) (int32, error) {
	details, err := admin.ListTopics(ctx, Topic)
	if err != nil {
		return 0, fmt.Errorf("look for topic %s: %w", Topic, err)
	}
	d, ok := details[Topic]
	switch {
	case !ok || d.Err == nil && len(d.Partitions) == 0:
		return 0, fmt.Errorf("look for topic %s: %w", Topic, kerr.UnknownTopicOrPartition)
	case d.Err != nil:
		return 0, fmt.Errorf("look for topic %s: %w", Topic, d.Err)
	}
	return int32(len(d.Partitions)), nil //nolint:gosec // a number of partitions
}

// keepBoard opens the board and keeps it up to date until ctx ends.
func (g *Node) keepBoard(ctx context.Context, runners []*runner, slots int32) {
	for {
		b, err := g.openBoard(ctx, runners, slots)
		if err == nil {
			g.board.Store(b)
			var reading sync.WaitGroup
			reading.Go(func() { b.follow(ctx) })
			b.tell(ctx)
			reading.Wait()
			b.asked.Wait()
			b.client.Close()
			return
		}
		g.logger.Debug("what nodes say of tasks is not known", "error", err)
		if !sleep.For(ctx, maxBackoff) {
			return
		}
	}
}

// Place is where a task is, as this node knows.
type Place struct {
	Here   bool
	Node   int32           // 0: no node runs it, or none has said so
	Status json.RawMessage // of another node's task, as that node told last
	Why    string          // without a node: what is waited for
}

// Where tells where a task is.
func (g *Node) Where(name string) Place {
	g.mu.Lock()
	problem := g.problem
	g.mu.Unlock()
	if r := g.runner(name); r != nil && r.here() {
		return Place{Here: true, Node: g.opts.Node}
	}
	if problem == nil {
		if b := g.board.Load(); b != nil {
			if e, ok := b.about(name); ok && e.Node != g.opts.Node {
				return Place{Node: e.Node, Status: e.Status}
			}
		}
		return Place{Why: "group " + Group + " has not given it to a node yet"}
	}
	return Place{Why: problem.Error()}
}

func (g *Node) runner(name string) *runner {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.runners {
		if r.task.Name == name {
			return r
		}
	}
	return nil
}

// Fenced is why this node runs nothing until it is started anew; nil: it is not so.
func (g *Node) Fenced() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if errors.Is(g.problem, errFenced) {
		return g.problem
	}
	return nil
}

// Restart starts a task anew, here or on the node that runs it.
func (g *Node) Restart(ctx context.Context, name string) (Place, error) {
	at := g.Where(name)
	switch b := g.board.Load(); {
	case at.Here:
		g.runner(name).again()
	case at.Node == 0:
		return at, fmt.Errorf("no node runs it: %s", at.Why)
	case b == nil:
		return at, fmt.Errorf("node %d runs it and cannot be told; restart it there", at.Node)
	default:
		if err := b.write(ctx, entryKey{Restart: name}, nil); err != nil {
			return at, fmt.Errorf("tell node %d: %w", at.Node, err)
		}
	}
	return at, nil
}

// Ask gives a task that another node runs something to do; the answer is in its status, sooner or later.
func (g *Node) Ask(ctx context.Context, name string, what json.RawMessage) error {
	b := g.board.Load()
	if b == nil {
		return errors.New("other nodes cannot be told yet")
	}
	return b.write(ctx, entryKey{Ask: name}, what)
}
