package connectors

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	backoffFirst = 500 * time.Millisecond
	backoffMax   = 30 * time.Second
	// A run that lasted this long was healthy: the next failure starts from the shortest backoff again.
	backoffReset = time.Minute
)

// Connector is one running source.
type Connector interface {
	// Run returns nil when ctx ends. It retries what can heal by itself and returns an error only for what needs a person.
	Run(ctx context.Context) error
	Status() Status
	// Unpark asks for a parked table to be unparked. It returns before that is done: the status tells.
	Unpark(u Unpark) error
}

// Supervise calls run until ctx ends or run fails with a Fault, waiting longer after each failure in a row.
func Supervise(ctx context.Context, logger *slog.Logger, t *Tracker, run func(context.Context) error) error {
	wait := backoffFirst
	for {
		began := time.Now()
		t.SetState(StateStarting, nil)
		err := run(ctx)
		if ctx.Err() != nil {
			t.SetState(StateStopped, nil)
			return nil
		}
		if err == nil { // the source has nothing more to give
			t.SetState(StateComplete, nil)
			logger.Info("connector is complete")
			return nil
		}
		if IsFault(err) {
			t.SetState(StateFailed, err)
			logger.Error("connector stopped", "error", err)
			return err
		}
		if time.Since(began) > backoffReset {
			wait = backoffFirst
		}
		t.SetState(StateRetrying, err)
		after := wait + rand.N(wait/2)
		logger.Warn("connector retries", "error", err, "after", after.Round(time.Millisecond))
		if !sleep.For(ctx, after) {
			t.SetState(StateStopped, nil)
			return nil
		}
		wait = min(2*wait, backoffMax)
	}
}
