package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowtrail/rowtrail/connectors"
)

// Unpark has a connector unpark a table, on whichever node runs it, which it returns.
func (d *Daemon) Unpark(ctx context.Context, name string, u connectors.Unpark) (int32, error) {
	r := d.connectorNamed(name)
	if r == nil || r.connector == nil {
		return 0, errors.New("it is not in this node's file, or could not be built; ask a node that runs it")
	}
	at := d.tasks.Where(r.task())
	switch {
	case at.Here:
		return at.Node, r.connector.Unpark(u)
	case at.Node == 0:
		return 0, fmt.Errorf("no node runs it: %s", at.Why)
	}
	if err := d.askThere(ctx, r, asked{Unpark: &u}); err != nil {
		return at.Node, fmt.Errorf("node %d, which runs it, cannot be told: %w", at.Node, err)
	}
	return at.Node, nil
}
