package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rowtrail/rowtrail/connectors"
)

// asked is what a node asks of a connector that another one runs.
type asked struct {
	Unpark *connectors.Unpark `json:"unpark,omitempty"`
}

// Unpark has a connector unpark a table, on whichever node runs it, which it returns.
func (d *Daemon) Unpark(ctx context.Context, name string, u connectors.Unpark) (int32, error) {
	i := slices.IndexFunc(d.runners, func(r *runner) bool { return r.role == roleConnector && r.name == name })
	if i < 0 || d.runners[i].connector == nil {
		return 0, fmt.Errorf("it is not in this node's file, or could not be built; ask a node that runs it")
	}
	r := d.runners[i]
	at := d.tasks.Where(r.task())
	switch {
	case at.Here:
		return at.Node, r.connector.Unpark(u)
	case at.Node == 0:
		return 0, fmt.Errorf("no node runs it: %s", at.Why)
	}
	what, err := json.Marshal(asked{Unpark: &u})
	if err == nil {
		err = d.tasks.Ask(ctx, r.task(), what)
	}
	if err != nil {
		return at.Node, fmt.Errorf("node %d, which runs it, cannot be told: %w", at.Node, err)
	}
	return at.Node, nil
}

// take does what another node asks of a connector that runs here: to unpark a table, else it is a signal.
func (d *Daemon) take(ctx context.Context, r *runner, what json.RawMessage) {
	var a asked
	if err := json.Unmarshal(what, &a); err != nil || a.Unpark == nil {
		signaler, ok := r.connector.(connectors.Signaler)
		if ok {
			d.takeSignal(ctx, signaler, r.name, what)
		} else {
			d.logger.Warn("another node asks a connector for something that this one does not understand", "connector", r.name)
		}
		return
	}
	if err := r.connector.Unpark(*a.Unpark); err != nil {
		d.logger.Warn("a table is not unparked, as another node asks", "connector", r.name, "table", a.Unpark.Table, "error", err)
	}
}
