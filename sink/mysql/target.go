package mysql

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

// New makes a MySQL or MariaDB sink.
func New(c *Config, deps sink.Deps) (*sink.Runner, error) {
	if c == nil || c.Connect == nil {
		return nil, fmt.Errorf("create mysql sink: no configuration")
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
	m, err := connect(ctx, t.config)
	if err != nil {
		return err
	}
	m.close()
	return nil
}

// Open is described at sink.Target.
func (t *target) Open(ctx context.Context) (sink.Session, error) {
	m, err := connect(ctx, t.config)
	if err != nil {
		return nil, err
	}
	s := newSession(t, m)
	if err := s.takeOver(ctx); err != nil {
		m.close()
		return nil, classify(err)
	}
	return s, nil
}
