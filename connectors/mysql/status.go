package mysql

import (
	"time"

	"github.com/rowtrail/rowtrail/connectors"
)

// retire keeps a run's totals when it ends.
func (c *Connector) retire(r *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addTotals(&c.base, r)
	c.current = nil
}

// addTotals adds what a run has committed.
func (c *Connector) addTotals(s *connectors.Status, r *run) {
	if m := r.committed.Load(); m != nil {
		s.Events += m.Events
		s.Transactions += m.Txs
		if p, ok := m.Resume.(*point); ok {
			s.Position = p.String()
		}
	}
	if r.writer != nil {
		bytes, _ := r.writer.Counts()
		s.Bytes += bytes
	}
}

// Status says how the connector does.
func (c *Connector) Status() connectors.Status {
	s := c.tracker.Status()
	s.Parked = c.isolation.Status()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Events, s.Transactions, s.Bytes, s.Position = c.base.Events, c.base.Transactions, c.base.Bytes, c.base.Position
	r := c.current
	if r == nil {
		return s
	}
	c.addTotals(&s, r)
	if r.stream == nil {
		return s
	}
	s.LagBytes = r.behind.Load()
	if seen, committed := r.stream.seen.Load(), r.committedEvents(); seen > committed {
		s.LagEvents = int64(seen - committed)
		oldest := r.stream.since.Load()
		if m := r.committed.Load(); m != nil {
			oldest = max(oldest, m.TimeUs)
		}
		s.LagSeconds = max(0, time.Since(time.UnixMicro(oldest)).Seconds())
	}
	return s
}

func (r *run) committedEvents() uint64 {
	if m := r.committed.Load(); m != nil {
		return m.Events
	}
	return 0
}
