package shop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	// retryPause is waited after a failed transaction: the server may be restarting.
	retryPause = 100 * time.Millisecond
	// keySpace separates the ids that each session makes.
	keySpace = 1_000_000_000
)

// Workload is a set of sessions that write small transactions of inserts, updates, deletes and key changes,
// some of them with savepoints that are rolled back, some rolled back whole.
type Workload struct {
	DSN      string
	Size     Size
	Sessions int
	Rate     int // transactions per second over all sessions; 0: as fast as they go
	Seed     uint64

	committed atomic.Int64
}

// Committed is the number of transactions whose commit the server confirmed.
func (w *Workload) Committed() int64 { return w.committed.Load() }

// Run writes until ctx ends or max transactions (0: no limit) are committed. A server that goes away is waited for.
func (w *Workload) Run(ctx context.Context, max int64) error {
	var group sync.WaitGroup
	errs := make(chan error, w.Sessions)
	for i := range w.Sessions {
		s := &session{w: w, number: i, rng: rand.New(rand.NewPCG(w.Seed, uint64(i)))}
		group.Add(1)
		go func() {
			defer group.Done()
			if err := s.run(ctx, max); err != nil {
				errs <- err
			}
		}()
	}
	group.Wait()
	close(errs)
	return <-errs
}

type session struct {
	w      *Workload
	number int
	rng    *rand.Rand
	conn   *pgx.Conn
	next   int64   // ids made so far
	items  []int64 // order items this session made and that still exist
	orders []int64
}

func (s *session) run(ctx context.Context, max int64) error {
	defer func() {
		if s.conn != nil {
			s.conn.Close(context.Background())
		}
	}()
	var tick <-chan time.Time
	if s.w.Rate > 0 {
		ticker := time.NewTicker(time.Duration(s.w.Sessions) * time.Second / time.Duration(s.w.Rate))
		defer ticker.Stop()
		tick = ticker.C
	}
	for ctx.Err() == nil && (max == 0 || s.w.committed.Load() < max) {
		if tick != nil {
			select {
			case <-ctx.Done():
				return nil
			case <-tick:
			}
		}
		if err := s.transaction(ctx); err != nil {
			if s.conn != nil {
				s.conn.Close(ctx)
				s.conn = nil
			}
			// What this session knows of its rows may be wrong after a lost commit: begin with fresh ids.
			s.items, s.orders = nil, nil
			sleep.For(ctx, retryPause)
		}
	}
	return nil
}

func (s *session) id() int64 {
	s.next++
	// Unique over restarts of a session too: the start of the run is not part of the state that must be equal.
	return int64(s.number+1)*keySpace + s.next
}

// transaction writes one source transaction. Its error means that the outcome is unknown or a failure.
func (s *session) transaction(ctx context.Context) error {
	if s.conn == nil {
		conn, err := pgx.Connect(ctx, s.w.DSN)
		if err != nil {
			return err
		}
		s.conn = conn
		if err := s.skipUsedIDs(ctx); err != nil {
			return err
		}
	}
	tx, err := s.conn.Begin(ctx)
	if err != nil {
		return err
	}
	items, orders := s.items, s.orders
	if err := s.statements(ctx, tx); err != nil {
		return fmt.Errorf("run statements: %w", err)
	}
	if s.rng.IntN(50) == 0 { // a transaction that never was
		s.items, s.orders = items, orders
		return tx.Rollback(ctx)
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	s.w.committed.Add(1)
	return nil
}

// skipUsedIDs moves behind ids of transactions whose commit was not confirmed.
func (s *session) skipUsedIDs(ctx context.Context) error {
	low, high := int64(s.number+1)*keySpace, int64(s.number+2)*keySpace
	var last int64
	err := s.conn.QueryRow(ctx, `SELECT greatest((SELECT max(id) FROM orders WHERE id >= $1 AND id < $2),
		(SELECT max(id) FROM order_items WHERE id >= $1 AND id < $2), $3)`, low, high, low+s.next).Scan(&last)
	if err != nil {
		return err
	}
	s.next = last - low + 1
	return nil
}

func (s *session) statements(ctx context.Context, tx pgx.Tx) error {
	batch := &pgx.Batch{}
	for range 1 + s.rng.IntN(4) {
		s.statement(batch)
	}
	if s.rng.IntN(20) == 0 { // work in a savepoint that is thrown away
		batch.Queue("SAVEPOINT s")
		batch.Queue("UPDATE customers SET rev = rev + 100, name = 'never' WHERE id = $1", s.customer())
		batch.Queue("ROLLBACK TO SAVEPOINT s")
	}
	return tx.SendBatch(ctx, batch).Close()
}

func (s *session) customer() int64 { return 1 + s.rng.Int64N(int64(s.w.Size.Customers)) }
func (s *session) product() int64  { return 1 + s.rng.Int64N(int64(s.w.Size.Products)) }

func (s *session) statement(batch *pgx.Batch) {
	switch n := s.rng.IntN(100); {
	case n < 25: // a new order with items
		order := s.id()
		batch.Queue(`INSERT INTO orders VALUES ($1, 1, $2, 'new', $3, localtimestamp, current_date, NULL)`, order, s.customer(), s.rng.IntN(10000))
		s.orders = append(s.orders, order)
		for range 1 + s.rng.IntN(3) {
			item := s.id()
			batch.Queue(`INSERT INTO order_items VALUES ($1, 1, $2, $3, $4, gen_random_uuid())`, item, order, s.product(), 1+s.rng.IntN(5))
			s.items = append(s.items, item)
		}
	case n < 50 && len(s.orders) > 0:
		order := s.orders[s.rng.IntN(len(s.orders))]
		batch.Queue(`UPDATE orders SET rev = rev + 1, state = 'paid', total = total + 1, note = $2 WHERE id = $1`, order, fmt.Sprint("changed ", s.rng.Uint32()))
	case n < 60 && len(s.items) > 0: // a delete
		i := s.rng.IntN(len(s.items))
		batch.Queue(`DELETE FROM order_items WHERE id = $1`, s.items[i])
		s.items = append(append([]int64(nil), s.items[:i]...), s.items[i+1:]...)
	case n < 65 && len(s.orders) > 0: // a key change
		i, id := s.rng.IntN(len(s.orders)), s.id()
		batch.Queue(`UPDATE orders SET id = $2, rev = rev + 1 WHERE id = $1`, s.orders[i], id)
		s.orders = append([]int64(nil), s.orders...)
		s.orders[i] = id
	case n < 80: // leaves the TOASTed description as it is
		batch.Queue(`UPDATE products SET rev = rev + 1, price = price + 0.01 WHERE id = $1`, s.product())
	default:
		batch.Queue(`UPDATE customers SET rev = rev + 1, credit = coalesce(credit, 0) + 1.25 WHERE id = $1`, s.customer())
	}
}
