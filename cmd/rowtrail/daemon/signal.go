package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	// signalTimeout is how long a connector may take to take a signal: the rest of a transaction of its source.
	signalTimeout = 20 * time.Second
	// lookForAnswer is how often it is looked for what another node's connector answered.
	lookForAnswer = 200 * time.Millisecond
)

// Signal gives a connector a signal, on whichever node runs it, which it returns.
func (d *Daemon) Signal(ctx context.Context, name string, s connectors.Signal) (int32, connectors.SignalResult, error) {
	r := d.connectorNamed(name)
	if r == nil {
		return 0, connectors.SignalResult{}, fmt.Errorf("%w: %s", admin.ErrNoSignals, "it is not in this node's file")
	}
	signaler, ok := r.connector.(connectors.Signaler)
	if !ok {
		return 0, connectors.SignalResult{}, fmt.Errorf("%w: a %s connector takes none", admin.ErrNoSignals, r.kind)
	}
	if _, err := s.Parse(); err != nil {
		return 0, s.Result().Refuse(connectors.SignalMalformed, err), nil
	}
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	at := d.tasks.Where(r.task())
	switch {
	case at.Here:
		return at.Node, signaler.Signal(ctx, s), nil
	case at.Node == 0:
		return 0, s.Result().Refuse(connectors.SignalUnavailable, errors.New("no node runs the connector: "+at.Why)), nil
	}
	return at.Node, d.signalThere(ctx, r, s), nil
}

// signalThere has another node take a signal. It answers in the connector's status.
func (d *Daemon) signalThere(ctx context.Context, r *runner, s connectors.Signal) connectors.SignalResult {
	s.Request = rand.Text()
	if err := d.askThere(ctx, r, asked{Signal: &s}); err != nil {
		return s.Result().Refuse(connectors.SignalUnavailable, fmt.Errorf("the node that runs the connector cannot be told: %w", err))
	}
	for sleep.For(ctx, lookForAnswer) {
		if last := d.connectorStatus(r).Signal; last != nil && last.Request == s.Request {
			return *last
		}
	}
	return s.Result().Refuse(connectors.SignalUnavailable, errors.New("the node that runs the connector did not answer in time; its status tells whether the signal was taken"))
}
