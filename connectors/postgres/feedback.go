package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// feedback tells the server what it may forget. It runs apart from decoding and writing, so the server gets its replies
// however long the log stalls (P12).
type feedback struct {
	w         io.Writer
	interval  time.Duration
	wake      chan struct{}
	confirmed atomic.Uint64 // Invariant 1: set only after the log has committed. It never falls (P11).
}

func newFeedback(w io.Writer, interval time.Duration, from lsn) *feedback {
	f := &feedback{w: w, interval: interval, wake: make(chan struct{}, 1)}
	f.confirmed.Store(uint64(from))
	return f
}

// confirm raises the confirmed position; a lower one has no effect.
func (f *feedback) confirm(at lsn) {
	for {
		now := f.confirmed.Load()
		if uint64(at) <= now || f.confirmed.CompareAndSwap(now, uint64(at)) {
			return
		}
	}
}

// poke asks for a status soon.
func (f *feedback) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run sends a status at once, at every interval and when poked. Each asks for an answer, whose WAL end lets an idle
// database's slot advance (P10).
func (f *feedback) run(ctx context.Context) error {
	ticker := time.NewTicker(f.interval)
	defer ticker.Stop()
	ask := true
	for {
		if err := f.send(ask); err != nil {
			return fmt.Errorf("send replication status: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			ask = true
		case <-f.wake:
			ask = false // an answer to an answer would never end
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
