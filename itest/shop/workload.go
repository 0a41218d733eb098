package shop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

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
	DB       Database
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
	conn   Session
	next   int64   // ids made so far
	items  []int64 // order items this session made and that still exist
	orders []int64
}

func (s *session) run(ctx context.Context, max int64) error {
	defer func() {
		if s.conn != nil {
			s.conn.Close()
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
				s.conn.Close()
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
		conn, err := s.w.DB.Connect(ctx)
		if err != nil {
			return err
		}
		s.conn = conn
		if err := s.skipUsedIDs(ctx); err != nil {
			return err
		}
	}
	items, orders := s.items, s.orders
	if err := s.conn.Exec(ctx, append([]string{"BEGIN"}, s.statements()...)...); err != nil {
		return fmt.Errorf("run statements: %w", err)
	}
	if s.rng.IntN(50) == 0 { // a transaction that never was
		s.items, s.orders = items, orders
		return s.conn.Exec(ctx, "ROLLBACK")
	}
	if err := s.conn.Exec(ctx, "COMMIT"); err != nil {
		return err
	}
	s.w.committed.Add(1)
	return nil
}

// skipUsedIDs moves behind ids of transactions whose commit was not confirmed.
func (s *session) skipUsedIDs(ctx context.Context) error {
	low, high := int64(s.number+1)*keySpace, int64(s.number+2)*keySpace
	last := fmt.Sprintf("coalesce((SELECT max(id) FROM %%s WHERE id >= %d AND id < %d), 0)", low, high)
	rows, err := s.conn.Query(ctx, fmt.Sprintf("SELECT greatest("+last+", "+last+", %d)", "orders", "order_items", low+s.next))
	if err != nil {
		return err
	}
	used, err := strconv.ParseInt(rows[0][0], 10, 64)
	if err != nil {
		return err
	}
	s.next = used - low + 1
	return nil
}

func (s *session) statements() (list []string) {
	for range 1 + s.rng.IntN(4) {
		list = s.statement(list)
	}
	if s.rng.IntN(20) == 0 { // work in a savepoint that is thrown away
		list = append(list, "SAVEPOINT s", fmt.Sprintf("UPDATE customers SET rev = rev + 100, name = 'never' WHERE id = %d", s.customer()),
			"ROLLBACK TO SAVEPOINT s")
	}
	return list
}

func (s *session) customer() int64 { return 1 + s.rng.Int64N(int64(s.w.Size.Customers)) }
func (s *session) product() int64  { return 1 + s.rng.Int64N(int64(s.w.Size.Products)) }

func (s *session) statement(list []string) []string {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	switch n := s.rng.IntN(100); {
	case n < 25: // a new order with items
		order := s.id()
		add(`INSERT INTO orders VALUES (%d, 1, %d, 'new', %d, localtimestamp(6), current_date, NULL)`, order, s.customer(), s.rng.IntN(10000))
		s.orders = append(s.orders, order)
		for range 1 + s.rng.IntN(3) {
			item := s.id()
			add(`INSERT INTO order_items VALUES (%d, 1, %d, %d, %d, %s)`, item, order, s.product(), 1+s.rng.IntN(5), s.w.DB.Dialect().gift)
			s.items = append(s.items, item)
		}
	case n < 50 && len(s.orders) > 0:
		order := s.orders[s.rng.IntN(len(s.orders))]
		add(`UPDATE orders SET rev = rev + 1, state = 'paid', total = total + 1, note = 'changed %d' WHERE id = %d`, s.rng.Uint32(), order)
	case n < 60 && len(s.items) > 0: // a delete
		i := s.rng.IntN(len(s.items))
		add(`DELETE FROM order_items WHERE id = %d`, s.items[i])
		s.items = append(append([]int64(nil), s.items[:i]...), s.items[i+1:]...)
	case n < 65 && len(s.orders) > 0: // a key change
		i, id := s.rng.IntN(len(s.orders)), s.id()
		add(`UPDATE orders SET id = %d, rev = rev + 1 WHERE id = %d`, id, s.orders[i])
		s.orders = append([]int64(nil), s.orders...)
		s.orders[i] = id
	case n < 80: // leaves a long description as it is
		add(`UPDATE products SET rev = rev + 1, price = price + 0.01 WHERE id = %d`, s.product())
	default:
		add(`UPDATE customers SET rev = rev + 1, credit = coalesce(credit, 0) + 1.25 WHERE id = %d`, s.customer())
	}
	return list
}
