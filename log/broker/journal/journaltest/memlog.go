// Package journaltest is a partition log in memory, for tests of what is kept in journals: appends can be held back,
// lost or refused, and the log can be cut where a crash would cut it.
package journaltest

import (
	"context"
	"slices"
	"sync"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/record"
)

// Log implements journal.Log. The zero value is empty and leads in epoch 0.
type Log struct {
	mu      sync.Mutex
	start   int64
	end     int64
	batches [][]byte
	known   []log.ProducerState // outlives the batches, as in a real partition
	held    []pending
	hold    bool
	refuse  error
	epoch   int32
	away    bool
}

type pending struct {
	batch []byte
	done  func(cluster.AppendResult)
}

// Partition is the log as journals take it.
func (l *Log) Partition() journal.Partition { return journal.Partition{Log: l, Trim: l.trim} }

// Hold keeps appends back until Release.
func (l *Log) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = true
}

// Release commits the first n appends that were kept back; fewer when there are not so many. It returns how many.
func (l *Log) Release(n int) int {
	l.mu.Lock()
	n = min(n, len(l.held))
	list := l.held[:n]
	l.held = slices.Clone(l.held[n:])
	results := make([]cluster.AppendResult, n)
	for i, p := range list {
		results[i] = l.commit(p.batch)
	}
	l.mu.Unlock()
	for i, p := range list {
		p.done(results[i])
	}
	return n
}

// Flow ends Hold and commits what was kept back.
func (l *Log) Flow() {
	l.mu.Lock()
	l.hold = false
	n := len(l.held)
	l.mu.Unlock()
	l.Release(n)
}

// Held is how many appends are kept back.
func (l *Log) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

// Refuse makes appends fail with err; nil ends it.
func (l *Log) Refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = err
}

// Lead says whether this node leads from now on, and begins the next epoch.
func (l *Log) Lead(self bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	l.away = !self
}

// Copy is the log as a crash leaves it: what is committed.
func (l *Log) Copy() *Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Log{start: l.start, end: l.end, batches: slices.Clone(l.batches), known: slices.Clone(l.known), epoch: l.epoch + 1}
}

// Put appends a stored batch, whatever it holds.
func (l *Log) Put(batch []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch = slices.Clone(batch)
	if res := l.commit(batch); res.Err != nil {
		l.batches = append(l.batches, batch)
		l.end++
	}
}

// Batches is what is stored.
func (l *Log) Batches() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.batches)
}

func (l *Log) commit(batch []byte) cluster.AppendResult {
	h, err := record.ParseHeader(batch)
	if err == nil {
		err = l.check(&h)
	}
	if err != nil {
		return cluster.AppendResult{BaseOffset: -1, Err: err}
	}
	record.Stamp(batch, l.end, l.epoch)
	base := l.end
	l.end += int64(h.LastOffsetDelta) + 1
	l.batches = append(l.batches, batch)
	h.BaseOffset = base
	l.observe(&h)
	return cluster.AppendResult{BaseOffset: base, LogStart: l.start}
}

// check is the part of a partition's rules that journals must get right: sequences and epochs.
func (l *Log) check(h *record.Header) error {
	if h.ProducerID < 0 {
		return nil
	}
	for _, p := range l.known {
		if p.ProducerID != h.ProducerID {
			continue
		}
		switch {
		case h.ProducerEpoch < p.Epoch:
			return log.ErrInvalidProducerEpoch
		case h.Control():
		case h.ProducerEpoch > p.Epoch && h.BaseSequence != 0, h.ProducerEpoch == p.Epoch && h.BaseSequence != p.LastSequence+1:
			return log.ErrOutOfOrderSequence
		}
	}
	return nil
}

// Leader is this node, unless Lead said otherwise.
func (l *Log) Leader() (node, epoch int32, self bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 1, l.epoch, !l.away
}

// Marks implements journal.Log, as the methods below do.
func (l *Log) Marks() log.Marks {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.marks()
}

func (l *Log) marks() log.Marks {
	stable := l.end
	for _, p := range l.known {
		if p.CurrentTxnFirst >= 0 {
			stable = min(stable, p.CurrentTxnFirst)
		}
	}
	return log.Marks{LogStart: l.start, LastStable: stable, HighWatermark: l.end, End: l.end}
}

func (l *Log) Read(offset int64, maxBytes int, _ bool, _ log.Isolation) (log.ReadResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	res := log.ReadResult{Marks: l.marks()}
	if offset < l.start || offset > l.end {
		return res, log.ErrOffsetOutOfRange
	}
	for _, b := range l.batches {
		h, err := record.ParseHeader(b)
		if err == nil && h.LastOffset() < offset {
			continue
		}
		if len(res.Batches) > 0 && len(res.Batches)+len(b) > maxBytes {
			break
		}
		res.Batches = append(res.Batches, b...)
	}
	return res, nil
}

// Append implements journal.Log.
func (l *Log) Append(_ context.Context, epoch int32, batch []byte, done func(cluster.AppendResult)) {
	l.mu.Lock()
	var res cluster.AppendResult
	switch {
	case l.away || epoch != l.epoch:
		res = cluster.AppendResult{BaseOffset: -1, Err: log.ErrNotLeader}
	case l.refuse != nil:
		res.Err = l.refuse
	case l.hold:
		l.held = append(l.held, pending{batch, done})
		l.mu.Unlock()
		return
	default:
		res = l.commit(batch)
	}
	l.mu.Unlock()
	done(res)
}

// Producers implements journal.Log.
func (l *Log) Producers() []log.ProducerState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.known)
}

func (l *Log) observe(h *record.Header) {
	if h.ProducerID < 0 {
		return
	}
	i := slices.IndexFunc(l.known, func(p log.ProducerState) bool { return p.ProducerID == h.ProducerID })
	if i < 0 {
		i = len(l.known)
		l.known = append(l.known, log.ProducerState{ProducerID: h.ProducerID, Epoch: -1, LastSequence: -1, CurrentTxnFirst: -1})
	}
	p := &l.known[i]
	if h.ProducerEpoch != p.Epoch {
		p.Epoch, p.LastSequence = h.ProducerEpoch, -1
	}
	if h.Control() {
		p.CurrentTxnFirst = -1
		return
	}
	p.LastSequence = h.LastSequence()
	if p.CurrentTxnFirst < 0 {
		p.CurrentTxnFirst = h.BaseOffset
	}
}

func (l *Log) trim(before int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.batches) > 0 {
		h, err := record.ParseHeader(l.batches[0])
		if err != nil || h.LastOffset() >= before {
			break
		}
		l.batches = l.batches[1:]
		l.start = h.LastOffset() + 1
	}
	return nil
}
