package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/cmd/rowtrail/rows"
	"github.com/rowtrail/rowtrail/cmd/rowtrail/tasks"
	"github.com/rowtrail/rowtrail/configs"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker"
	"github.com/rowtrail/rowtrail/log/broker/group"
	"github.com/rowtrail/rowtrail/log/broker/group/consumer"
	"github.com/rowtrail/rowtrail/log/broker/sasl"
)

// Options of a Daemon that are not in its file.
type Options struct {
	Logger  *slog.Logger
	Version string
}

// Daemon is a running node.
type Daemon struct {
	cfg    *configs.Config
	opts   Options
	logger *slog.Logger

	kafka, http, peers net.Listener // http is nil when there is no admin endpoint, kafka when the log is elsewhere, peers when there are no other nodes

	// These four are nil when the log is in another Kafka cluster.
	store  *log.Store
	node   *cluster.Node
	broker *broker.Broker
	rows   *rows.Rows

	admin  *admin.Server
	client []kgo.Opt // how connectors and sinks reach the log

	runners []*runner
	tasks   *tasks.Node  // nil: there is nothing to run
	phase   atomic.Value // string: "starting", "" or "stopping"
	waiting atomic.Value // string: what a node that starts waits for, as the cluster says
	opening atomic.Value // string: what the start is at

	ctx       context.Context    // of everything that runs in the background
	cancel    context.CancelFunc // ends it
	planes    context.CancelFunc // ends connectors and sinks, which go first
	planesWG  sync.WaitGroup
	viewsWG   sync.WaitGroup
	serversWG sync.WaitGroup

	fatal     chan error // capacity 1: why the node must stop
	stopOnce  sync.Once
	stopError error
}

// Start brings a node up. On an error nothing is left running. ctx bounds the start only.
func Start(ctx context.Context, cfg *configs.Config, opts Options) (*Daemon, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Daemon{cfg: cfg, opts: opts, logger: opts.Logger, fatal: make(chan error, 1)}
	d.phase.Store("starting")
	d.ctx, d.cancel = context.WithCancel(context.Background())
	if err := d.start(ctx); err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(cfg.Node.ShutdownTimeout))
		defer cancel()
		if stopErr := d.Stop(stopping); stopErr != nil {
			d.logger.Warn("stop after a failed start", "error", stopErr)
		}
		return nil, err
	}
	return d, nil
}

func (d *Daemon) start(ctx context.Context) error {
	if err := d.listen(); err != nil {
		return err
	}
	d.beginAdmin()
	d.viewsWG.Go(func() { d.sayNotReady(d.ctx, sayEvery) })
	if d.cfg.Log.Kafka.Enabled() {
		client, err := KafkaClient(d.cfg.Log.Kafka)
		if err != nil {
			return err
		}
		d.client = client
	} else if err := d.startLog(ctx); err != nil {
		return err
	}
	d.buildPlanes()
	if err := d.openAdmin(); err != nil {
		return err
	}
	d.runPlanes()
	d.phase.Store("")
	args := []any{"http", d.HTTPAddress(), "connectors", len(d.cfg.Connectors), "sinks", len(d.cfg.Sinks)}
	if d.external() {
		args = append(args, "log", d.cfg.Log.Kafka.Brokers)
	} else {
		args = append(args, "kafka", d.KafkaAddress(), "data", d.cfg.Node.DataDir, "cluster", d.node.ClusterID())
	}
	d.logger.Info("ready", args...)
	return nil
}

// external tells whether another cluster holds the log.
func (d *Daemon) external() bool { return d.cfg.Log.Kafka.Enabled() }

// startLog starts the built-in log: store, groups, broker, views.
func (d *Daemon) startLog(ctx context.Context) error {
	d.opening.Store("it opens its data directory")
	if err := d.openStore(); err != nil {
		return err
	}
	d.opening.Store("it opens its replicas")
	if err := d.startNode(ctx); err != nil {
		return err
	}
	d.opening.Store("it opens its views")
	if err := d.startBroker(); err != nil {
		return err
	}
	// In process: through memory, as an internal principal.
	d.client = []kgo.Opt{kgo.SeedBrokers(d.seed()), kgo.Dialer(d.broker.Dialer())}
	return d.startViews()
}

func (d *Daemon) openStore() error {
	dir := d.cfg.Node.DataDir
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("create node.data_dir: %w; make its parent writable, or name another directory", err)
	}
	store, err := log.Open(filepath.Join(dir, "log"), log.Options{
		Logger: d.logger.With("part", "log"), MinFreeBytes: int64(d.cfg.Node.MinFreeBytes), OnFatal: d.fail,
		Configuration: cluster.Configuration,
	})
	if err != nil {
		return explainOpen(dir, err)
	}
	d.store = store
	return nil
}

// explainOpen makes one line with the remedy of a store that does not open; the store's own errors have most of it.
func explainOpen(dir string, err error) error {
	switch {
	case errors.Is(err, log.ErrLocked), errors.Is(err, log.ErrFormat):
		return fmt.Errorf("open node.data_dir: %w", err)
	case errors.Is(err, log.ErrDiskFull):
		return fmt.Errorf("open node.data_dir: %w; free space there, or lower node.min_free_bytes", err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("open node.data_dir %s: %w; make it readable and writable for this user", dir, err)
	}
	return fmt.Errorf("open node.data_dir %s: %w", dir, err)
}

func (d *Daemon) startBroker() error {
	host, port := d.advertised()
	secure, err := openCertificates(d.cfg.Listen.TLS, d.logger)
	if err != nil {
		return err
	}
	d.broker, err = broker.New(broker.Options{
		Node: d.node, AdvertisedHost: host, AdvertisedPort: port, Logger: d.logger.With("part", "broker"),
		Rack: d.cfg.Node.Rack, DataDir: d.cfg.Node.DataDir,
		DiskSpace: d.diskSpace,
		TLS:       secure, SASL: login(d.cfg.Listen.SASL),
		MaxConnections: int(d.cfg.Listen.MaxConnections), MaxConnectionsPerIP: int(d.cfg.Listen.MaxConnectionsPerIP),
		AutoCreateTopics: d.cfg.Log.AutoCreateTopics, DefaultPartitions: d.cfg.Log.NumPartitions,
		Coordinators: broker.CoordinatorOptions{Groups: d.groupOptions()},
	})
	if err != nil {
		return fmt.Errorf("start broker: %w", err)
	}
	d.serversWG.Go(func() {
		if err := d.broker.Serve(d.kafka); err != nil && !errors.Is(err, broker.ErrClosed) {
			d.fail(fmt.Errorf("serve Kafka clients: %w", err))
		}
	})
	return nil
}

// groupOptions are the limits of consumer groups.
func (d *Daemon) groupOptions() group.Options {
	c := d.cfg.Log
	return group.Options{
		Limits: group.Limits{
			MinSessionTimeout: c.GroupMinSessionTimeoutMs.Duration(), MaxSessionTimeout: c.GroupMaxSessionTimeoutMs.Duration(),
			InitialRebalanceDelay: c.GroupInitialRebalanceDelay.Duration(), Own: tasks.Group, MaxMembers: int(c.GroupMaxSize),
		},
		Consumer: consumer.Limits{
			SessionTimeout: c.GroupConsumerSession.Duration(), HeartbeatInterval: c.GroupConsumerHeartbeat.Duration(),
			MaxMembers: int(c.GroupConsumerMaxSize),
		},
		MaxMetadataBytes: int(c.OffsetMetadataMaxBytes),
		OffsetsRetention: time.Duration(c.OffsetsRetentionMinutes) * time.Minute,
	}
}

// login is how clients log in; nil: they need not.
func login(c configs.SASL) *broker.SASLOptions {
	if !c.Enabled() {
		return nil
	}
	opts := &broker.SASLOptions{Mechanisms: c.Mechanisms, MaxReauth: time.Duration(c.MaxReauth)}
	for _, u := range c.Users {
		opts.Users = append(opts.Users, sasl.User{Name: u.Name, Password: u.Password.Reveal()})
	}
	return opts
}

func (d *Daemon) diskSpace() (total, usable int64) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(d.cfg.Node.DataDir, &fs); err != nil {
		return 0, 0
	}
	block := fs.Bsize
	return int64(fs.Blocks) * block, int64(fs.Bavail) * block //nolint:gosec // sizes of a file system
}

// beginAdmin answers for the node's health while it starts, which takes as long as its peers do.
func (d *Daemon) beginAdmin() {
	if d.http == nil {
		return
	}
	d.admin = admin.Begin(d.opts.Version, d.NotReady, d.logger.With("part", "admin"))
	d.serversWG.Go(func() {
		if err := d.admin.Serve(d.http); err != nil {
			d.fail(err)
		}
	})
}

func (d *Daemon) openAdmin() error {
	if d.admin == nil {
		return nil
	}
	opts := admin.Options{Node: d, Restart: d.Restart, Signal: d.Signal, Unpark: d.Unpark, Version: d.opts.Version, Pprof: d.cfg.Listen.Pprof, Logger: d.logger.With("part", "admin")}
	if d.external() {
		opts.Elsewhere = strings.Join(d.cfg.Log.Kafka.Brokers, ",")
	} else {
		opts.Views, opts.Stale, opts.Others, opts.Position, opts.Cluster = d.rows, d.rows.Stale(), d.others, d.position, d.node
		opts.Storage, opts.Groups, opts.Kafka = d.store.Stats, d.broker.GroupLags, d.broker.Stats
	}
	err := d.admin.Open(opts)
	if err != nil {
		return fmt.Errorf("start admin endpoint: %w", err)
	}
	return nil
}

// fail asks the owner to stop the node; the first reason wins.
func (d *Daemon) fail(err error) {
	select {
	case d.fatal <- err:
	default:
	}
}

// Fatal delivers why the node can no longer do its work, once; the owner then calls Stop.
func (d *Daemon) Fatal() <-chan error { return d.fatal }

// Stop ends the node in the order of the package's comment. It may be called more than once.
func (d *Daemon) Stop(ctx context.Context) error {
	d.stopOnce.Do(func() { d.stopError = d.stop(ctx) })
	return d.stopError
}

func (d *Daemon) stop(ctx context.Context) error {
	d.phase.Store("stopping")
	var errs []error
	if d.planes != nil {
		d.planes()
		errs = append(errs, waitFor(ctx, &d.planesWG, "connectors and sinks"))
	}
	if d.node != nil {
		d.node.HandOver(ctx)
	}
	if d.node != nil && d.broker != nil && len(d.node.Catalog().Nodes) > 1 {
		d.broker.Redirect(ctx)
	}
	if d.broker != nil {
		errs = append(errs, d.broker.Shutdown(ctx))
	}
	if d.admin != nil {
		errs = append(errs, d.admin.Shutdown(ctx))
	}
	for _, l := range []net.Listener{d.kafka, d.http, d.peers} {
		if l != nil && (l != d.peers || d.node == nil) { // the node needs its own to the end
			_ = l.Close() // its server has closed it already, if it had started
		}
	}
	errs = append(errs, waitFor(ctx, &d.serversWG, "listeners"))
	d.cancel()
	errs = append(errs, waitFor(ctx, &d.viewsWG, "views"))
	if d.rows != nil {
		errs = append(errs, d.rows.Close(ctx))
	}
	if d.node != nil {
		errs = append(errs, d.node.Stop(ctx))
	}
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	return errors.Join(errs...)
}

func waitFor(ctx context.Context, wg *sync.WaitGroup, what string) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", what, ctx.Err())
	}
}
