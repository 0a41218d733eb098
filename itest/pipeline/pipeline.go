// Package pipeline is the main job as the demo, the soak, the failovers and the runs on another log have it: a shop in one Postgres server, nodes
// that capture it, and a second server that a sink keeps equal.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
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
	Size       shop.Size
	Load       func(context.Context, *pgx.Conn) error // fills the source; nil: a shop of Size
	Partitions int                                    // of the tables' topics; 0: the log's default
	Source     map[string]string                      // settings of the source's server
	Target     map[string]string                      // settings of the target's server
	Logf       func(format string, args ...any)
}

// Pipeline is what was set up. Servers run, and may be restarted; the node is the caller's to start and to kill.
type Pipeline struct {
	Source, Target       *servers.Postgres
	SourceDSN, TargetDSN string
	Node                 *process.Rowtrail // nil: the caller has nodes of its own
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
	connectors, sinks := Tasks(p.SourceDSN, p.TargetDSN, o.Partitions)
	p.Node, err = process.New(o.Binary, dir, process.Config{Connectors: connectors, Sinks: sinks})
	return err
}

// StartServers starts the servers and loads the shop. Close is called whatever it returns.
func (p *Pipeline) StartServers(ctx context.Context, o Options) (err error) {
	o.Logf("itest: bringing up two Postgres servers")
	if p.Source, err = servers.StartPostgres(ctx, servers.Options{Logf: o.Logf, Settings: o.Source}); err != nil {
		return err
	}
	if p.Target, err = servers.StartPostgres(ctx, servers.Options{Logf: o.Logf, Settings: o.Target}); err != nil {
		return err
	}
	if p.SourceDSN, err = p.Source.CreateDatabase(ctx, "shop"); err != nil {
		return err
	}
	if p.TargetDSN, err = p.Target.CreateDatabase(ctx, "warehouse"); err != nil {
		return err
	}
	if o.Load != nil {
		return WithConn(ctx, p.SourceDSN, func(c *pgx.Conn) error { return o.Load(ctx, c) })
	}
	o.Logf("itest: loading a shop of %d rows into the source", o.Size.Rows())
	return WithConn(ctx, p.SourceDSN, func(c *pgx.Conn) error { return shop.Load(ctx, c, o.Size) })
}

// Tasks are the connector and the sink of a node that reaches the servers so.
func Tasks(source, target string, partitions int) ([]process.Connector, []process.Sink) {
	config := map[string]string{"database.dsn": source, "topic.prefix": Prefix, "table.include.list": `public\..*`}
	if partitions > 0 {
		config["topic.creation.default.partitions"] = strconv.Itoa(partitions)
	}
	return []process.Connector{{Name: "shop", Config: config}},
		[]process.Sink{{Name: "warehouse", Topics: []string{Prefix + ".public.*"}, Config: map[string]string{"dsn": target}}}
}

// Close kills the node, stops the servers and removes what they kept.
func (p *Pipeline) Close() error {
	var errs []error
	if p.Node != nil {
		errs = append(errs, p.Node.Kill(), os.RemoveAll(p.Node.Dir))
	}
	for _, s := range []*servers.Postgres{p.Source, p.Target} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// WithConn runs fn with a connection of its own.
func WithConn(ctx context.Context, dsn string, fn func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return fn(conn)
}

// AwaitEqual waits until the target's tables equal the source's, no longer than a time; what still differs then is answered.
func AwaitEqual(ctx context.Context, source, target *pgx.Conn, patience time.Duration) (different []shop.Difference, err error) {
	deadline := time.Now().Add(patience)
	for {
		different, err = shop.Compare(ctx, source, target, shop.Tables())
		if err == nil && len(different) == 0 || time.Now().After(deadline) {
			return different, err
		}
		if !sleep.For(ctx, comparePause) {
			return nil, ctx.Err()
		}
	}
}

// Audit compares the log that a node is at with what the source committed, which audit.Watch has noted.
func Audit(ctx context.Context, source *pgx.Conn, node *process.Rowtrail, opts ...kgo.Opt) (report *audit.Report, loaded, loadedTwice int, err error) {
	want := map[string]bool{}
	for _, table := range shop.Tables() {
		want[table] = true
	}
	committed, err := audit.Source(ctx, source, want)
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
