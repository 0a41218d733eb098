package daemon

import (
	"context"
	"crypto/rand"
	"encoding/json"
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
	result, err := d.signalThere(ctx, r, s)
	return at.Node, result, err
}

// signalThere has another node take a signal. It answers in the connector's status.
func (d *Daemon) signalThere(ctx context.Context, r *runner, s connectors.Signal) (connectors.SignalResult, error) {
	s.Request = rand.Text()
	what, err := json.Marshal(s)
	if err != nil {
		return s.Result(), fmt.Errorf("encode signal: %w", err)
	}
	if err := d.tasks.Ask(ctx, r.task(), what); err != nil {
		return s.Result().Refuse(connectors.SignalUnavailable, fmt.Errorf("the node that runs the connector cannot be told: %w", err)), nil
	}
	for sleep.For(ctx, lookForAnswer) {
		if last := d.connectorStatus(r).Signal; last != nil && last.Request == s.Request {
			return *last, nil
		}
	}
	return s.Result().Refuse(connectors.SignalUnavailable, errors.New("the node that runs the connector did not answer in time; its status tells whether the signal was taken")), nil
}

// takeSignal takes a signal that another node was given.
func (d *Daemon) takeSignal(ctx context.Context, to connectors.Signaler, name string, what json.RawMessage) {
	var s connectors.Signal
	if err := json.Unmarshal(what, &s); err != nil {
		d.logger.Warn("another node asks a connector for something that this one does not understand", "connector", name, "error", err)
		return
	}
	to.Signal(ctx, s)
}

func (d *Daemon) connectorNamed(name string) *runner {
	for _, r := range d.runners {
		if r.role == roleConnector && r.name == name {
			return r
		}
	}
	return nil
}
