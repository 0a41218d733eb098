package connectors

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// batchBytes is the size of a batch's slab; batchRecords how many records it takes at most.
	batchBytes   = 256 << 10
	batchRecords = 1024
	// batchSpare is what is left free so that a usual row needs no growth of the slab.
	batchSpare = 8 << 10
	// batchCost is what one batch weighs in the gate: its slab and its records.
	batchCost = batchBytes + batchRecords*256
)

// Mark is a point between two source transactions: everything before it is whole.
type Mark struct {
	Order    uint64 // source order, rising: commit LSN or the like
	Confirm  uint64 // what the source may forget up to once the mark is in the log
	TimeUs   int64  // commit time at the source, microseconds since 1970
	Events   uint64 // of this run up to here
	Txs      uint64 // of this run up to here
	Resume   any    // what the source's AppendResume turns into the resume point; never changed once marked
	Force    bool   // commit although no records came since the last mark
	position int    // records of the batch before it
}

// Batch is a piece of the source's output: encoded records in one slab, and marks. A source fills it and gives it to
// Writer.Send; its memory is used again when the log has acknowledged every record.
type Batch struct {
	// The Context makes a Batch usable as Record.Context, which leads a produce promise back to its batch
	// without a closure for every record.
	context.Context

	w     *Writer
	slab  []byte
	recs  []kgo.Record
	hdrs  []kgo.RecordHeader
	marks []Mark
	named int   // headers that belong to records already added
	cost  int64 // what it holds in the gate
	left  atomic.Int64

	written chan struct{} // closed when the writer takes the batch, for Drain
}

// Buf is the slab to append to: encoders append, then Keep stores the grown slice. Slices of it stay valid.
func (b *Batch) Buf() []byte { return b.slab }

// Keep stores what was appended to Buf.
func (b *Batch) Keep(buf []byte) { b.slab = buf }

// Full says that the batch should be sent before more is added.
func (b *Batch) Full() bool {
	return len(b.slab) > batchBytes-batchSpare || len(b.recs) >= batchRecords-4
}

// Empty says that there is nothing to send.
func (b *Batch) Empty() bool { return len(b.recs) == 0 && len(b.marks) == 0 }

// Header adds a header to the record that is added next.
func (b *Batch) Header(key string, value []byte) {
	b.hdrs = append(b.hdrs, kgo.RecordHeader{Key: key, Value: value})
}

// Record adds a record with the headers since the last one. The partition counts only when the key is nil.
func (b *Batch) Record(topic string, partition int32, key, value []byte, at time.Time) {
	b.recs = append(b.recs, kgo.Record{
		Topic: topic, Partition: partition, Key: key, Value: value, Timestamp: at,
		Headers: b.hdrs[b.named:len(b.hdrs):len(b.hdrs)], Context: b,
	})
	b.named = len(b.hdrs)
}

// Mark places a mark after the records added so far.
func (b *Batch) Mark(m Mark) {
	m.position = len(b.recs)
	if n := len(b.marks); n > 0 && b.marks[n-1].position == m.position {
		m.Force = m.Force || b.marks[n-1].Force
		b.marks[n-1] = m
		return
	}
	b.marks = append(b.marks, m)
}

// reset prepares for reuse; a slab that grew far is left to the collector.
func (b *Batch) reset() {
	clear(b.recs)
	clear(b.hdrs)
	clear(b.marks)
	b.recs, b.hdrs, b.marks, b.named, b.written = b.recs[:0], b.hdrs[:0], b.marks[:0], 0, nil
	if cap(b.slab) > 2*batchBytes {
		b.slab = make([]byte, 0, batchBytes)
	}
	b.slab = b.slab[:0]
}

// Gate bounds bytes that are held at once (invariant 9).
type Gate struct {
	mu      sync.Mutex
	used    int64
	max     int64
	waiting bool
	wake    chan struct{}
}

// NewGate lets in up to limit bytes.
func NewGate(limit int64) *Gate { return &Gate{max: limit, wake: make(chan struct{})} }

// Acquire waits for room until ctx ends or stop is closed; a first holder always gets in, however much it wants.
func (g *Gate) Acquire(ctx context.Context, stop <-chan struct{}, n int64) error {
	for {
		g.mu.Lock()
		if g.used == 0 || g.used+n <= g.max {
			g.used += n
			g.mu.Unlock()
			return nil
		}
		g.waiting = true
		wake := g.wake
		g.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-stop:
			return errWriterStopped
		case <-wake:
		}
	}
}

// Force counts what is already there.
func (g *Gate) Force(n int64) {
	g.mu.Lock()
	g.used += n
	g.mu.Unlock()
}

// Release makes room.
func (g *Gate) Release(n int64) {
	g.mu.Lock()
	g.used -= n
	if g.waiting {
		g.waiting = false
		close(g.wake)
		g.wake = make(chan struct{})
	}
	g.mu.Unlock()
}
