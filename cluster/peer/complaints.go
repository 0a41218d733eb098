package peer

import (
	"errors"
	"net"
	"sync"
	"time"
)

// What goes on for long is said once in a while, not at every attempt.
const (
	complainAgain = 10 * time.Minute
	maxComplaints = 1000
)

// complaints are what has been said of whom.
type complaints struct {
	mu   sync.Mutex
	said map[complaint]time.Time
}

type complaint struct{ whom, what string }

// worth reports whether an error is to be said: it was not, or long ago.
func (c *complaints) worth(whom string, err error) bool {
	key, now := complaint{whom, kindOf(err)}, time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.said[key]; ok && now.Sub(at) < complainAgain {
		return false
	}
	if len(c.said) >= maxComplaints || c.said == nil {
		c.said = map[complaint]time.Time{}
	}
	c.said[key] = now
	return true
}

// over forgets what was said of one who does well now.
func (c *complaints) over(whom string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.said {
		if k.whom == whom {
			delete(c.said, k)
		}
	}
}

// kindOf is the part of an error that does not change from one attempt to the next: no ports, no times.
func kindOf(err error) string {
	var t *tlsError
	if errors.As(err, &t) {
		return t.kind
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
