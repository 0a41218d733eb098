package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/checker/history"
	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	maxPoll = 500             // records of one poll
	maxScan = 5000            // records of one scan
	recent  = 5 * time.Second // where a scan begins that does not begin at the start
)

// positions is a consumer with the sessions of what it reads.
type positions struct {
	*recorder
	cl    *kgo.Client
	proto history.Session

	mu       sync.Mutex
	sessions map[history.TP]int64
}

func (p *positions) close() {
	if p != nil && p.cl != nil {
		p.cl.CloseAllowingRebalance()
	}
}

// forget begins new sessions: of these partitions, or of all.
func (p *positions) forget(topics map[string][]int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if topics == nil {
		clear(p.sessions)
	}
	for topic, list := range topics {
		for _, partition := range list {
			delete(p.sessions, history.TP{Topic: topic, Partition: partition})
		}
	}
}

func (p *positions) note(r *kgo.Record) history.Read {
	tp := history.TP{Topic: r.Topic, Partition: r.Partition}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions[tp] == 0 {
		p.sessions[tp] = p.session(p.proto)
	}
	return read(r, p.sessions[tp])
}

// poll returns what comes within a time. What a client may never meet is reported.
func (p *positions) poll(ctx context.Context, patience time.Duration) []history.Read {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.take(p.cl.PollRecords(ctx, maxPoll))
}

func (p *positions) take(fetches kgo.Fetches) []history.Read {
	fetches.EachError(func(topic string, partition int32, err error) {
		var loss *kgo.ErrDataLoss
		if errors.As(err, &loss) || errors.Is(err, kerr.OffsetOutOfRange) {
			p.report("%s was told of data loss in %s-%d: %v", p.proto.Client, topic, partition, err)
		}
	})
	var reads []history.Read
	fetches.EachRecord(func(r *kgo.Record) { reads = append(reads, p.note(r)) })
	return reads
}

// assigned is a consumer of all partitions of topics, from the start or, where proto does not say so, from a recent time.
func (l *Load) assigned(name string, proto history.Session, level kgo.IsolationLevel, topics ...string) (*positions, error) {
	p := &positions{recorder: l.recorder, proto: proto, sessions: map[history.TP]int64{}}
	from := map[string]map[int32]kgo.Offset{}
	start := kgo.NewOffset().AtStart()
	if !proto.FromStart {
		start = kgo.NewOffset().AfterMilli(time.Now().Add(-recent).UnixMilli())
	}
	for _, topic := range topics {
		from[topic] = map[int32]kgo.Offset{}
		for i := range int32(Partitions) {
			from[topic][i] = start
		}
	}
	cl, err := l.client(name, isOld(name), kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(level), kgo.FetchMaxWait(200*time.Millisecond))
	p.cl = cl
	return p, err
}

// reader polls all topics for ever.
func (l *Load) reader(name string, uncommitted bool) {
	var p *positions
	level := kgo.ReadCommitted()
	if uncommitted {
		level = kgo.ReadUncommitted()
	}
	l.every(name, func(ctx context.Context, _ *rand.Rand) {
		if p == nil {
			var err error
			p, err = l.assigned(name, history.Session{Client: name, FromStart: true, Uncommitted: uncommitted}, level, plainTopic, eventsTopic, inputTopic, outputTopic, StateTopic)
			if err != nil {
				l.report("%s: %v", name, err)
				return
			}
		}
		op := history.Op{Client: name, Kind: history.Poll, Begin: l.now()}
		op.Reads = p.poll(ctx, time.Second)
		l.add(op)
		if l.stopping.Err() != nil {
			p.close()
		}
	})
}

// scanner reads the keyed topic from its start again and again, as those do who rebuild a state.
func (l *Load) scanner(name string) {
	l.every(name, func(ctx context.Context, rng *rand.Rand) {
		p, err := l.assigned(name, history.Session{Client: name, FromStart: rng.IntN(3) > 0}, kgo.ReadCommitted(), StateTopic)
		if err != nil {
			l.report("%s: %v", name, err)
			return
		}
		defer p.close()
		for quiet, scanned := 0, 0; quiet < 2 && scanned < maxScan && l.stopping.Err() == nil; {
			op := history.Op{Client: name, Kind: history.Poll, Begin: l.now()}
			op.Reads = p.poll(ctx, 500*time.Millisecond)
			l.add(op)
			scanned += len(op.Reads)
			if quiet++; len(op.Reads) > 20 {
				quiet = 0
			}
		}
		sleep.For(l.stopping, time.Duration(500+rng.IntN(1500))*time.Millisecond)
	})
}

// groupOptions are those of a member whose sessions p keeps.
func groupOptions(p *positions, group string, topics ...string) []kgo.Opt {
	lost := func(_ context.Context, _ *kgo.Client, m map[string][]int32) { p.forget(m) }
	return []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.SessionTimeout(session),
		kgo.HeartbeatInterval(time.Second), kgo.RebalanceTimeout(15 * time.Second), kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(lost), kgo.OnPartitionsRevoked(lost), kgo.OnPartitionsLost(lost),
	}
}

// member reads in a group, commits what it has noted, and leaves now and then.
func (l *Load) member(name string) {
	var p *positions
	l.every(name, func(ctx context.Context, rng *rand.Rand) {
		if p == nil {
			p = &positions{recorder: l.recorder, proto: history.Session{Client: name, Group: readersGroup}, sessions: map[history.TP]int64{}}
			cl, err := l.client(name, isOld(name), groupOptions(p, readersGroup, plainTopic, eventsTopic)...)
			if err != nil {
				l.report("%s: %v", name, err)
				p = nil
				return
			}
			p.cl = cl
		}
		op := history.Op{Client: name, Kind: history.Poll, Begin: l.now()}
		op.Reads = p.poll(ctx, time.Second)
		l.add(op)
		if rng.IntN(3) == 0 {
			ctx, cancel := context.WithTimeout(ctx, opTimeout)
			defer cancel()
			p.cl.CommitUncommittedOffsets(ctx) // a failed one is made up for by the next
		}
		p.cl.AllowRebalance()
		if rng.IntN(200) == 0 || l.stopping.Err() != nil {
			p.close()
			p = nil
		}
	})
}

// transformer consumes, transforms and produces in transactions with the offsets (KIP-447).
func (l *Load) transformer(name string) {
	var s *kgo.GroupTransactSession
	var p *positions
	l.every(name, func(ctx context.Context, rng *rand.Rand) {
		if s == nil {
			var err error
			if s, p, err = l.transactSession(name); err != nil {
				l.report("%s: %v", name, err)
				return
			}
		}
		op := history.Op{Client: name, Kind: history.Transaction, Begin: l.now(), Outcome: history.Aborted}
		polling, cancel := context.WithTimeout(ctx, time.Second)
		fetches := s.PollRecords(polling, 50)
		cancel()
		op.Reads = p.take(fetches)
		end := func(err error) {
			op.Error = err.Error()
			s.CloseAllowingRebalance()
			s = nil
		}
		defer func() {
			if len(op.Reads) > 0 {
				l.add(op)
			}
			if s != nil {
				s.AllowRebalance()
				if l.stopping.Err() != nil || rng.IntN(300) == 0 {
					s.CloseAllowingRebalance()
					s = nil
				}
			}
		}()
		if len(op.Reads) == 0 {
			return
		}
		if err := s.Begin(); err != nil {
			end(fmt.Errorf("begin: %w", err))
			return
		}
		fetches.EachRecord(func(r *kgo.Record) {
			w := l.draw(rng, outputTopic)
			w.From = read(r, 0).Value
			op.Writes = append(op.Writes, w)
		})
		ctx, cancel = context.WithTimeout(ctx, 2*opTimeout)
		defer cancel()
		failed := produce(ctx, s.Client(), op.Writes)
		wish := kgo.TryCommit
		if failed != nil || rng.IntN(10) == 0 {
			wish = kgo.TryAbort
		}
		done, err := s.End(ctx, wish)
		switch {
		case err != nil:
			if wish == kgo.TryCommit {
				op.Outcome = history.Unknown
			}
			end(err)
		case done && wish == kgo.TryCommit:
			op.Outcome = history.Committed
		default:
			p.forget(nil) // the session goes back to the committed offsets
		}
	})
}

func (l *Load) transactSession(name string) (*kgo.GroupTransactSession, *positions, error) {
	p := &positions{recorder: l.recorder, proto: history.Session{Client: name, Group: transformGroup}, sessions: map[history.TP]int64{}}
	opts := append(groupOptions(p, transformGroup, inputTopic), l.clientOptions(name, isOld(name))...)
	s, err := kgo.NewGroupTransactSession(append(opts, kgo.TransactionalID(name), kgo.TransactionTimeout(txnTimeout))...)
	if err == nil {
		p.cl = s.Client()
	}
	return s, p, err
}
