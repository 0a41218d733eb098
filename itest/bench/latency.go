package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	latencySessions = 8
	settleWithin    = 30 * time.Second
)

// stopwatch holds when each row's commit returned and collects how much later it was seen.
type stopwatch struct {
	mu        sync.Mutex
	committed map[int64]time.Time
	early     map[int64]time.Time // seen before its commit returned to the client
	delays    []time.Duration
}

func newStopwatch() *stopwatch {
	return &stopwatch{committed: map[int64]time.Time{}, early: map[int64]time.Time{}}
}

func (s *stopwatch) commit(id int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen, ok := s.early[id]; ok {
		delete(s.early, id)
		s.delays = append(s.delays, min(0, seen.Sub(at)))
		return
	}
	s.committed[id] = at
}

func (s *stopwatch) see(id int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if committed, ok := s.committed[id]; ok {
		delete(s.committed, id)
		s.delays = append(s.delays, at.Sub(committed))
		return
	}
	s.early[id] = at
}

// reset forgets what was seen so far.
func (s *stopwatch) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delays = nil
	clear(s.early)
}

func (s *stopwatch) percentiles() (p50, p99 time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.delays)
	n := len(s.delays)
	if n == 0 {
		return 0, 0
	}
	return max(0, s.delays[n/2]), s.delays[n*99/100]
}

// latency measures commit to consumer at a steady rate: a raw pgoutput reader, Rowtrail with a read_committed consumer, and
// the raw reader again.
func latency(ctx context.Context, cfg config) ([]line, error) {
	b, err := newBed(ctx, cfg, map[string]string{"snapshot.mode": "no_data"})
	if err != nil {
		return nil, err
	}
	defer b.close()
	if err := b.establish(ctx); err != nil {
		return nil, err
	}
	peer1, err := b.rawLatency(ctx, cfg, "peer_1", 1)
	if err != nil {
		return nil, err
	}
	ours, err := b.consumerLatency(ctx, cfg, 2)
	if err != nil {
		return nil, err
	}
	peer2, err := b.rawLatency(ctx, cfg, "peer_2", 3)
	if err != nil {
		return nil, err
	}
	var lines []line
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	for i, name := range []string{"p50", "p99"} {
		pick := func(s *stopwatch) time.Duration {
			p50, p99 := s.percentiles()
			return []time.Duration{p50, p99}[i]
		}
		best := min(pick(peer1), pick(peer2))
		l := line{Case: fmt.Sprintf("commit to consumer at %d transactions/s, %s", cfg.tps, name), Value: ms(pick(ours)), Unit: "ms",
			Peer: "raw pgoutput reader", PeerValue: ms(best), OK: true, Control: round3(ms(pick(peer2)) / max(ms(pick(peer1)), 0.001))}
		l.Ratio = round3(ms(best) / max(l.Value, 0.001))
		lines = append(lines, l)
	}
	return lines, nil
}

// write commits one-row transactions at the rate and tells the stopwatch of each.
func (b *bed) write(ctx context.Context, cfg config, run int, watch *stopwatch) error {
	return steady(ctx, cfg, time.Duration(cfg.seconds)*time.Second, run, watch, func(ctx context.Context) (inserter, func(), error) {
		conn, err := pgx.Connect(ctx, b.dsn)
		if err != nil {
			return nil, nil, err
		}
		insert := func(id int64) error {
			_, err := conn.Exec(ctx, "INSERT INTO bench_rows VALUES ($1, 1, 'new', 9.99, now(), false)", id)
			return err
		}
		return insert, func() { _ = conn.Close(ctx) }, nil
	})
}

// inserter commits one row.
type inserter func(id int64) error

// steady commits one-row transactions at the rate for a while, in several sessions, and tells the stopwatch of each. Runs have rows of their own.
func steady(ctx context.Context, cfg config, d time.Duration, run int, watch *stopwatch, open func(context.Context) (inserter, func(), error)) error {
	var group sync.WaitGroup
	errs := make(chan error, latencySessions)
	end := time.Now().Add(d)
	for n := range latencySessions {
		group.Add(1)
		go func() {
			defer group.Done()
			insert, done, err := open(ctx)
			if err != nil {
				errs <- err
				return
			}
			defer done()
			every := time.Duration(latencySessions) * time.Second / time.Duration(cfg.tps)
			next := time.Now()
			for id := int64(run*latencySessions+n) * 10_000_000; time.Now().Before(end); id++ {
				if err := insert(id + 1); err != nil {
					errs <- err
					return
				}
				watch.commit(id+1, time.Now())
				next = next.Add(every)
				if !sleep.For(ctx, time.Until(next)) {
					return
				}
			}
		}()
	}
	group.Wait()
	close(errs)
	return <-errs
}

func (b *bed) consumerLatency(ctx context.Context, cfg config, run int) (*stopwatch, error) {
	if err := b.node.Start(); err != nil {
		return nil, err
	}
	if err := b.node.WaitReady(ctx); err != nil {
		return nil, err
	}
	if err := b.state(ctx, "streaming"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := newStopwatch()
	client, err := watch.consume(ctx, b.node, "bench.public."+table)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	// What the peer wrote before is a backlog, which is not to be measured: it is over once a row that follows it is seen.
	if _, err := b.endLSN(ctx); err != nil {
		return nil, err
	}
	watch.commit(0, time.Now())
	if err := watch.settle(ctx, settleWithin); err != nil {
		return nil, err
	}
	watch.reset()
	if err := b.write(ctx, cfg, run, watch); err != nil {
		return nil, err
	}
	if err := watch.settle(ctx, settleWithin); err != nil {
		return nil, err
	}
	return watch, b.node.Stop()
}

// consume notes when a read_committed consumer is given the rows of a topic, until ctx ends.
func (s *stopwatch) consume(ctx context.Context, node *process.Rowtrail, topic string) (*kgo.Client, error) {
	client, err := node.Client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return nil, err
	}
	go func() {
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			now := time.Now()
			fetches.EachRecord(func(r *kgo.Record) {
				var key struct{ ID int64 }
				if json.Unmarshal(r.Key, &key) == nil {
					s.see(key.ID, now)
				}
			})
		}
	}()
	return client, nil
}

// settle waits until every committed row has been seen.
func (s *stopwatch) settle(ctx context.Context, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		s.mu.Lock()
		left := len(s.committed)
		s.mu.Unlock()
		if left == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d committed rows were not seen within %s", left, patience)
		}
		if !sleep.For(ctx, 10*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// rawLatency reads the slot's pgoutput messages and nothing more.
func (b *bed) rawLatency(ctx context.Context, cfg config, slotName string, run int) (*stopwatch, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// What other runs wrote is not this one's backlog.
	if _, err := b.conn.Exec(ctx, "SELECT pg_replication_slot_advance($1, pg_current_wal_flush_lsn())", slotName); err != nil {
		return nil, err
	}
	conn, err := pgconn.Connect(ctx, b.dsn+"&replication=database")
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.Background())
	err = pglogrepl.StartReplication(ctx, conn, slotName, 0, pglogrepl.StartReplicationOptions{
		PluginArgs: []string{"proto_version '1'", "publication_names '" + publication + "'"}})
	if err != nil {
		return nil, err
	}
	watch := newStopwatch()
	go func() {
		last := time.Now()
		var seen pglogrepl.LSN
		for {
			message, err := conn.ReceiveMessage(ctx)
			if err != nil {
				return
			}
			data, ok := message.(*pgproto3.CopyData)
			if !ok || data.Data[0] != pglogrepl.XLogDataByteID {
				continue
			}
			x, err := pglogrepl.ParseXLogData(data.Data[1:])
			if err != nil {
				return
			}
			seen = max(seen, x.WALStart)
			if id, ok := insertedID(x.WALData); ok {
				watch.see(id, time.Now())
			}
			if time.Since(last) > time.Second {
				last = time.Now()
				pglogrepl.SendStandbyStatusUpdate(ctx, conn, pglogrepl.StandbyStatusUpdate{WALWritePosition: seen})
			}
		}
	}()
	if err := b.write(ctx, cfg, run, watch); err != nil {
		return nil, err
	}
	return watch, watch.settle(ctx, settleWithin)
}

func insertedID(data []byte) (int64, bool) {
	message, err := pglogrepl.Parse(data)
	if err != nil {
		return 0, false
	}
	insert, ok := message.(*pglogrepl.InsertMessage)
	if !ok {
		return 0, false
	}
	var id int64
	_, err = fmt.Sscan(string(insert.Tuple.Columns[0].Data), &id)
	return id, err == nil
}
