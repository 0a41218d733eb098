package pace

import (
	"math"
	"time"
)

const (
	// MinRate is what readers of history get however busy the machine is, in bytes per second.
	MinRate = 64 << 20
	// catchUp is how much faster than producers write readers of history may read at least.
	catchUp = 1.25
	// quiet is how many bytes per second producers may write and still count as idle.
	quiet = 64 << 10
	// patience is for how long producers must have been quiet before readers are let go: those whom readers keep from writing
	// look quiet as well.
	patience = 3 * time.Second

	busyBelow = 0.10 // idle share of the CPU time under which the rate falls,
	calmAbove = 0.25 // and over which it rises again
	slowDown  = 0.5
	speedUp   = 1.5
)

// Load is what was measured in an interval.
type Load struct {
	Produced float64       // bytes per second
	Quiet    time.Duration // for how long producers have been quiet
	Read     float64       // bytes of history per second
	Idle     float64       // idle share of the machine's CPU time; below 0: not known, which counts as none
}

// Next is the rate of readers of history in the next interval, in bytes per second; infinite where nothing holds them.
func Next(rate float64, l Load) float64 {
	switch {
	case l.Quiet >= patience:
		return math.Inf(1)
	case l.Idle < busyBelow:
		// Readers that were not held, or did not use what they had, are slowed from what they read.
		return max(MinRate, catchUp*l.Produced, slowDown*min(rate, l.Read))
	case l.Idle > calmAbove:
		return speedUp * rate
	}
	return rate
}
