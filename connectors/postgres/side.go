package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// walEndEvery is the least time between two looks at the end of the source's WAL.
	walEndEvery   = time.Second
	walEndTimeout = 5 * time.Second
)

// sideConn is an ordinary connection for catalog lookups beside the stream. It is opened when it is needed, and again when it broke.
type sideConn struct {
	config *Config

	mu   sync.Mutex
	conn *pgconn.PgConn
}

// use runs f, which has the connection for itself.
func (s *sideConn) use(ctx context.Context, f func(*pgconn.PgConn) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil || s.conn.IsClosed() {
		conn, err := s.config.dial(ctx)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	return f(s.conn)
}

func (s *sideConn) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	closeConn(s.conn)
}

// watchWAL looks at the end of the source's WAL, which the stream does not tell while it is behind, and then asks the server
// how much of that it has read: an idle database's lag is not what others write (P10).
func (r *run) watchWAL(ctx context.Context, in *receiver, fb *feedback) error {
	ticker := time.NewTicker(max(fb.interval, walEndEvery))
	defer ticker.Stop()
	for {
		end, err := r.readWALEnd(ctx)
		switch {
		case err == nil:
			in.reaches(end)
			fb.inquire()
		case ctx.Err() == nil:
			r.log.Warn("the lag in bytes is not known", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func (r *run) readWALEnd(ctx context.Context) (end lsn, err error) {
	ctx, cancel := context.WithTimeout(ctx, walEndTimeout)
	defer cancel()
	err = r.side.use(ctx, func(conn *pgconn.PgConn) error {
		rows, err := query(ctx, conn, "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END")
		if err != nil {
			return fmt.Errorf("read end of the source's WAL: %w", err)
		}
		end, err = parseLSN(string(rows[0][0]))
		return err
	})
	return end, err
}
