// Package quiet bounds how many log lines others can cause.
//
// Its handler counts lines by their level, their message and their attribute Kind. Of each kind so many a window pass; what
// comes beyond is counted, and the last of it is logged when the window ends, with how many it stands for. So a
// flood costs a few lines a window, nothing goes unsaid, and one kind never hides another. It
// enforces invariant 9 for the log: kinds have a named bound too.
package quiet

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Kind is the attribute, of a few values, that tells lines of one message apart.
const Kind = "kind"

// LeftOut is the attribute of a line that stands for others: how many they were.
const LeftOut = "left_out"

// maxKinds bounds the kinds that are told apart; lines of further ones are one kind.
const maxKinds = 128

// Options say how much passes.
type Options struct {
	Window time.Duration
	Burst  int            // lines of one kind in a window
	Bursts map[string]int // the same for all lines of a message, which are one kind then
}

// Handler is a slog.Handler.
type Handler struct {
	next  slog.Handler
	kind  string // of WithAttrs
	state *state
}

// state is what the handlers of one logger share.
type state struct {
	opts Options

	mu     sync.Mutex
	kinds  map[key]*kind // Invariant: at most maxKinds+1
	closed bool
}

type key struct {
	level   slog.Level
	message string
	kind    string
}

// kind is the present window of one kind.
type kind struct {
	began  time.Time
	passed int
	left   int // since the last line; then last and to are set, and timer runs
	last   slog.Record
	to     slog.Handler
	timer  *time.Timer
}

// New returns a handler that passes lines to next. Close ends it.
func New(next slog.Handler, opts Options) *Handler {
	return &Handler{next: next, state: &state{opts: opts, kinds: map[key]*kind{}}}
}

// Enabled is next's.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs shares h's counts.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := &Handler{next: h.next.WithAttrs(attrs), kind: h.kind, state: h.state}
	for _, a := range attrs {
		if a.Key == Kind {
			out.kind = a.Value.String()
		}
	}
	return out
}

// WithGroup shares h's counts.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{next: h.next.WithGroup(name), kind: h.kind, state: h.state}
}

// Handle passes a line on, or counts it.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if h.state.admit(h.keyOf(r), h.next, r) {
		return h.next.Handle(ctx, r)
	}
	return nil
}

func (h *Handler) keyOf(r slog.Record) key {
	k := key{level: r.Level, message: r.Message, kind: h.kind}
	if _, one := h.state.opts.Bursts[r.Message]; one {
		k.kind = ""
		return k
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == Kind {
			k.kind = a.Value.String()
		}
		return a.Key != Kind
	})
	return k
}

// admit tells whether a line passes; if not, it is the one that will stand for those left out.
func (s *state) admit(at key, to slog.Handler, r slog.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return true
	}
	k := s.kinds[at]
	if k == nil {
		if len(s.kinds) >= maxKinds {
			at = key{}
			k = s.kinds[at]
		}
		if k == nil {
			k = &kind{}
			s.kinds[at] = k
		}
	}
	now := time.Now()
	if k.left == 0 && now.Sub(k.began) >= s.opts.Window {
		k.began, k.passed = now, 0
	}
	burst := s.opts.Burst
	if n, ok := s.opts.Bursts[at.message]; ok {
		burst = n
	}
	if k.passed < burst {
		k.passed++
		return true
	}
	k.left++
	k.last, k.to = r.Clone(), to
	if k.left == 1 {
		k.timer = time.AfterFunc(max(0, s.opts.Window-now.Sub(k.began)), func() { s.sum(k) })
	}
	return false
}

// sum logs what a window left out, and begins the next one.
func (s *state) sum(k *kind) {
	s.mu.Lock()
	left, last, to := k.left, k.last, k.to
	k.left, k.last, k.to, k.timer = 0, slog.Record{}, nil, nil
	k.began, k.passed = time.Now(), 0
	s.mu.Unlock()
	if left == 0 {
		return // Close was faster
	}
	if left > 1 {
		last.AddAttrs(slog.Int(LeftOut, left-1))
	}
	_ = to.Handle(context.Background(), last)
}

// Close logs what was left out so far. Lines after it all pass.
func (h *Handler) Close() {
	s := h.state
	s.mu.Lock()
	s.closed = true
	var left []*kind
	for _, k := range s.kinds {
		if k.left > 0 {
			k.timer.Stop()
			left = append(left, k)
		}
	}
	s.mu.Unlock()
	for _, k := range left {
		s.sum(k)
	}
}
