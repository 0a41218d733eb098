package postgres

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/rowtrail/rowtrail/sink"
)

// target is a sink.Target.
type target struct {
	config *Config
	deps   sink.Deps
	log    *slog.Logger
}

// New makes a Postgres sink.
func New(c *Config, deps sink.Deps) (*sink.Runner, error) {
	if c == nil || c.Connect == nil {
		return nil, fmt.Errorf("create postgres sink: no configuration")
	}
	return sink.NewRunner(c.Settings, newTarget(c, deps), deps), nil
}

func newTarget(c *Config, deps sink.Deps) *target {
	log := deps.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &target{c, deps, log.With("sink", c.Name)}
}

// Ping connects and leaves.
func (t *target) Ping(ctx context.Context) error {
	conn, err := connect(ctx, t.config, "rowtrail ping")
	if err != nil {
		return err
	}
	closeConn(conn)
	return nil
}

// Open is described at sink.Target.
func (t *target) Open(ctx context.Context) (sink.Session, error) {
	conn, err := connect(ctx, t.config, t.config.applicationName())
	if err != nil {
		return nil, err
	}
	s := newSession(t, conn)
	if err := s.takeOver(ctx); err != nil {
		closeConn(conn)
		return nil, classify(err)
	}
	return s, nil
}

func (c *Config) applicationName() string { return "rowtrail sink " + c.Name }
