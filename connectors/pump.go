package connectors

import (
	"context"
	"time"
)

// sendGap is the least time between two batches that are not full, and so between two small commits.
const sendGap = 2 * time.Millisecond

// Pump gives handle what comes in until ctx ends or something fails, and beat every heartbeat.interval.ms. With nothing more to read,
// what there is goes out as soon as the writer has time for it: at once after a quiet moment, together with what follows in a
// dense stream.
func Pump[T any](ctx context.Context, e *Emitter, in <-chan T, handle func(context.Context, T) error, beat func(context.Context) error) error {
	var beats <-chan time.Time
	if e.Settings.HeartbeatInterval > 0 {
		ticker := time.NewTicker(e.Settings.HeartbeatInterval)
		defer ticker.Stop()
		beats = ticker.C
	}
	pace := time.NewTimer(sendGap)
	defer pace.Stop()
	var sent time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pace.C:
		case <-e.Writer.Ready():
		case <-beats:
			if err := beat(ctx); err != nil {
				return err
			}
		case chunk := <-in:
			e.Touch()
			if err := handle(ctx, chunk); err != nil {
				return err
			}
		}
		if e.Batch == nil || len(in) > 0 || e.Writer.Busy() {
			continue
		}
		if wait := sendGap - time.Since(sent); wait > 0 {
			pace.Reset(wait)
			continue
		}
		sent = time.Now()
		if err := e.Send(ctx); err != nil {
			return err
		}
	}
}
