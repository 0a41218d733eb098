package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Bounds of a task (invariant 9).
const (
	maxBufferedBytes  = 32 << 20 // of fetched records of all partitions, shared out evenly
	minPartitionBytes = 512 << 10

	tendInterval    = time.Second      // housekeeping, also when records keep coming
	offsetsInterval = 5 * time.Second  // offsets alone (markers, tables of others) are written to the target this often
	groupInterval   = time.Second      // the group's offsets follow the target's this often
	stallTimeout    = 10 * time.Second // a transaction without progress is checked for a gap
	missingTimeout  = 30 * time.Second // a topic that a transaction names must appear by then
	carefulCommits  = 200              // commits after which a task that searched a poison record trusts its batches again
)

var errReplan = errors.New("topics changed")

// task is the time from taking the group's partitions to the first error: merge, decode, apply, commit.
type task struct {
	sink     *Runner
	client   *kgo.Client
	session  Session
	inbox    *inbox
	plan     plan
	mergers  []*merger
	byPrefix map[string]*merger
	queues   map[partition]*queue
	owners   map[*queue]*merger
	books    map[string]*schemaBook // by schema topic

	started bool // the first assignment has been taken
	held    bool // next is waiting for its schema
	heldBy  *merger
	next    step
	ev      Event
	careful bool
	commits int
	marked  bool // the topics that are read no more are marked in the target

	rows, bytes, transactions int // in the open target transaction
	begun                     time.Time
	dirty                     []*queue
	offsets                   []Offset
	lastCommit, lastGroup     time.Time
	lastTend                  time.Time
	groupDirty                bool
	groupFailed               atomic.Bool // the last commit of the group's offsets; it is tried again
	progress                  time.Time   // of the last event, boundary or fetched record
	missingSince              time.Time
	gapSince, gapAsked        time.Time // an event may be in partitions that are not assigned yet
}

// run applies until the context ends, the partitions are lost or something fails. It begins with what was fetched already.
func (t *task) run(ctx context.Context, fetches kgo.Fetches) error {
	now := time.Now()
	t.progress, t.lastCommit = now, now
	if err := t.adopt(); err != nil {
		return err
	}
	t.started = true
	for {
		if err := t.take(ctx, fetches); err != nil {
			return err
		}
		if err := t.drain(ctx); err != nil {
			return err
		}
		t.gate()
		fetches = t.client.PollFetches(nil) //nolint:staticcheck // nil: what is buffered, without waiting
		idle := fetches.NumRecords() == 0 && len(fetches.Errors()) == 0
		if idle {
			if err := t.settle(ctx); err != nil {
				return err
			}
		}
		if idle || t.asks() || time.Since(t.lastTend) >= tendInterval {
			if err := t.tend(ctx); err != nil {
				return err
			}
		}
		if idle {
			wait, cancel := context.WithTimeout(ctx, tendInterval)
			fetches = t.client.PollFetches(wait)
			cancel()
		}
	}
}

// asks tells that the merge waits for the ends of a table's partitions.
func (t *task) asks() bool {
	return slices.ContainsFunc(t.mergers, func(m *merger) bool { return m.ask != nil })
}

// take puts fetched records into the queues.
func (t *task) take(ctx context.Context, fetches kgo.Fetches) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := t.adopt(); err != nil {
		return err
	}
	var failed error
	fetches.EachError(func(topic string, p int32, err error) {
		if failed == nil && !errors.Is(err, context.DeadlineExceeded) {
			failed = fetchError(topic, p, err)
		}
	})
	if failed != nil {
		return failed
	}
	fetches.EachPartition(func(fp kgo.FetchTopicPartition) {
		if len(fp.Records) == 0 || failed != nil {
			return
		}
		t.progress = time.Now()
		if book := t.books[fp.Topic]; book != nil {
			for _, rec := range fp.Records {
				if err := book.add(rec); err != nil && failed == nil {
					failed = err
				}
			}
			return
		}
		q := t.queues[partition{fp.Topic, fp.Partition}]
		if q == nil {
			failed = fmt.Errorf("fetch topic %s partition %d: not assigned", fp.Topic, fp.Partition)
			return
		}
		m := t.owners[q]
		for _, rec := range fp.Records {
			if q.owner == nil {
				m.push(q, endEntry(rec))
			} else {
				m.push(q, dataEntry(rec))
			}
		}
	})
	return failed
}

// drain applies everything that is there, and commits at the bounds.
func (t *task) drain(ctx context.Context) error {
	for {
		moved := false
		for _, m := range t.mergers {
			did, err := t.drainOne(ctx, m)
			if err != nil {
				return err
			}
			moved = moved || did
		}
		if t.full() && t.atBoundary() {
			if err := t.commit(ctx); err != nil {
				return err
			}
			moved = true
		}
		if !moved {
			return nil
		}
	}
}

// drainOne applies what one merger has. It stops at a boundary when the target transaction is full.
func (t *task) drainOne(ctx context.Context, m *merger) (moved bool, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return moved, context.Cause(ctx)
		}
		if t.held && t.heldBy != m {
			return moved, nil
		}
		if !t.held {
			if t.next, err = m.step(!t.full()); err != nil {
				return moved, t.judgeGap(ctx, err)
			}
			t.gapSince = time.Time{}
		}
		switch t.next.kind {
		case stepBlocked:
			return moved, nil
		case stepBoundary:
			t.transactions++
			t.begin()
		case stepEvent:
			ready, err := t.apply(ctx)
			if err != nil {
				return moved, err
			}
			t.held, t.heldBy = !ready, m
			if !ready {
				return moved, nil
			}
		}
		moved = true
	}
}

// apply decodes the event at hand and hands it to the target. Not ready: its table version is not known yet.
func (t *task) apply(ctx context.Context) (ready bool, err error) {
	e := &t.next.entry
	rec := e.rec
	if e.err != nil {
		return false, recordErr(rec.Topic, rec.Partition, rec.Offset, e.err)
	}
	var v *version
	if e.pos.Schema != 0 {
		if book := t.books[t.plan.data[rec.Topic]+suffixSchema]; book != nil {
			v = book.known[e.pos.Schema]
		}
		if v == nil {
			return false, nil
		}
	}
	if err := fill(&t.ev, e, v); err != nil {
		return false, recordErr(rec.Topic, rec.Partition, rec.Offset, err)
	}
	t.begin()
	if err := t.session.Apply(ctx, &t.ev); err != nil {
		if t.careful && IsPermanent(err) {
			return false, recordErr(rec.Topic, rec.Partition, rec.Offset, err)
		}
		return false, err
	}
	t.rows++
	t.bytes += len(rec.Value)
	return true, nil
}

func (t *task) begin() {
	if t.begun.IsZero() {
		t.begun = time.Now()
	}
	t.progress = time.Now()
}

// full tells that the target transaction has reached a bound, so that no further source transaction joins it.
func (t *task) full() bool {
	s := &t.sink.settings
	switch {
	case t.begun.IsZero():
		return false
	case t.careful:
		return t.rows > 0
	case t.rows == 0: // only other tables' transactions went by
		return time.Since(t.lastCommit) >= offsetsInterval
	}
	return t.rows >= s.MaxRows || t.bytes >= s.MaxBytes || time.Since(t.begun) >= s.MaxDelay
}

func (t *task) atBoundary() bool {
	if t.held {
		return false
	}
	for _, m := range t.mergers {
		if !m.atBoundary() {
			return false
		}
	}
	return true
}

// commit ends the target transaction. Invariant 5: only at a boundary. Invariant 4: rows and offsets together.
func (t *task) commit(ctx context.Context) error {
	t.offsets = t.offsets[:0]
	for _, m := range t.mergers {
		t.dirty = m.takeDirty(t.dirty[:0])
		for _, q := range t.dirty {
			if o, ok := m.offset(q); ok {
				t.offsets = append(t.offsets, o)
			}
		}
	}
	if len(t.offsets) == 0 && t.rows == 0 {
		t.reset()
		return nil
	}
	read := len(t.offsets)
	if !t.marked {
		t.offsets = append(t.offsets, leftOut(t.plan, t.inbox.starts)...)
	}
	if err := t.session.Commit(ctx, t.offsets); err != nil {
		if t.careful && IsPermanent(err) && t.rows > 0 && !errors.As(err, new(*recordError)) {
			return recordErr(t.ev.Topic, t.ev.Partition, t.ev.Offset, err)
		}
		return err
	}
	t.marked = true
	t.sink.committed(t.rows, t.transactions, t.offsets[:read])
	t.groupDirty = true
	t.reset()
	if t.careful {
		if t.commits++; t.commits >= carefulCommits {
			t.careful = false
			t.session.SetCareful(false)
			t.sink.trust()
		}
	}
	return nil
}

func (t *task) reset() {
	t.rows, t.bytes, t.transactions, t.begun = 0, 0, 0, time.Time{}
	t.lastCommit = time.Now()
}

// offset is what the target stores for a queue; false when there is nothing to store.
func (m *merger) offset(q *queue) (Offset, bool) {
	o := Offset{Topic: q.topic, Partition: q.partition, Next: q.next}
	switch {
	case q.owner != nil:
		o.Position, o.Behind = m.applied(q.owner), q.owner.behind
	case m.last < m.goal: // reading again what the target has
		return o, false
	default:
		o.Position = m.last
	}
	return o, true
}

// gate pauses partitions that run ahead and resumes those that have room again (invariant 9).
func (t *task) gate() {
	bound := max(maxBufferedBytes/max(len(t.queues), 1), minPartitionBytes)
	var pause, resume map[string][]int32
	for p, q := range t.queues {
		switch {
		case !q.paused && q.bytes >= bound:
			q.paused = true
			if pause == nil {
				pause = make(map[string][]int32)
			}
			pause[p.topic] = append(pause[p.topic], p.id)
		case q.paused && q.bytes < bound/2:
			q.paused = false
			if resume == nil {
				resume = make(map[string][]int32)
			}
			resume[p.topic] = append(resume[p.topic], p.id)
		}
	}
	if pause != nil {
		t.client.PauseFetchPartitions(pause)
	}
	if resume != nil {
		t.client.ResumeFetchPartitions(resume)
	}
}
