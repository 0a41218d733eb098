package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Backoff of a task that ended with an error: it may need a person, who may have been there. The task itself repeats what can heal.
const (
	minRestart = time.Minute
	maxRestart = 15 * time.Minute
)

// Task is a connector or a sink.
type Task struct {
	Name string // role/name, the same on every node
	// Run ends with ctx, or with an error that needs a person, or without one when there is nothing more to do. It may be called again.
	Run func(ctx context.Context) error
	// State is what others should hear of soon when it changes; Status all there is to tell.
	State  func() string
	Status func() any
	// Ask takes what another node asks of a task that runs here, and answers in its State and Status; nil: it takes nothing.
	Ask func(ctx context.Context, what json.RawMessage)
	// Failed and Recovered follow what Run ended with.
	Failed    func(error)
	Recovered func()
}

// runner is a task on this node, whether it runs here or not.
type runner struct {
	task   Task
	slot   int32
	logger *slog.Logger

	mu      sync.Mutex
	cancel  context.CancelFunc // nil: it is not to run here
	done    chan struct{}      // of the latest start
	restart chan struct{}
}

func newRunner(t Task, slots int32, logger *slog.Logger) *runner {
	done := make(chan struct{})
	close(done)
	return &runner{task: t, slot: slot(t.Name, slots), logger: logger.With("task", t.Name), done: done, restart: make(chan struct{}, 1)}
}

// here tells whether the task runs on this node, or has just failed here.
func (r *runner) here() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cancel != nil
}

// start runs the task until stop, or until ctx ends. A task is never run twice at a time: what is left of the time before ends first.
func (r *runner) start(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		return
	}
	ctx, r.cancel = context.WithCancel(ctx)
	before, done := r.done, make(chan struct{})
	r.done = done
	go func() {
		defer close(done)
		<-before
		r.keep(ctx)
	}()
}

// stop asks the task to end and returns what is closed when it has.
func (r *runner) stop() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		r.cancel()
		r.cancel = nil
	}
	return r.done
}

// again restarts a task that runs here.
func (r *runner) again() {
	select {
	case r.restart <- struct{}{}:
	default: // one is under way
	}
}

// keep runs the task again and again: at once when someone asks for it, after a while when it failed.
func (r *runner) keep(ctx context.Context) {
	wait := minRestart
	for ctx.Err() == nil {
		select {
		case <-r.restart: // asked before it ran
		default:
		}
		r.task.Recovered()
		began := time.Now()
		running, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- r.once(running) }()
		var err error
		asked := false
		select {
		case err = <-ended:
		case <-r.restart:
			asked = true
			r.logger.Info("restarting: asked to")
			cancel()
			err = <-ended
		}
		cancel()
		if ctx.Err() != nil || asked {
			wait = minRestart
			continue
		}
		if time.Since(began) > maxRestart {
			wait = minRestart
		}
		if r.rest(ctx, err, wait) {
			wait = minRestart
		} else {
			wait = min(2*wait, maxRestart)
		}
	}
}

// rest waits until a task that has ended is to run again. It tells whether someone asked for it.
func (r *runner) rest(ctx context.Context, err error, wait time.Duration) (asked bool) {
	var due <-chan time.Time
	if err != nil { // without an error there is nothing more to do
		r.task.Failed(err)
		r.logger.Error("stopped; it is tried again", "error", err, "after", wait)
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-r.restart:
		asked = true
	}
	return asked
}

// once keeps a panic with the task that has it: its neighbours and the node go on.
func (r *runner) once(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.logger.Error("stopped by a defect", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("stopped by a defect: %v; report this with the log", p)
		}
	}()
	if err = r.task.Run(ctx); ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
