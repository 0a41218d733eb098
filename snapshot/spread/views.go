package spread

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/sleep"
	"github.com/rowtrail/rowtrail/snapshot"
)

// Cluster knows where partitions are.
type Cluster interface {
	// Leaders are the nodes that lead a topic's partitions, as far as this one knows; -1: none is known. false: the topic does not exist.
	Leaders(topic string) ([]int32, bool)
	// Stable is the last stable offset of this node's replica of a partition; false: it has none.
	Stable(topic string, partition int32) (int64, bool)
	// Confirm returns once this node is sure to lead a partition still, with all that was acknowledged before applied; log.ErrNotLeader: it does not.
	Confirm(ctx context.Context, topic string, partition int32) error
}

// Options of Views.
type Options struct {
	Node    int32
	Local   *snapshot.Views
	Cluster Cluster
	Client  *http.Client
}

// Times of a question whose partitions are about to have other leaders.
const (
	retryFor   = 5 * time.Second
	retryPause = 50 * time.Millisecond
)

// maxConfirms bounds the partitions that a quorum is asked about at a time for one question.
const maxConfirms = 64

// ErrNoLeader says that no node is known to lead a partition that the answer needs.
var ErrNoLeader = errors.New("partition has no leader at the moment; try again")

// Views answer for all partitions of a topic. Safe for concurrent use.
type Views struct {
	Options
	local     *snapshot.Views
	stale     bool
	answering chan struct{}
}

// New makes the answers of a node.
func New(o Options) *Views {
	return &Views{Options: o, local: o.Local, answering: make(chan struct{}, maxAnswering)}
}

// Stale are the same, but what this node has a replica of is read from it as it is, whoever leads.
func (v *Views) Stale() *Views {
	s := *v
	s.stale = true
	return &s
}

// Lag is that of this node's replicas.
func (v *Views) Lag(topic string) int64 { return v.local.Lag(topic) }

// plan is which partitions each node is asked for; own ones need not be confirmed where settled says so.
type plan struct {
	nodes   map[int32][]int32
	settled []int32 // of this node: they cannot change any more, or may be stale
	whole   bool    // all of the topic's partitions are this node's
}

// plan finds who is asked. settles tells whether this node's replica, which is stable up to an offset, has the answer.
func (v *Views) plan(topic string, settles func(stable int64) bool) (*plan, error) {
	leaders, ok := v.Cluster.Leaders(topic)
	if !ok {
		return nil, fmt.Errorf("view of topic %s: %w", topic, snapshot.ErrUnknownTopic)
	}
	p := &plan{nodes: map[int32][]int32{}}
	for i, leader := range leaders {
		number := int32(i) //nolint:gosec // a partition number
		if settles != nil {
			if stable, here := v.Cluster.Stable(topic, number); here && settles(stable) {
				p.settled = append(p.settled, number)
				continue
			}
		}
		if leader < 0 {
			return nil, fmt.Errorf("partition %d of %s: %w", number, topic, ErrNoLeader)
		}
		p.nodes[leader] = append(p.nodes[leader], number)
	}
	p.whole = len(p.nodes[v.Node])+len(p.settled) == len(leaders)
	return p, nil
}

// settles is what a cut lets this node's replica answer.
func (v *Views) settles(at *snapshot.At) func(int64) bool {
	switch {
	case v.stale:
		return func(int64) bool { return true }
	case at.Offset != nil:
		return func(stable int64) bool { return stable > *at.Offset }
	}
	return nil
}

// ask finds who is to be asked and asks, again and again while leaders move, for a bounded time. ask's told says that something of the answer is out
// already.
func (v *Views) ask(ctx context.Context, topic string, settles func(int64) bool, ask func(context.Context, *plan) (told bool, err error)) error {
	ctx, cancel := context.WithCancel(ctx) // ends what other nodes do for an answer that nobody wants any more
	defer cancel()
	deadline := time.Now().Add(retryFor)
	for again := false; ; again = true {
		told := false
		p, err := v.plan(topic, settles)
		if err == nil {
			told, err = v.askOnce(ctx, topic, p, ask)
		}
		if p == nil && !errors.Is(err, ErrNoLeader) {
			return err // there is no such topic
		}
		if err == nil || told || ctx.Err() != nil {
			return err
		}
		if p != nil && len(p.settled) > 0 && (errors.Is(err, snapshot.ErrElsewhere) || errors.Is(err, snapshot.ErrCompacted) && !v.stale) {
			settles = nil // this node has not looked at its replica yet, or another one has compacted less
			continue
		}
		// A node that did not answer in time may have been followed by another one since.
		if !Moved(err) || again && !time.Now().Before(deadline) {
			return err
		}
		if !sleep.For(ctx, retryPause) {
			return err
		}
	}
}

func (v *Views) askOnce(ctx context.Context, topic string, p *plan, ask func(context.Context, *plan) (bool, error)) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	own := p.nodes[v.Node]
	if err := v.confirm(ctx, topic, own); err != nil {
		return false, err
	}
	if own = append(own, p.settled...); len(own) > 0 {
		slices.Sort(own)
		p.nodes[v.Node] = own
	}
	return ask(ctx, p)
}

// Moved tells the errors that another look at who leads may mend.
func Moved(err error) bool {
	var unreachable *unreachableError
	return errors.Is(err, log.ErrNotLeader) || errors.Is(err, snapshot.ErrElsewhere) || errors.Is(err, snapshot.ErrUnknownTopic) ||
		errors.Is(err, ErrNoLeader) || errors.As(err, &unreachable)
}

// confirm makes sure that this node leads partitions.
func (v *Views) confirm(ctx context.Context, topic string, partitions []int32) error {
	if len(partitions) == 0 {
		return nil
	}
	if len(partitions) == 1 {
		return v.confirmOne(ctx, topic, partitions[0])
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxConfirms)
	for _, p := range partitions {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := v.confirmOne(ctx, topic, p); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (v *Views) confirmOne(ctx context.Context, topic string, partition int32) error {
	ctx, cancel := context.WithTimeout(ctx, stallTimeout)
	defer cancel()
	if err := v.Cluster.Confirm(ctx, topic, partition); err != nil {
		return fmt.Errorf("partition %d of %s: %w", partition, topic, err)
	}
	return nil
}

// Latest is snapshot.Views' of all partitions.
func (v *Views) Latest(ctx context.Context, topic string, key []byte, at snapshot.At) (row snapshot.Row, found bool, err error) {
	err = v.ask(ctx, topic, v.settles(&at), func(ctx context.Context, p *plan) (bool, error) {
		if p.whole {
			row, found, err = v.local.Latest(ctx, topic, key, at)
			return false, err
		}
		row, found, err = v.latest(ctx, p, &request{Op: opLatest, Topic: topic, Key: key, At: at})
		return false, err
	})
	return row, found, err
}

func (v *Views) latest(ctx context.Context, p *plan, q *request) (snapshot.Row, bool, error) {
	answers := make([]snapshot.Found, 0, len(p.nodes))
	remote := v.openAll(ctx, p, q)
	defer closeAll(remote)
	if own := p.nodes[v.Node]; len(own) > 0 {
		row, found, err := v.local.LatestIn(ctx, q.Topic, own, q.Key, q.At)
		answers = append(answers, snapshot.Found{Row: row, Found: found, Err: err})
	}
	for _, r := range remote {
		told, found, err := r.Next()
		if found && err == nil {
			err = r.finish()
		}
		answers = append(answers, snapshot.Found{Row: told.Row, Found: found, Err: err})
	}
	return snapshot.MergeLatest(answers)
}

// Scan is snapshot.Views' of all partitions.
func (v *Views) Scan(ctx context.Context, topic string, at snapshot.At, fn func(snapshot.Row) error) error {
	return v.ask(ctx, topic, v.settles(&at), func(ctx context.Context, p *plan) (told bool, err error) {
		tell := func(r snapshot.Row) error {
			told = true
			return fn(r)
		}
		if p.whole {
			err = v.local.Scan(ctx, topic, at, tell)
			return told, err
		}
		answers, done := v.answers(ctx, p, &request{Op: opScan, Topic: topic, At: at}, func(own []int32, tell func(snapshot.Told) error) error {
			return v.local.ScanIn(ctx, topic, own, at, func(r snapshot.Row) error { return tell(snapshot.Told{Row: r}) })
		})
		defer done()
		err = snapshot.MergeScans(answers, tell)
		return told, err
	})
}

// History is snapshot.Views' of all partitions.
func (v *Views) History(ctx context.Context, topic string, key []byte, fn func(snapshot.Row) error) error {
	now := snapshot.At{Now: true}
	return v.ask(ctx, topic, v.settles(&now), func(ctx context.Context, p *plan) (told bool, err error) {
		tell := func(r snapshot.Row) error {
			told = true
			return fn(r)
		}
		if p.whole {
			err = v.local.History(ctx, topic, key, tell)
			return told, err
		}
		answers, done := v.answers(ctx, p, &request{Op: opHistory, Topic: topic, Key: key}, func(own []int32, tell func(snapshot.Told) error) error {
			return v.local.HistoryIn(ctx, topic, own, key, func(r snapshot.Row) error { return tell(snapshot.Told{Row: r, Begins: true}) },
				func(r snapshot.Row) error { return tell(snapshot.Told{Row: r}) })
		})
		defer done()
		err = snapshot.MergeHistories(answers, tell)
		return told, err
	})
}

// AnyKey is snapshot.Views' of all partitions; a key of this node's replicas will do.
func (v *Views) AnyKey(ctx context.Context, topic string) (key []byte, found bool, err error) {
	err = v.ask(ctx, topic, func(int64) bool { return true }, func(ctx context.Context, p *plan) (bool, error) {
		nodes := slices.SortedFunc(maps.Keys(p.nodes), func(a, b int32) int { return v.distance(a) - v.distance(b) })
		for _, node := range nodes {
			if node == v.Node {
				key, found, err = v.local.AnyKeyIn(ctx, topic, p.nodes[node])
			} else {
				key, found, err = v.anyKey(ctx, node, &request{Op: opAnyKey, Topic: topic, Partitions: p.nodes[node]})
			}
			if found || err != nil {
				return false, err
			}
		}
		return false, nil
	})
	return key, found, err
}

// distance orders nodes, this one first.
func (v *Views) distance(node int32) int {
	if node == v.Node {
		return -1
	}
	return int(node)
}
