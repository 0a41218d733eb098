package peer

import "sync"

// Frame is an encoded frame in parts, so that a large payload need not be copied.
type Frame [][]byte

func (f Frame) size() (n int) {
	for _, part := range f {
		n += len(part)
	}
	return n
}

// Outbox is a queue of encoded messages for one connection, bounded in bytes. What does not fit is dropped: the sender hears of it, and Raft
// repeats it.
type outbox struct {
	limit int

	mu     sync.Mutex
	bytes  int
	queue  []Frame
	notify chan struct{} // capacity 1
}

func newOutbox(limit int) *outbox { return &outbox{limit: limit, notify: make(chan struct{}, 1)} }

// put takes over f; false: it was dropped.
func (o *outbox) put(f Frame) bool {
	size := f.size()
	o.mu.Lock()
	if o.bytes > 0 && o.bytes+size > o.limit {
		o.mu.Unlock()
		return false
	}
	o.bytes += size
	o.queue = append(o.queue, f)
	o.mu.Unlock()
	select {
	case o.notify <- struct{}{}:
	default:
	}
	return true
}

// take returns everything that waits.
func (o *outbox) take() []Frame {
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
