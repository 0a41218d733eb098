// Package pipeline is the main job as the demo, the soak, the failovers and the runs on another log have it: a shop in one server, nodes
// that capture it, and a second server of the same kind that a sink keeps equal.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/audit"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/rowtrail/rowtrail/itest/shop"
	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	// Prefix is the connector's topic.prefix.
	Prefix = "shop"

	comparePause = 500 * time.Millisecond
)

// Options are what differs between runs.
type Options struct {
	Binary     string
	Kind       Kind // nil: Postgres
	Size       shop.Size
	Load       func(context.Context, *End) error // fills the source; nil: a shop of Size
	Partitions int                               // of the tables' topics; 0: the log's default
	Source     map[string]string                 // settings of the source's server
	Logf       func(format string, args ...any)
}

// Pipeline is what was set up. Servers run, and may be restarted; the node is the caller's to start and to kill.
type Pipeline struct {
	Source, Target *End
	Node           *process.Rowtrail // nil: the caller has nodes of its own
}

// SetUp is StartServers, and configures the node. Close is called whatever it returns.
func (p *Pipeline) SetUp(ctx context.Context, o Options) error {
	if err := p.StartServers(ctx, o); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rowtrail-node-")
	if err != nil {
		return err
	}
	connectors, sinks := o.kind().Tasks(p.Source, p.Target, o.Partitions)
	p.Node, err = process.New(o.Binary, dir, process.Config{Connectors: connectors, Sinks: sinks})
	return err
}

func (o *Options) kind() Kind {
	if o.Kind == nil {
		return postgres{}
	}
	return o.Kind
}

// StartServers starts the servers and loads the shop. Close is called whatever it returns.
func (p *Pipeline) StartServers(ctx context.Context, o Options) (err error) {
	o.Logf("itest: bringing up two servers")
	if p.Source, err = o.kind().Start(ctx, source, servers.Options{Logf: o.Logf, Settings: o.Source}); err != nil {
		return err
	}
	if p.Target, err = o.kind().Start(ctx, target, servers.Options{Logf: o.Logf}); err != nil {
		return err
	}
	if o.Load != nil {
		return o.Load(ctx, p.Source)
	}
	o.Logf("itest: loading a shop of %d rows into the source", o.Size.Rows())
	return shop.Load(ctx, p.Source.DB, o.Size)
}

// Close kills the node, stops the servers and removes what they kept.
func (p *Pipeline) Close() error {
	var errs []error
	if p.Node != nil {
		errs = append(errs, p.Node.Kill(), os.RemoveAll(p.Node.Dir))
	}
	for _, s := range []*End{p.Source, p.Target} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// WithConn runs fn with a connection of its own to a Postgres database.
func WithConn(ctx context.Context, dsn string, fn func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return fn(conn)
}

// Different are the shop's tables in which the target does not equal the source.
func (p *Pipeline) Different(ctx context.Context) ([]shop.Difference, error) {
	return shop.Compare(ctx, p.Source.DB, p.Target.DB, p.Source.DB.Dialect().Tables())
}

// AwaitEqual waits until the target's tables equal the source's, no longer than a time; what still differs then is answered.
func (p *Pipeline) AwaitEqual(ctx context.Context, patience time.Duration) (different []shop.Difference, err error) {
	deadline := time.Now().Add(patience)
	for {
		different, err = p.Different(ctx)
		if err == nil && len(different) == 0 || time.Now().After(deadline) {
			return different, err
		}
		if !sleep.For(ctx, comparePause) {
			return nil, ctx.Err()
		}
	}
}

// Audit compares the log that a node is at with what the source committed since the watch of its audit began.
func (p *Pipeline) Audit(ctx context.Context, node *process.Rowtrail, opts ...kgo.Opt) (report *audit.Report, loaded, loadedTwice int, err error) {
	want := map[string]bool{}
	for _, table := range p.Source.DB.Dialect().Tables() {
		want[table] = true
	}
	committed, err := p.Source.Audit.Committed(ctx, want)
	if err != nil {
		return nil, 0, 0, err
	}
	client, err := node.Client(opts...)
	if err != nil {
		return nil, 0, 0, err
	}
	defer client.Close()
	trail, err := audit.Log(ctx, client, Prefix)
	if err != nil {
		return nil, 0, 0, err
	}
	for _, n := range trail.Loaded {
		loaded += n
	}
	return audit.Compare(committed, trail), loaded, trail.LoadedTwice, nil
}
