package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/configs"
	"github.com/rowtrail/rowtrail/connectors"
	connectorpg "github.com/rowtrail/rowtrail/connectors/postgres"
	"github.com/rowtrail/rowtrail/sink"
	sinkpg "github.com/rowtrail/rowtrail/sink/postgres"
)

// metadataMinAge is how old a topic's metadata may be for an in-process client, which asks through memory. The client's own
// default of seconds would make every new topic wait.
const metadataMinAge = 50 * time.Millisecond

// runner is one connector or sink: exactly one of the two is set, or neither when it could not be built.
type runner struct {
	role       string // connector or sink
	name, kind string
	topics     []string
	connector  connectors.Connector
	sink       sink.Sink

	mu      sync.Mutex
	failure error // why Run, or building it, ended
	since   time.Time
}

func (r *runner) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure, r.since = err, time.Now()
}

// failed returns since when the runner has ended for good, and why.
func (r *runner) failed() (time.Time, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since, r.failure
}

// buildPlanes makes connectors and sinks; one that cannot be made is listed as failed.
func (d *Daemon) buildPlanes() {
	for i := range d.cfg.Connectors {
		d.runners = append(d.runners, d.newConnector(&d.cfg.Connectors[i]))
	}
	for i := range d.cfg.Sinks {
		d.runners = append(d.runners, d.newSink(&d.cfg.Sinks[i]))
	}
}

// runPlanes runs each on its own.
func (d *Daemon) runPlanes() {
	ctx, cancel := context.WithCancel(d.ctx)
	d.planes = cancel
	for _, r := range d.runners {
		d.planesWG.Go(func() { d.run(ctx, r) })
	}
	d.planesWG.Go(func() { d.narrate(ctx) })
}

// client is how in-process clients reach the broker: through memory, as an internal principal.
func (d *Daemon) client() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(d.seed()), kgo.Dialer(d.broker.Dialer()), kgo.MetadataMinAge(metadataMinAge)}
}

// instance names this node to consumer groups, so that after a crash it takes its own place again at once.
func (d *Daemon) instance() string {
	return fmt.Sprintf("rowtrail-%s-%d", d.node.ClusterID(), d.cfg.Node.ID)
}

func (d *Daemon) newConnector(c *configs.Connector) *runner {
	r := &runner{role: "connector", name: c.Name, kind: c.Type, since: time.Now()}
	deps := connectors.Deps{Client: d.client(), Logger: d.logger, Version: d.opts.Version}
	switch parsed := c.Parsed.(type) {
	case *connectorpg.Config:
		connector, err := connectorpg.New(parsed, deps)
		if err != nil {
			r.fail(err)
			return r
		}
		r.connector = connector
	default:
		r.fail(fmt.Errorf("connector type %q has no implementation in this binary", c.Type))
	}
	return r
}

func (d *Daemon) newSink(s *configs.Sink) *runner {
	r := &runner{role: "sink", name: s.Name, kind: s.Type, topics: s.Topics, since: time.Now()}
	deps := sink.Deps{Client: d.client(), Logger: d.logger, Version: d.opts.Version, Instance: d.instance()}
	switch parsed := s.Parsed.(type) {
	case *sinkpg.Config:
		target, err := sinkpg.New(parsed, deps)
		if err != nil {
			r.fail(err)
			return r
		}
		r.sink = target
	default:
		r.fail(fmt.Errorf("sink type %q has no implementation in this binary", s.Type))
	}
	return r
}

// run keeps a failure, a panic too, with the one that failed: its neighbours and the node go on.
func (d *Daemon) run(ctx context.Context, r *runner) {
	if _, err := r.failed(); err != nil {
		d.logger.Error(r.role+" cannot start", r.role, r.name, "error", err)
		return
	}
	defer func() {
		if p := recover(); p != nil {
			r.fail(fmt.Errorf("stopped by a defect: %v; restart the node, and report this with the log", p))
			d.logger.Error(r.role+" stopped by a defect", r.role, r.name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	var err error
	if r.connector != nil {
		err = r.connector.Run(ctx)
	} else {
		err = r.sink.Run(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		r.fail(err)
	}
}

// connectorStatus is what the connector says of itself, unless it ended in a way that it could not say.
func (r *runner) connectorStatus() connectors.Status {
	s := connectors.Status{Name: r.name, Type: r.kind, State: connectors.StateStarting}
	if r.connector != nil {
		s = r.connector.Status()
	}
	if since, err := r.failed(); err != nil && s.State != connectors.StateFailed {
		s.State, s.Error, s.Since = connectors.StateFailed, err.Error(), since
	}
	return s
}

func (r *runner) sinkStatus() sink.Status {
	s := sink.Status{Name: r.name, Type: r.kind, State: sink.StateStarting, Topics: r.topics}
	if r.sink != nil {
		s = r.sink.Status()
	}
	if since, err := r.failed(); err != nil && s.State != sink.StateFailed {
		s.State, s.Error, s.Since = sink.StateFailed, err.Error(), since
	}
	return s
}
