// Package pipeline is the main job as the demo and the soak run it: a shop in one Postgres server, a node that captures it, and a
// second server that a sink keeps equal.
package pipeline

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rowtrail/rowtrail/itest/audit"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/rowtrail/rowtrail/itest/shop"
	"github.com/rowtrail/rowtrail/sleep"
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
	Partitions int               // of the tables' topics; 0: the node's default
	Target     map[string]string // settings of the target's server
	Logf       func(format string, args ...any)
}

// Pipeline is what was set up. Servers run, and may be restarted; the node is the caller's to start and to kill.
type Pipeline struct {
	Source, Target       *servers.Postgres
	SourceDSN, TargetDSN string
	Node                 *process.Rowtrail
}

// SetUp starts the servers, loads the shop and configures the node. Close is called whatever it returns.
func (p *Pipeline) SetUp(ctx context.Context, o Options) (err error) {
	o.Logf("itest: bringing up two Postgres servers")
	if p.Source, err = servers.StartPostgres(ctx, servers.Options{Logf: o.Logf}); err != nil {
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
	o.Logf("itest: loading a shop of %d rows into the source", o.Size.Rows())
	if err := WithConn(ctx, p.SourceDSN, func(c *pgx.Conn) error { return shop.Load(ctx, c, o.Size) }); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rowtrail-node-")
	if err != nil {
		return err
	}
	source := map[string]string{"database.dsn": p.SourceDSN, "topic.prefix": Prefix, "table.include.list": `public\..*`}
	if o.Partitions > 0 {
		source["topic.creation.default.partitions"] = strconv.Itoa(o.Partitions)
	}
	p.Node, err = process.New(o.Binary, dir, process.Config{
		Connectors: []process.Connector{{Name: "shop", Config: source}},
		Sinks:      []process.Sink{{Name: "warehouse", Topics: []string{Prefix + ".public.*"}, Config: map[string]string{"dsn": p.TargetDSN}}},
	})
	return err
}

// Close kills the node, stops the servers and removes what they kept.
func (p *Pipeline) Close() {
	if p.Node != nil {
		_ = p.Node.Kill()
		_ = os.RemoveAll(p.Node.Dir)
	}
	for _, s := range []*servers.Postgres{p.Source, p.Target} {
		if s != nil {
			_ = s.Close()
		}
	}
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

// Audit compares the log with what the source committed, which audit.Watch has noted.
func (p *Pipeline) Audit(ctx context.Context, source *pgx.Conn) (report *audit.Report, loaded, loadedTwice int, err error) {
	want := map[string]bool{}
	for _, table := range shop.Tables() {
		want[table] = true
	}
	committed, err := audit.Source(ctx, source, want)
	if err != nil {
		return nil, 0, 0, err
	}
	client, err := p.Node.Client()
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
