package sleep

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestForWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ d, ends, took time.Duration }{
			{time.Hour, 2 * time.Hour, time.Hour},
			{time.Hour, time.Minute, time.Minute},
			{0, time.Minute, 0},
			{-time.Hour, time.Minute, 0},
			{time.Hour, -time.Minute, 0},
			{0, -time.Minute, 0},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), c.ends)
			began := time.Now()
			over := For(ctx, c.d)
			if took := time.Since(began); took != c.took || over != (c.d < c.ends && c.ends > 0) {
				t.Errorf("%v in a context that ends in %v: waited %v, over: %v", c.d, c.ends, took, over)
			}
			cancel()
		}
	})
}
