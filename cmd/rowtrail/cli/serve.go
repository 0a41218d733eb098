package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/daemon"
	"github.com/rowtrail/rowtrail/configs"
)

// signalGrace: a supervisor may send its signal to the process and to its group, which is one wish.
const signalGrace = time.Second

// stopGrace is what a shutdown may take beyond its deadline to close files.
const stopGrace = 5 * time.Second

func (a *app) serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve -c FILE",
		Short: "Run a node",
		Long: `Run a node: the log with its Kafka and HTTP listeners, and the connectors and sinks of the file. SIGTERM or SIGINT stops it
gracefully within node.shutdown_timeout; a further one, a second or more later, ends it at once. Where it listens goes to standard output, its log
to standard error. With log.kafka in the file the log is another Kafka cluster, and the node runs connectors and sinks alone.`,
		Example: "  rowtrail serve -c configs/shop.yaml",
		Args:    args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), cfg)
		},
	}
}

func (a *app) load() (*configs.Config, error) {
	if a.config == "" {
		return nil, usage(errors.New("no configuration file is named; add -c FILE (configs/broker.yaml serves Kafka clients alone, configs/minimal.yaml captures a database too)"))
	}
	cfg, err := configs.Load(a.config)
	if err != nil {
		return nil, err
	}
	return cfg, nil
}

func (a *app) serve(ctx context.Context, cfg *configs.Config) error {
	logger, err := newLogger(a.err, cfg.Logging, a.json())
	if err != nil {
		return err
	}
	limitMemory(int64(cfg.Node.MemoryLimit))

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	type started struct {
		d   *daemon.Daemon
		err error
	}
	up := make(chan started, 1)
	go func() {
		d, err := daemon.Start(starting, cfg, daemon.Options{Logger: logger, Version: a.version})
		up <- started{d, err}
	}()
	var node started
	select {
	case node = <-up:
		if node.err != nil {
			return node.err
		}
	case s := <-signals:
		first := time.Now()
		logger.Info("stopping while starting", "signal", s.String())
		cancel()
		for node.d == nil && node.err == nil {
			select {
			case node = <-up:
			case s := <-signals:
				if time.Since(first) >= signalGrace {
					return fmt.Errorf("second signal (%s): stopped at once", s)
				}
			}
		}
		if node.err != nil {
			return nil // what was asked for
		}
		return a.stop(node.d, cfg, logger, signals, first)
	}
	if err := a.announce(node.d, cfg); err != nil {
		return errors.Join(err, a.stop(node.d, cfg, logger, signals, time.Time{}))
	}
	select {
	case s := <-signals:
		logger.Info("stopping", "signal", s.String(), "within", cfg.Node.ShutdownTimeout.String())
		return a.stop(node.d, cfg, logger, signals, time.Now())
	case err := <-node.d.Fatal():
		logger.Error("stopping: the node cannot go on", "error", err)
		return errors.Join(fmt.Errorf("stopped because the node cannot go on: %w", err), a.stop(node.d, cfg, logger, signals, time.Time{}))
	}
}

// announce says on standard output where the node listens.
func (a *app) announce(d *daemon.Daemon, cfg *configs.Config) error {
	if a.json() {
		said := map[string]string{"version": a.version, "kafka": d.KafkaAddress(), "http": d.HTTPAddress()}
		if k := cfg.Log.Kafka; k.Enabled() {
			said["log"] = strings.Join(k.Brokers, ",")
		}
		return a.printJSON(said)
	}
	line := fmt.Sprintf("rowtrail %s: Kafka on %s", a.version, d.KafkaAddress())
	if k := cfg.Log.Kafka; k.Enabled() {
		line = fmt.Sprintf("rowtrail %s: connectors and sinks of the log at %s", a.version, strings.Join(k.Brokers, ","))
	}
	if d.HTTPAddress() != "" {
		line += ", HTTP on http://" + d.HTTPAddress()
	}
	_, err := fmt.Fprintln(a.out, line)
	return err
}

// stop ends the node within its deadline, or at once at a signal that is not the first one's double.
func (a *app) stop(d *daemon.Daemon, cfg *configs.Config, logger *slog.Logger, signals <-chan os.Signal, first time.Time) error {
	timeout := time.Duration(cfg.Node.ShutdownTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- d.Stop(ctx) }()
	late := time.NewTimer(timeout + stopGrace)
	defer late.Stop()
	for {
		select {
		case err := <-stopped:
			if err != nil {
				return fmt.Errorf("stop: %w; nothing acknowledged is lost, the next start takes longer", err)
			}
			logger.Info("stopped")
			return nil
		case s := <-signals:
			if time.Since(first) >= signalGrace {
				return fmt.Errorf("second signal (%s): stopped at once; nothing acknowledged is lost, the next start takes longer", s)
			}
		case <-late.C:
			return fmt.Errorf("stop: still busy after %s; nothing acknowledged is lost, the next start takes longer", timeout+stopGrace)
		}
	}
}

// limitMemory makes the garbage collector keep the process small; GOMEMLIMIT is the operator's own word.
func limitMemory(limit int64) {
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}

func newLogger(w io.Writer, cfg configs.Logging, asJSON bool) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		return nil, fmt.Errorf("logging.level: %w", err)
	}
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration { // JSON's would be nanoseconds
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}
	if cfg.Format == "json" || asJSON || cfg.Format == "auto" && !isTerminal(w) {
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return slog.New(slog.NewTextHandler(w, opts)), nil
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
