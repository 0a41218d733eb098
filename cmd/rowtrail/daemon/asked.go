package daemon

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rowtrail/rowtrail/connectors"
)

// asked is what a node asks of a connector that another one runs: one of the two.
type asked struct {
	Unpark *connectors.Unpark `json:"unpark,omitempty"`
	Signal *connectors.Signal `json:"signal,omitempty"`
}

// askThere asks something of a connector that another node runs.
func (d *Daemon) askThere(ctx context.Context, r *runner, a asked) error {
	what, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode what is asked of connector %s: %w", r.name, err)
	}
	return d.tasks.Ask(ctx, r.task(), what)
}

// take does what another node asks of a connector that runs here.
func (d *Daemon) take(ctx context.Context, r *runner, what json.RawMessage) {
	var a asked
	err := json.Unmarshal(what, &a)
	signaler, signals := r.connector.(connectors.Signaler)
	switch {
	case err == nil && a.Unpark != nil:
		if err := r.connector.Unpark(*a.Unpark); err != nil {
			d.logger.Warn("a table is not unparked, as another node asks", "connector", r.name, "table", a.Unpark.Table, "error", err)
		}
	case err == nil && a.Signal != nil && signals:
		signaler.Signal(ctx, *a.Signal)
	default:
		d.logger.Warn("another node asks a connector for something that this one does not understand", "connector", r.name, "error", err)
	}
}

func (d *Daemon) connectorNamed(name string) *runner {
	for _, r := range d.runners {
		if r.role == roleConnector && r.name == name {
			return r
		}
	}
	return nil
}
