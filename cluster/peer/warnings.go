package peer

import (
	"sync"
	"time"
)

// warnBurst warnings are written at once, and from then on one every warnEvery, with how many there were meanwhile: whoever reaches the port
// does not fill the disk with what is said of it.
const (
	warnBurst = 20
	warnEvery = time.Second
)

// warnings counts those about callers.
type warnings struct {
	mu      sync.Mutex
	allowed float64
	at      time.Time
	kept    int // warnings that were not written
}

// pass reports whether a warning is to be written, and how many were not before it.
func (t *warnings) pass(now time.Time) (untold int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at.IsZero() {
		t.allowed = warnBurst
	} else {
		t.allowed = min(t.allowed+float64(now.Sub(t.at))/float64(warnEvery), warnBurst)
	}
	t.at = now
	if t.allowed < 1 {
		t.kept++
		return 0, false
	}
	t.allowed--
	untold, t.kept = t.kept, 0
	return untold, true
}

func (n *Network) warn(text string, args ...any) {
	untold, ok := n.warnings.pass(time.Now())
	if !ok {
		return
	}
	if untold > 0 {
		args = append(args, "others_like_it", untold)
	}
	n.opts.Logger.Warn(text, args...)
}
