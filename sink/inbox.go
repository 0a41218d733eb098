package sink

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// inbox takes what the group assigns, from the client's goroutine to the task's. The session in the target is opened with
// the first assignment and not before, so that only the owner fences (invariant 4).
type inbox struct {
	target Target
	logEnd func(ctx context.Context, topics []string) (map[partition]bounds, error)
	logIDs func(ctx context.Context) (origins, error)
	plan   func() plan
	fail   context.CancelCauseFunc // ends the attempt

	mu      sync.Mutex
	session Session
	starts  *starts
	origins origins
	added   []addition
	ready   chan struct{} // closed with the first assignment
}

// addition is a partition that was assigned and where reading begins.
type addition struct {
	partition
	start int64
}

// adjust is called by the client before it reads newly assigned partitions, with the group's offsets. The target's win.
func (b *inbox) adjust(ctx context.Context, group map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	out, err := b.place(ctx, group)
	if err != nil {
		err = &startError{err}
		b.fail(err)
	}
	return out, err
}

func (b *inbox) place(ctx context.Context, group map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	if len(group) == 0 {
		return group, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil {
		session, err := b.target.Open(ctx)
		if err != nil {
			return nil, fmt.Errorf("open target: %w", err)
		}
		b.session, b.starts = session, newStarts(session.Offsets())
	}
	ids, err := b.logIDs(ctx)
	if err != nil {
		return nil, err
	}
	if err := ids.checkAll(b.session.Offsets()); err != nil {
		return nil, err
	}
	b.origins = ids
	topics := make([]string, 0, len(group))
	for topic := range group {
		topics = append(topics, topic)
	}
	log, err := b.logEnd(ctx, topics)
	if err != nil {
		return nil, err
	}
	pl := b.plan()
	out := make(map[string]map[int32]kgo.Offset, len(group))
	for topic, parts := range group {
		out[topic] = make(map[int32]kgo.Offset, len(parts))
		for id := range parts {
			p := partition{topic, id}
			at, err := b.start(pl, p, log[p])
			if err != nil {
				return nil, err
			}
			out[topic][id] = kgo.NewOffset().At(at).WithEpoch(-1)
			b.added = append(b.added, addition{p, at})
		}
	}
	select {
	case <-b.ready:
	default:
		close(b.ready)
	}
	return out, nil
}

// start is where to read a partition from.
func (b *inbox) start(pl plan, p partition, log bounds) (int64, error) {
	switch prefix, kind := pl.place(p.topic); kind {
	case placeSchema: // all of it, each time: it is small and compacted
		return log.start, nil
	case placeTransaction:
		for topic, of := range pl.data {
			if _, behind := b.starts.topic(of, topic); behind && of == prefix {
				return log.start, nil
			}
		}
		return b.starts.offset(p, log, false)
	default:
		return b.starts.offset(p, log, prefix != "")
	}
}

// take returns what was assigned since the last call.
func (b *inbox) take() []addition {
	b.mu.Lock()
	defer b.mu.Unlock()
	added := b.added
	b.added = nil
	return added
}

// close ends the session; an open target transaction is rolled back.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session != nil {
		b.session.Close()
		b.session = nil
	}
}
