package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rowtrail/rowtrail/log/sleep"
)

type currentRequest struct{}

// Current returns once this node's catalogue has all that was decided before the call. What it lacks then does not exist, or came later.
// ErrNotController: no controller answered in time.
func (n *Node) Current(ctx context.Context) error {
	for {
		err := n.current(ctx)
		if err == nil {
			return nil
		}
		if !sleep.For(ctx, controllerRetry) {
			return fmt.Errorf("bring the catalogue up to date: %w: %w", ErrNotController, err)
		}
	}
}

func (n *Node) current(ctx context.Context) error {
	leader, _, self := n.ctl.replica.Leader()
	switch {
	case self:
		return n.ctl.replica.Confirm(ctx)
	case leader < 0 || n.net == nil:
		return errRetry
	}
	b, err := n.net.net.Call(ctx, leader, mustJSON(call{Current: &currentRequest{}}))
	if err != nil {
		return err
	}
	var a appendAnswer
	if err := json.Unmarshal(b, &a); err != nil {
		return fmt.Errorf("answer of node %d: %w", leader, err)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return n.log.wait(ctx, a.Offset)
}

// currentHere answers another node's question how far the catalogue is.
func (n *Node) currentHere(ctx context.Context) appendAnswer {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	if err := n.ctl.replica.Confirm(ctx); err != nil {
		return appendAnswer{Error: err.Error()}
	}
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	return appendAnswer{Offset: n.log.offset}
}
