package spread

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/snapshot"
)

const (
	// Path is where a node answers other nodes for its rows.
	Path = "/rows"

	maxRequest   = 64 << 20 // bytes of one; a key is most of it
	maxAnswering = 256      // requests of other nodes at a time
	writeBuffer  = 32 << 10
)

// ServeHTTP answers another node for partitions that this one leads. It asks nobody.
func (v *Views) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q request
	if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a := newReply(w)
	defer a.close()
	select {
	case v.answering <- struct{}{}:
		defer func() { <-v.answering }()
	default:
		a.end(fmt.Errorf("%d requests of other nodes are being answered: %w", maxAnswering, snapshot.ErrNotReady))
		return
	}
	a.end(v.answer(r.Context(), &q, a))
}

func (v *Views) answer(ctx context.Context, q *request, a *reply) error {
	if len(q.Partitions) == 0 {
		return fmt.Errorf("no partition of %s was asked for", q.Topic)
	}
	if err := v.confirm(ctx, q.Topic, q.Partitions); err != nil {
		return err
	}
	row := func(r snapshot.Row) error { return a.row(frameRow, &r) }
	switch q.Op {
	case opLatest:
		r, found, err := v.local.LatestIn(ctx, q.Topic, q.Partitions, q.Key, q.At)
		if err == nil && found {
			err = row(r)
		}
		return err
	case opScan:
		return v.local.ScanIn(ctx, q.Topic, q.Partitions, q.At, row)
	case opHistory:
		return v.local.HistoryIn(ctx, q.Topic, q.Partitions, q.Key, func(r snapshot.Row) error { return a.row(frameBegins, &r) }, row)
	case opMany, opKeys:
		return v.answerAsk(ctx, q, row)
	case opAnyKey:
		key, found, err := v.local.AnyKeyIn(ctx, q.Topic, q.Partitions)
		if err == nil && found {
			err = a.frame(frameKey, key)
		}
		return err
	}
	return fmt.Errorf("question %q is not known here; upgrade this node", q.Op)
}

// reply is an answer being written.
type reply struct {
	http *http.ResponseController
	stop chan struct{}
	done chan struct{}

	mu  sync.Mutex
	w   *bufio.Writer
	buf []byte
}

func newReply(w http.ResponseWriter) *reply {
	a := &reply{http: http.NewResponseController(w), stop: make(chan struct{}), done: make(chan struct{}), w: bufio.NewWriterSize(w, writeBuffer)}
	_ = a.http.Flush() // the headers: the asker goes on to the next node
	go a.ping()
	return a
}

// ping shows that the node works on it, and sends what waits.
func (a *reply) ping() {
	defer close(a.done)
	t := time.NewTicker(pingEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if a.frame(framePing, nil) != nil || a.flush() != nil {
				return
			}
		case <-a.stop:
			return
		}
	}
}

func (a *reply) close() {
	close(a.stop)
	<-a.done
	_ = a.flush() // the asker is gone: nobody to tell
}

func (a *reply) flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.w.Flush(); err != nil {
		return err
	}
	return a.http.Flush()
}

func (a *reply) frame(kind byte, payload []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return writeFrame(a.w, kind, payload)
}

func (a *reply) row(kind byte, r *snapshot.Row) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.buf = appendRow(a.buf[:0], r)
	return writeFrame(a.w, kind, a.buf)
}

func (a *reply) end(err error) {
	if err != nil {
		_ = a.frame(frameError, encodeFailure(err))
		return
	}
	_ = a.frame(frameEnd, nil)
}
