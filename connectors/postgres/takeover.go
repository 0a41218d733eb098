package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	// replyGrace is how much later than its interval a living reader's status may reach the server.
	replyGrace = 5 * time.Second
	// endGrace is what a reader that was told to end is given.
	endGrace = 5 * time.Second
	slotPoll = 250 * time.Millisecond
	// replyVersion tells when the server heard of a reader.
	replyVersion = 120000
)

// slotReader is who reads the slot: what the server says of it.
type slotReader struct {
	pid, reply string // reply is when the server heard of it last, by the reader's own clock
	ours       bool   // it has this connector's name
}

func (r *run) slotReader(ctx context.Context) (reader *slotReader, err error) {
	err = r.side.use(ctx, func(conn *pgconn.PgConn) error {
		rows, err := query(ctx, conn, `SELECT s.active_pid::text, coalesce(a.reply_time::text, ''), coalesce(a.application_name, '')
 FROM pg_replication_slots s LEFT JOIN pg_stat_replication a ON a.pid = s.active_pid WHERE s.active AND s.slot_name = `+quoteLiteral(r.config.Slot))
		if err != nil {
			return fmt.Errorf("look for the reader of slot %s: %w", r.config.Slot, err)
		}
		if len(rows) > 0 {
			reader = &slotReader{string(rows[0][0]), string(rows[0][1]), string(rows[0][2]) == r.config.conn.RuntimeParams["application_name"]}
		}
		return nil
	})
	return reader, err
}

// awaitSlot waits until nobody reads the slot, unless a reader is at work. The reader may be the connection of a former run, or of
// another node that ran this connector until it was paused or cut off, which the server has not noticed to be gone: it would keep
// the slot for wal_sender_timeout. One of this connector's name that says nothing for longer than it ever does while it lives
// is ended.
func (r *run) awaitSlot(ctx context.Context, inUse error) (free bool, err error) {
	if r.in.version < replyVersion {
		return false, nil
	}
	first, err := r.slotReader(ctx)
	if first == nil || err != nil || !first.ours {
		return first == nil && err == nil, err // another program, or one that this user may not look at
	}
	r.tracker.SetState(connectors.StateRetrying, inUse)
	silent := r.config.StatusInterval + replyGrace
	for begun, ended := time.Now(), false; ; {
		if !sleep.For(ctx, slotPoll) {
			return false, ctx.Err()
		}
		now, err := r.slotReader(ctx)
		switch {
		case err != nil:
			return false, err
		case now == nil:
			return true, nil
		case *now != *first, time.Since(begun) > silent+endGrace:
			return false, nil // it is at work, or does not end
		case time.Since(begun) > silent && !ended:
			ended = true
			r.log.Warn("ending the slot's former reader, which is silent", "slot", r.config.Slot, "process", now.pid, "for", silent)
			if err := r.endReader(ctx, now.pid); err != nil {
				return false, err
			}
		}
	}
}

func (r *run) endReader(ctx context.Context, pid string) error {
	return r.side.use(ctx, func(conn *pgconn.PgConn) error {
		if err := execute(ctx, conn, "SELECT pg_terminate_backend("+pid+")"); err != nil {
			return fmt.Errorf("end the silent reader of slot %s: %w", r.config.Slot, err)
		}
		return nil
	})
}
