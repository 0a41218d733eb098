package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/tasks"
	"github.com/rowtrail/rowtrail/configs"
	"github.com/rowtrail/rowtrail/connectors"
	connectormy "github.com/rowtrail/rowtrail/connectors/mysql"
	connectorpg "github.com/rowtrail/rowtrail/connectors/postgres"
	"github.com/rowtrail/rowtrail/sink"
	sinkmy "github.com/rowtrail/rowtrail/sink/mysql"
	sinkpg "github.com/rowtrail/rowtrail/sink/postgres"
)

// metadataMinAge is how old a topic's metadata may be for an in-process client, which asks through memory. The client's own
// default of seconds would make every new topic wait.
const metadataMinAge = 50 * time.Millisecond

// sinkInstance is the same on all nodes: the group of nodes lets one of them run a sink, which then need not wait in the sink's own
// group until the session of the node before ends.
const sinkInstance = "owner"

// Roles of a runner.
const (
	roleConnector = "connector"
	roleSink      = "sink"
)

// runner is one connector or sink: exactly one of the two is set, or neither when it could not be built.
type runner struct {
	role       string
	name, kind string
	topics     []string
	connector  connectors.Connector
	sink       sink.Sink
	broken     error // why it could not be built

	mu      sync.Mutex
	failure error // why Run ended
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

// buildPlanes makes connectors and sinks; one that cannot be made fails when it is to run.
func (d *Daemon) buildPlanes() {
	for i := range d.cfg.Connectors {
		d.runners = append(d.runners, d.newConnector(&d.cfg.Connectors[i]))
	}
	for i := range d.cfg.Sinks {
		d.runners = append(d.runners, d.newSink(&d.cfg.Sinks[i]))
	}
	if len(d.runners) == 0 {
		return // nothing to share out
	}
	opts := tasks.Options{
		Client: d.clientOptions(), Node: d.cfg.Node.ID, Replication: d.replication(), Logger: d.logger.With("part", "tasks"),
	}
	if d.external() {
		opts.Explain = explained
	}
	for _, r := range d.runners {
		opts.Tasks = append(opts.Tasks, d.taskOf(r))
	}
	d.tasks = tasks.New(opts)
}

// replication is that of topics which are created in another cluster; -1: the log's default.
func (d *Daemon) replication() int16 {
	if !d.external() {
		return -1
	}
	return int16(d.cfg.Log.Kafka.Replication) //nolint:gosec // checked when it was read
}

// runPlanes runs what the group of the log's nodes gives this one.
func (d *Daemon) runPlanes() {
	ctx, cancel := context.WithCancel(d.ctx)
	d.planes = cancel
	if d.tasks == nil {
		return
	}
	d.planesWG.Go(func() { d.tasks.Run(ctx) })
	d.planesWG.Go(func() { d.narrate(ctx) })
}

// task is a runner as the group knows it.
func (d *Daemon) taskOf(r *runner) tasks.Task {
	t := tasks.Task{Name: r.task(), Run: r.run, Failed: r.fail, Recovered: func() { r.fail(nil) }}
	if r.role == roleConnector {
		t.Status = func() any { return d.connectorStatus(r) }
		t.State = func() string {
			s := r.connectorStatus()
			state := s.State + " " + s.Error
			if s.Signal != nil {
				state += " " + s.Signal.Request + s.Signal.ID
			}
			for _, p := range s.Parked {
				state += " " + p.Table + " " + p.State + " " + p.Reason
			}
			return state
		}
		if r.connector != nil {
			t.Ask = func(ctx context.Context, what json.RawMessage) { d.take(ctx, r, what) }
		}
	} else {
		t.Status = func() any { return d.sinkStatus(r) }
		t.State = func() string {
			s := r.sinkStatus()
			return s.State + " " + s.Error
		}
	}
	return t
}

// clientOptions are the client's, for the planes.
func (d *Daemon) clientOptions() []kgo.Opt {
	return append(slices.Clone(d.client), kgo.MetadataMinAge(metadataMinAge))
}

func (d *Daemon) newConnector(c *configs.Connector) *runner {
	r := &runner{role: roleConnector, name: c.Name, kind: c.Type, since: time.Now()}
	deps := connectors.Deps{
		Client: d.clientOptions(), Logger: d.logger, Version: d.opts.Version, Replication: d.replication(), Shared: d.external(),
	}
	if d.rows != nil {
		deps.Rows = d.rows.State()
	}
	switch parsed := c.Parsed.(type) {
	case *connectorpg.Config:
		connector, err := connectorpg.New(parsed, deps)
		if err != nil {
			r.broken = err
			return r
		}
		r.connector = connector
	case *connectormy.Config:
		connector, err := connectormy.New(parsed, deps)
		if err != nil {
			r.broken = err
			return r
		}
		r.connector = connector
	default:
		r.broken = fmt.Errorf("connector type %q has no implementation in this binary", c.Type)
	}
	return r
}

func (d *Daemon) newSink(s *configs.Sink) *runner {
	r := &runner{role: roleSink, name: s.Name, kind: s.Type, topics: s.Topics, since: time.Now()}
	deps := sink.Deps{Client: d.sinkClient(), Logger: d.logger, Version: d.opts.Version, Instance: sinkInstance}
	var target *sink.Runner
	var err error
	switch parsed := s.Parsed.(type) {
	case *sinkpg.Config:
		target, err = sinkpg.New(parsed, deps)
	case *sinkmy.Config:
		target, err = sinkmy.New(parsed, deps)
	default:
		err = fmt.Errorf("sink type %q has no implementation in this binary", s.Type)
	}
	if err != nil {
		r.broken = err
		return r
	}
	r.sink = target
	return r
}

// sinkClient reads from the replica that is nearest, where the cluster knows racks (KIP-392).
func (d *Daemon) sinkClient() []kgo.Opt {
	opts := d.clientOptions()
	if d.external() && d.cfg.Node.Rack != "" {
		opts = append(opts, kgo.Rack(d.cfg.Node.Rack))
	}
	return opts
}

// task is the runner's name among those of connectors and sinks alike.
func (r *runner) task() string { return r.role + "/" + r.name }

func (r *runner) run(ctx context.Context) error {
	switch {
	case r.broken != nil:
		return r.broken
	case r.connector != nil:
		return r.connector.Run(ctx)
	}
	return r.sink.Run(ctx)
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

// connectorStatus is a connector's, wherever it runs.
func (d *Daemon) connectorStatus(r *runner) connectors.Status {
	at := d.tasks.Where(r.task())
	s := connectors.Status{State: connectors.StateStarting, Error: at.Why, Since: r.since}
	switch {
	case at.Here:
		s = r.connectorStatus()
	case at.Node > 0:
		s = connectors.Status{}
		if err := json.Unmarshal(at.Status, &s); err != nil {
			s = connectors.Status{State: connectors.StateStarting, Error: untold(at.Node), Since: r.since}
		}
	}
	s.Name, s.Type, s.Node, s.Here = r.name, r.kind, at.Node, at.Here
	return s
}

func (d *Daemon) sinkStatus(r *runner) sink.Status {
	at := d.tasks.Where(r.task())
	s := sink.Status{State: sink.StateStarting, Topics: r.topics, Error: at.Why, Since: r.since}
	switch {
	case at.Here:
		s = r.sinkStatus()
	case at.Node > 0:
		s = sink.Status{} // of its own: what is read must not be written into the file's topics
		if err := json.Unmarshal(at.Status, &s); err != nil {
			s = sink.Status{State: sink.StateStarting, Topics: r.topics, Error: untold(at.Node), Since: r.since}
		}
	}
	s.Name, s.Type, s.Node, s.Here = r.name, r.kind, at.Node, at.Here
	return s
}

func untold(node int32) string {
	return fmt.Sprintf("node %d tells of it in a way that this node does not understand", node)
}

// Restart starts a connector or sink anew, on whichever node runs it, which it returns.
func (d *Daemon) Restart(ctx context.Context, role, name string) (int32, error) {
	at, err := d.tasks.Restart(ctx, role+"/"+name)
	return at.Node, err
}
