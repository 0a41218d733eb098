package daemon

import (
	"context"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
)

const (
	watchEvery    = 250 * time.Millisecond
	progressEvery = 5 * time.Second
)

// told is what was last said about one connector or sink.
type told struct {
	state    string
	progress time.Time
}

// narrate says when a connector or sink changes its state, and how far an initial load is.
func (d *Daemon) narrate(ctx context.Context) {
	last := make(map[*runner]*told, len(d.runners))
	for _, r := range d.runners {
		last[r] = &told{}
	}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		for _, r := range d.runners {
			d.tell(r, last[r])
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (d *Daemon) tell(r *runner, last *told) {
	if d.tasks != nil && !d.tasks.Where(r.task()).Here {
		last.state = "" // the node that runs it tells
		return
	}
	var state, problem, position string
	var load *connectors.LoadStatus
	if r.role == "connector" {
		s := d.connectorStatus(r)
		state, problem, position, load = s.State, s.Error, s.Position, s.Load
	} else {
		s := d.sinkStatus(r)
		state, problem = s.State, s.Error
	}
	if state != last.state {
		args := []any{r.role, r.name, "state", state}
		if position != "" {
			args = append(args, "position", position)
		}
		if problem != "" {
			d.logger.Warn(r.role+" is "+state, append(args, "error", problem)...)
		} else {
			d.logger.Info(r.role+" is "+state, args...)
		}
		last.state = state
	}
	if load != nil && time.Since(last.progress) >= progressEvery {
		d.logger.Info("initial load", r.role, r.name, "tables", load.Tables, "done", load.TablesDone,
			"rows", load.Rows, "of", load.RowsEstimated, "table", load.Current)
		last.progress = time.Now()
	}
}

// sayEvery is how often a node that starts says why it is not ready.
const sayEvery = 5 * time.Second

// sayNotReady says why a node is not ready until it is for the first time. What its cluster waits for, that says itself.
func (d *Daemon) sayNotReady(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		why := d.NotReady()
		if len(why) == 0 {
			return
		}
		if what, _ := d.waiting.Load().(string); what == "" {
			d.logger.Info("not ready yet", "waiting_for", strings.Join(why, "; "))
		}
	}
}
