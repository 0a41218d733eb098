package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// waiting says what a node waits for: at once to Options.Waiting, which shows it to who asks, and every sayEvery in the log.
type waiting struct {
	n       *Node
	message string
	said    time.Time
}

// waiting begins a wait. What passes soon is not in the log.
func (n *Node) waiting(message string) *waiting {
	return &waiting{n: n, message: message, said: time.Now()}
}

func (w *waiting) say(what string) {
	w.n.opts.Waiting(w.message + ": " + what)
	if time.Since(w.said) >= sayEvery {
		w.said = time.Now()
		w.n.opts.Logger.Warn(w.message, "waiting_for", what)
	}
}

func (w *waiting) end() { w.n.opts.Waiting("") }

// belongs shows what a blank data directory waits for; former has it in the log.
func (n *Node) belongs(waiting string) {
	if waiting != "" {
		waiting = "it belongs to no cluster yet and waits for " + waiting
	}
	n.opts.Waiting(waiting)
}

// introduce is propose for a node that does not have the catalogue yet: that may take as long as the others are away.
func (n *Node) introduce(ctx context.Context, decide func(*catalogState) ([]change, error)) error {
	w := n.waiting("the catalogue has not been received yet")
	defer w.end()
	for {
		try, cancel := context.WithTimeout(ctx, askFor)
		err := n.ctl.propose(try, decide)
		passing := errors.Is(err, ErrNotController) || try.Err() != nil
		cancel()
		if err == nil || !passing || ctx.Err() != nil {
			return err
		}
		if halted := n.sched.failed(); halted != nil {
			return halted
		}
		w.say(n.noCatalogue(err))
	}
}

// noCatalogue says why there is none.
func (n *Node) noCatalogue(err error) string {
	leader, _, _ := n.ctl.replica.Leader()
	if leader < 0 {
		return fmt.Sprintf("a leader of the controller's log; a majority of its members has to be up and to reach this node at %s", n.opts.Info.Address)
	}
	return fmt.Sprintf("node %d, which leads the controller's log: %v", leader, err)
}
