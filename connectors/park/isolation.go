package park

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/rowtrail/rowtrail/connectors"
)

// maxAsked bounds the requests that wait for the stream.
const maxAsked = 64

// Isolation knows what is to be parked, from one run to the next. It lives as long as the connector.
type Isolation struct {
	name  string // of the connector
	on    bool
	log   *slog.Logger
	asks  atomic.Bool // something is asked
	mu    sync.Mutex
	fault map[string]*connectors.Fault // of tables that the next run parks, until the log has it
	state *Tables                      // as the log has them
	tries map[string]bool              // tables that this run has begun to unpark
	asked []connectors.Unpark
	wake  func() // has the stream look at what is asked; nil: there is no stream
	loads bool   // the stream's connector loads tables
}

// NewIsolation begins without a parked table. With on false, an error of a table is one of the connector.
func NewIsolation(name string, on bool, log *slog.Logger) *Isolation {
	return &Isolation{name: name, on: on, log: log, fault: map[string]*connectors.Fault{}}
}

// Isolate is run, and run again for each table that it turns out to have to be parked.
func (i *Isolation) Isolate(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			err := run(ctx)
			if ctx.Err() != nil || !i.took(err) {
				return err
			}
		}
	}
}

// took notes that a run ended with a table's Fault. It is not so for a table whose changes are not even looked at any more.
func (i *Isolation) took(err error) bool {
	f := connectors.TableFault(err)
	if f == nil || !i.on {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fault[f.Collection] != nil {
		return false
	}
	if t, ok := i.state.of(f.Collection); ok && !t.Unpark && !i.tries[f.Collection] {
		return false
	}
	i.note(f)
	return true
}

func (i *Isolation) note(f *connectors.Fault) {
	i.fault[f.Collection] = f
	i.log.Error("table is parked: its changes are kept until `rowtrail connectors unpark`, the other tables go on", "table", f.Collection, "error", f)
}

// Unfit takes the errors that were found about single tables; one that stops the connector is returned. Where the capture only begins
// (begun is false) there is nothing that could go on: all of them do.
func (i *Isolation) Unfit(list []connectors.Finding, begun bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	var stop []connectors.Finding
	for _, f := range list {
		name := f.Collection()
		switch _, parked := i.state.of(name); {
		case parked || i.fault[name] != nil:
		case begun && i.on:
			i.note(f.Fault())
		default:
			stop = append(stop, f)
		}
	}
	return connectors.Refuse(stop)
}

// Restore takes what the resume point has.
func (i *Isolation) Restore(saved *Tables) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.state = saved
}

// Committed follows what the log has.
func (i *Isolation) Committed(now *Tables) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.state = now
	for name, f := range i.fault {
		if t, ok := now.of(name); ok && !t.Unpark && t.Reason == f.Reason() {
			delete(i.fault, name)
		}
	}
}

// Status lists the parked tables.
func (i *Isolation) Status() []connectors.ParkedStatus {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.state.status()
}

// Unpark has the stream unpark a table. That it does is told by the status.
func (i *Isolation) Unpark(u connectors.Unpark) error {
	switch u.How {
	case connectors.UnparkWrite, connectors.UnparkReload, connectors.UnparkDiscard:
	default:
		return fmt.Errorf("a table is not unparked by %q", u.How)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.state.of(u.Table); !ok {
		return fmt.Errorf("table %s %w", u.Table, connectors.ErrNotParked)
	}
	if u.How == connectors.UnparkReload && i.wake != nil && !i.loads {
		return fmt.Errorf("table %s cannot be loaded again: the connector loads no tables (snapshot.mode)", u.Table)
	}
	if i.wake == nil || len(i.asked) >= maxAsked {
		return fmt.Errorf("the connector %w", connectors.ErrNotStreaming)
	}
	i.asked = append(i.asked, u)
	i.asks.Store(true)
	i.wake()
	return nil
}

// take is what was asked since the last call.
func (i *Isolation) take() []connectors.Unpark {
	if !i.asks.Swap(false) {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	list := i.asked
	i.asked = nil
	return list
}

// stream has wake called for what is asked, as long as there is a stream; what was asked of a former one is forgotten.
func (i *Isolation) stream(wake func(), loads bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wake, i.loads, i.asked, i.tries = wake, loads, nil, map[string]bool{}
	i.asks.Store(false)
}

// quiet ends that: there is no stream.
func (i *Isolation) quiet() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wake, i.asked = nil, nil
	i.asks.Store(false)
}

// tried notes that a table's unparking begins.
func (i *Isolation) tried(collection string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tries[collection] = true
}

// poke has the stream look whether there is something to do between two source transactions.
func (i *Isolation) poke() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.wake != nil {
		i.wake()
	}
}
