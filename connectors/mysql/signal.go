package mysql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/chunks"
)

const (
	// maxAsks bounds the signals that wait for the stream.
	maxAsks = 16
	// maxSignals bounds the signals of one source transaction.
	maxSignals = 1024
)

// ask is a signal that did not come with the stream.
type ask struct {
	ctx    context.Context // of who asks
	signal connectors.Signal
	result chan connectors.SignalResult
}

// Signal takes a signal beside the stream; see connectors.Signaler. It needs no right to write at the source: chunks lie between
// positions of the binlog.
func (c *Connector) Signal(ctx context.Context, s connectors.Signal) connectors.SignalResult {
	result := c.give(ctx, s)
	c.signalled(result)
	return result
}

func (c *Connector) give(ctx context.Context, s connectors.Signal) connectors.SignalResult {
	refused := s.Result()
	if _, err := s.Parse(); err != nil {
		return refused.Refuse(connectors.SignalMalformed, err)
	}
	c.mu.Lock()
	r := c.current
	running := r != nil && r.receiver != nil
	c.mu.Unlock()
	if !running {
		return refused.Refuse(connectors.SignalUnavailable, fmt.Errorf("the connector is %s: it takes signals while it streams", c.tracker.Status().State))
	}
	a := &ask{ctx: ctx, signal: s, result: make(chan connectors.SignalResult, 1)}
	select {
	case c.asks <- a:
	default:
		return refused.Refuse(connectors.SignalUnavailable, fmt.Errorf("%d signals wait already", maxAsks))
	}
	r.wake()
	select {
	case result := <-a.result:
		return result
	case <-ctx.Done():
		return refused.Refuse(connectors.SignalUnavailable, errors.New("the stream did not take the signal in time: it may be in a long transaction of the source"))
	}
}

// takeAsks takes the signals that wait, between two transactions.
func (s *stream) takeAsks(ctx context.Context) error {
	for {
		select {
		case a := <-s.run.asks:
			if a.ctx.Err() != nil { // nobody waits for it any more, who was told that it is not taken
				continue
			}
			result, err := s.signal(ctx, a.signal)
			if err != nil {
				return err
			}
			if s.loader.dirty {
				if err := s.markLoad(ctx); err != nil {
					return err
				}
				if err := s.flush(ctx); err != nil { // invariant 1: what is answered is in the log
					return err
				}
				s.loader.report("", nil)
			}
			a.result <- result
		default:
			return nil
		}
	}
}

// signalRow keeps a row that was inserted into the table of signals; it is taken when its transaction ends.
func (s *stream) signalRow(r *relation) error {
	l := s.loader
	if len(l.asked) >= maxSignals {
		return &connectors.Fault{
			Problem: fmt.Sprintf("transaction %s inserts more than %d rows into the table of signals %s", s.group.name, maxSignals, r.Collection),
			Remedy:  "leave signal.data.collection out until the connector is past it",
		}
	}
	var signal connectors.Signal
	text := func(name string, place int) string {
		at := -1
		for i := range r.Schema.Columns {
			if strings.EqualFold(r.Schema.Columns[i].Name, name) {
				at = i
			}
		}
		if at < 0 {
			at = place
		}
		if at >= len(r.after) || r.after[at].State != event.Text {
			return ""
		}
		return string(r.after[at].Text)
	}
	signal.ID, signal.Type = text("id", 0), text("type", 1)
	signal.Data = json.RawMessage(text("data", 2))
	l.asked = append(l.asked, signal)
	return nil
}

// signal does what a signal asks for. Its error is the run's, not the signal's.
func (s *stream) signal(ctx context.Context, signal connectors.Signal) (connectors.SignalResult, error) {
	result := signal.Result()
	request, err := signal.Parse()
	if err != nil {
		return result.Refuse(connectors.SignalMalformed, err), nil
	}
	l := s.loader
	switch signal.Type {
	case connectors.SignalLog:
		s.run.log.Info("signal", "id", signal.ID, "message", request.Message)
	case connectors.SignalPause, connectors.SignalResume:
		pause := signal.Type == connectors.SignalPause
		if l.load.Empty() {
			break
		}
		l.dirty = l.dirty || pause != l.load.Paused()
		if l.load.Resume(); pause {
			l.load.Pause()
		}
		for _, p := range l.load.Tables() {
			result.Tables = append(result.Tables, p.Plan.Table.Collection())
		}
	case connectors.SignalStop:
		n := l.load.Stop(func(p *chunks.Progress) bool {
			if p.Signal == "" || !request.Matches(p.Plan.Table.Collection()) {
				return false
			}
			result.Tables = append(result.Tables, p.Plan.Table.Collection())
			return true
		})
		l.dirty = l.dirty || n > 0
	case connectors.SignalExecute:
		return s.execute(ctx, &signal, request)
	}
	s.run.log.Info("signal is taken", "id", signal.ID, "type", signal.Type, "tables", strings.Join(result.Tables, ", "))
	return result, nil
}

// execute adds tables to the load.
func (s *stream) execute(ctx context.Context, signal *connectors.Signal, request *connectors.SnapshotRequest) (connectors.SignalResult, error) {
	result := signal.Result()
	l := s.loader
	var tables []*table
	err := s.run.side.use(ctx, func(session *session) (err error) {
		ctx, cancel := context.WithTimeout(ctx, queryTimeout)
		defer cancel()
		tables, err = s.config.catalog(ctx, session, "", "")
		return err
	})
	if err != nil {
		return result, fmt.Errorf("look for the tables of signal %q: %w", signal.ID, err)
	}
	id := signal.ID
	if id == "" {
		id = signal.Type
	}
	for _, t := range tables {
		if !request.Matches(t.String()) {
			continue
		}
		if len(l.load.Tables()) >= chunks.MaxTables {
			return result.Refuse(connectors.SignalMalformed, fmt.Errorf("more than %d tables wait to be loaded", chunks.MaxTables)), nil
		}
		if err := l.add(ctx, t, request.Filter(t.String()), id); err != nil {
			return result, err
		}
		if request.Truncate {
			if err := s.clear(ctx, l.tables[t.String()]); err != nil {
				return result, err
			}
		}
		result.Tables = append(result.Tables, t.String())
	}
	if len(result.Tables) == 0 {
		return result.Refuse(connectors.SignalUnknownTable, errors.New("none of the captured tables is meant; names are expressions for <database>.<table>")), nil
	}
	s.run.log.Info("signal is taken", "id", signal.ID, "type", signal.Type, "tables", strings.Join(result.Tables, ", "))
	return result, nil
}

// signalTable is the table of signals as the catalog has it.
func (c *Config) signalTable(ctx context.Context, s *session) (*table, error) {
	database, name, _ := strings.Cut(c.signals, ".")
	if c.signals == "" {
		return nil, nil
	}
	list, err := c.catalog(ctx, s, database, name)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

// signalFindings judges the table of signals. The connector only reads the binlog of it.
func (c *Config) signalFindings(in *inspection, add addFinding) {
	database, name, _ := strings.Cut(c.signals, ".")
	quoted := quoteIdent(database) + "." + quoteIdent(name)
	switch {
	case c.signals == "":
	case in.signals == nil:
		add(connectors.LevelError, "signal.data.collection", "CREATE TABLE "+quoted+" (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048)); "+
			"and GRANT SELECT ON "+quoted+" TO "+c.account(), "table %s does not exist, or user %s may not see it", c.signals, c.user)
	case len(in.signals.columns) < 3:
		add(connectors.LevelError, "signal.data.collection", "DROP TABLE "+quoted+"; CREATE TABLE "+quoted+" (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048))",
			"table %s has %d columns, and needs id, type and data", c.signals, len(in.signals.columns))
	}
}

// signalled keeps what became of a signal for the status.
func (c *Connector) signalled(result connectors.SignalResult) {
	if result.Error != "" {
		c.log.Warn("signal is not taken", "id", result.ID, "type", result.Type, "reason", result.Reason, "error", result.Error)
	}
	c.tracker.Update(func(st *connectors.Status) { st.Signal = &result })
}
