// Package sleep lets time pass for those who may be told to stop meanwhile.
package sleep

import (
	"context"
	"time"
)

// For waits for d, which may be none. It is false when ctx ends before.
func For(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
