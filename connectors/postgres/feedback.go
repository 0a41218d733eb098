package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"
)

// confirmGap is the least time between two statuses that only tell a new position: commits come by the hundred each second.
const confirmGap = 100 * time.Millisecond

// feedback tells the server what it may forget. It runs apart from decoding and writing, so the server gets its replies
// however long the log stalls (P12).
type feedback struct {
	w         io.Writer
	interval  time.Duration
	wake      chan struct{} // a status is wanted at once
	moved     chan struct{} // the position has moved
	ask       atomic.Bool   // the next status asks for an answer
	confirmed atomic.Uint64 // Invariant 1: set only after the log has committed. It never falls (P11).
}

func newFeedback(w io.Writer, interval time.Duration, from lsn) *feedback {
	f := &feedback{w: w, interval: interval, wake: make(chan struct{}, 1), moved: make(chan struct{}, 1)}
	f.confirmed.Store(uint64(from))
	return f
}

// confirm raises the confirmed position, of which the server learns soon; a lower one has no effect.
func (f *feedback) confirm(at lsn) {
	for {
		now := f.confirmed.Load()
		if uint64(at) <= now {
			return
		}
		if f.confirmed.CompareAndSwap(now, uint64(at)) {
			signal(f.moved)
			return
		}
	}
}

// poke sends a status at once.
func (f *feedback) poke() { signal(f.wake) }

// inquire asks the server at once how far it has read its WAL.
func (f *feedback) inquire() {
	f.ask.Store(true)
	signal(f.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run sends a status at once, at every interval, when poked, and soon after the position has moved. Those of the interval ask for an
// answer, whose WAL end lets an idle database's slot advance (P10); an answer to an answer would never end.
func (f *feedback) run(ctx context.Context) error {
	ticker := time.NewTicker(f.interval)
	defer ticker.Stop()
	gap := time.NewTimer(confirmGap)
	defer gap.Stop()
	f.ask.Store(true)
	for {
		sent := time.Now()
		if err := f.send(f.ask.Swap(false)); err != nil {
			return fmt.Errorf("send replication status: %w", err)
		}
		if err := f.await(ctx, ticker, gap, sent); err != nil {
			return err
		}
	}
}

// await returns when the next status is due.
func (f *feedback) await(ctx context.Context, ticker *time.Ticker, gap *time.Timer, sent time.Time) error {
	gap.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			f.ask.Store(true)
			return nil
		case <-f.wake:
			return nil
		case <-gap.C:
			return nil
		case <-f.moved:
			wait := confirmGap - time.Since(sent)
			if wait <= 0 {
				return nil
			}
			gap.Reset(wait)
		}
	}
}

// send writes one standby status update as a CopyData frame.
func (f *feedback) send(ask bool) error {
	b := make([]byte, 0, 39)
	b = append(b, 'd')
	b = binary.BigEndian.AppendUint32(b, 38)
	b = append(b, 'r')
	at := f.confirmed.Load()
	for range 3 { // written, flushed, applied
		b = binary.BigEndian.AppendUint64(b, at)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(time.Now().UnixMicro()-postgresEpoch))
	if ask {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	_, err := f.w.Write(b)
	return err
}

// statusInterval keeps well inside the server's timeout (P12).
func statusInterval(configured time.Duration, walSenderTimeoutMs int) time.Duration {
	limit := time.Duration(math.MaxInt64)
	if walSenderTimeoutMs > 0 {
		limit = time.Duration(walSenderTimeoutMs) * time.Millisecond / 4
	}
	return max(min(configured, limit), 10*time.Millisecond)
}
