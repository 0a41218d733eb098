package spread

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync"

	"github.com/rowtrail/rowtrail/snapshot"
)

const readBuffer = 32 << 10

// unreachableError: a node did not answer, or not to the end.
type unreachableError struct {
	node int32
	err  error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("node %d did not answer to the end: %v; try again", e.node, e.err)
}

func (e *unreachableError) Unwrap() error { return e.err }

// remote is the answer of another node, as it arrives.
type remote struct {
	node  int32
	topic string
	body  io.ReadCloser
	in    *bufio.Reader
	buf   []byte
	key   []byte // of a frame that is no row
	err   error  // sticky
	ended bool
}

// open asks a node.
func (v *Views) open(ctx context.Context, node int32, q *request) *remote {
	r := &remote{node: node, topic: q.Topic}
	body, err := json.Marshal(q)
	if err != nil {
		r.err = fmt.Errorf("ask node %d: %w", node, err)
		return r
	}
	httpRequest, err := http.NewRequestWithContext(ctx, http.MethodPost, url(node, Path), bytes.NewReader(body))
	if err != nil {
		r.err = fmt.Errorf("ask node %d: %w", node, err)
		return r
	}
	// A question changes nothing: it may be sent again where a kept connection turns out to be closed.
	httpRequest.Header["Idempotency-Key"] = nil
	answer, err := v.Client.Do(httpRequest)
	if err != nil {
		r.fail(ctx, err)
		return r
	}
	r.body, r.in = answer.Body, bufio.NewReaderSize(answer.Body, readBuffer)
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(r.in, 1<<10))
		r.err = fmt.Errorf("node %d: %s: %s; do both run versions that may run together?", node, answer.Status, bytes.TrimSpace(text))
	}
	return r
}

// fail notes that the node did not answer; when the asker has gone, that is why.
func (r *remote) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		r.err = ctx.Err()
		return
	}
	r.err = &unreachableError{r.node, err}
}

func (r *remote) close() {
	if r.body != nil {
		_ = r.body.Close()
	}
}

// Next implements snapshot.Answer.
func (r *remote) Next() (snapshot.Told, bool, error) {
	for r.err == nil && !r.ended {
		kind, payload, err := readFrame(r.in, r.buf)
		if err != nil {
			r.err = &unreachableError{r.node, err}
			break
		}
		r.buf = payload
		switch kind {
		case framePing:
		case frameRow, frameBegins:
			row, err := parseRow(r.topic, payload)
			if err != nil {
				r.err = fmt.Errorf("node %d: %w", r.node, err)
				break
			}
			return snapshot.Told{Row: row, Begins: kind == frameBegins}, true, nil
		case frameKey:
			r.key = bytes.Clone(payload)
		case frameError:
			r.err = decodeFailure(r.node, r.topic, payload)
		case frameEnd:
			r.ended = true
			_, _ = r.in.ReadByte() // the end of the body: the connection is free for the next question
		default:
			r.err = fmt.Errorf("node %d: %w", r.node, errFrame)
		}
	}
	return snapshot.Told{}, false, r.err
}

// finish reads an answer of one row to its end, leaving the row as it is.
func (r *remote) finish() error {
	r.buf = nil
	_, more, err := r.Next()
	if more && err == nil {
		err = fmt.Errorf("node %d: %w", r.node, errFrame)
	}
	return err
}

// openAll asks all other nodes of a plan, at once.
func (v *Views) openAll(ctx context.Context, p *plan, q *request) []*remote {
	var wg sync.WaitGroup
	var list []*remote
	var mu sync.Mutex
	for node, partitions := range p.nodes {
		if node == v.Node {
			continue
		}
		wg.Go(func() {
			own := *q
			own.Partitions = partitions
			r := v.open(ctx, node, &own)
			mu.Lock()
			defer mu.Unlock()
			list = append(list, r)
		})
	}
	wg.Wait()
	return list
}

func closeAll(list []*remote) {
	for _, r := range list {
		r.close()
	}
}

// answers are those of all nodes of a plan; local tells this node's rows. done ends them.
func (v *Views) answers(ctx context.Context, p *plan, q *request, local func(own []int32, tell func(snapshot.Told) error) error) (list []snapshot.Answer, done func()) {
	others := v.openAll(ctx, p, q)
	for _, r := range others {
		list = append(list, r)
	}
	stop := func() {}
	if own := p.nodes[v.Node]; len(own) > 0 {
		var a *pulled
		a, stop = pull(func(tell func(snapshot.Told) error) error { return local(own, tell) })
		list = append(list, a)
	}
	return list, func() {
		stop()
		closeAll(others)
	}
}

var errStopped = errors.New("nobody wants more")

// pulled is the answer of this node's views, which call for each row, as one that is called for each row.
type pulled struct {
	next func() (snapshot.Told, error, bool)
}

func pull(tell func(func(snapshot.Told) error) error) (*pulled, func()) {
	next, stop := iter.Pull2(func(yield func(snapshot.Told, error) bool) {
		err := tell(func(t snapshot.Told) error {
			if !yield(t, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(snapshot.Told{}, err)
		}
	})
	return &pulled{next}, stop
}

// Next implements snapshot.Answer.
func (p *pulled) Next() (snapshot.Told, bool, error) {
	t, err, ok := p.next()
	return t, ok && err == nil, err
}

func (v *Views) anyKey(ctx context.Context, node int32, q *request) ([]byte, bool, error) {
	r := v.open(ctx, node, q)
	defer r.close()
	_, more, err := r.Next()
	if more {
		err = fmt.Errorf("node %d: %w", node, errFrame)
	}
	return r.key, r.key != nil && err == nil, err
}
