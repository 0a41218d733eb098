package peer

import "sync"

// Outbox is a queue of encoded messages for one connection, bounded in bytes. What does not fit is dropped: the sender hears of it, and Raft
// repeats it.
type outbox struct {
	limit int

	mu     sync.Mutex
	bytes  int
	queue  [][]byte
	notify chan struct{} // capacity 1
}

func newOutbox(limit int) *outbox { return &outbox{limit: limit, notify: make(chan struct{}, 1)} }

// put takes over b; false: it was dropped.
func (o *outbox) put(b []byte) bool {
	o.mu.Lock()
	if o.bytes > 0 && o.bytes+len(b) > o.limit {
		o.mu.Unlock()
		return false
	}
	o.bytes += len(b)
	o.queue = append(o.queue, b)
	o.mu.Unlock()
	select {
	case o.notify <- struct{}{}:
	default:
	}
	return true
}

// take returns everything that waits.
func (o *outbox) take() [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queue
	o.queue, o.bytes = nil, 0
	return q
}

// size is how many bytes wait.
func (o *outbox) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}
