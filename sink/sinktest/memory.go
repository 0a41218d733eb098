package sinktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// Memory is a transactional target in memory: the model of what a target has to do.
type Memory struct {
	mu      sync.Mutex
	epochs  map[string]int
	offsets map[string]map[string]sink.Offset
	tables  map[string]map[string]event.Row
	applied int
	moving  map[string]event.Row // a row that is changing its key
	down    error
}

// NewMemory makes an empty target.
func NewMemory() *Memory {
	return &Memory{epochs: map[string]int{}, offsets: map[string]map[string]sink.Offset{}, tables: map[string]map[string]event.Row{}}
}

// SetDown makes the target unreachable, or reachable again with nil.
func (m *Memory) SetDown(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = err
}

// Target is the target of one sink.
func (m *Memory) Target(name string) sink.Target { return &memoryTarget{m, name} }

// Rows prints a table, sorted.
func (m *Memory) Rows(table string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []string{}
	for _, row := range m.tables[table] {
		out = append(out, Format(row))
	}
	slices.Sort(out)
	return out
}

// Applied counts the changes that were committed.
func (m *Memory) Applied() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied
}

type memoryTarget struct {
	m    *Memory
	name string
}

func (t *memoryTarget) Ping(context.Context) error {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	return t.m.down
}

func (t *memoryTarget) Open(context.Context) (sink.Session, error) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if t.m.down != nil {
		return nil, t.m.down
	}
	t.m.epochs[t.name]++
	return &memorySession{m: t.m, name: t.name, epoch: t.m.epochs[t.name], offsets: slices.Collect(maps.Values(t.m.offsets[t.name]))}, nil
}

type memorySession struct {
	m       *Memory
	name    string
	epoch   int
	offsets []sink.Offset
	open    []func() error
}

func (s *memorySession) Offsets() []sink.Offset { return s.offsets }
func (s *memorySession) SetCareful(bool)        {}
func (s *memorySession) Close()                 {}

func (s *memorySession) Apply(_ context.Context, ev *sink.Event) error {
	if ev.Schema == nil {
		return sink.Permanent(errors.New("no table version"))
	}
	table, op := ev.Schema.Collection(), ev.Change.Op
	row, key, oldKey := ev.Change.After.Clone(), Format(ev.Key), ""
	if ev.OldKey != nil {
		oldKey = Format(ev.OldKey)
	}
	leaves := ev.NewKey != nil
	s.open = append(s.open, func() error { return s.m.change(table, op, key, oldKey, leaves, row) })
	return nil
}

// change applies one event. The caller holds the lock.
func (m *Memory) change(table string, op event.Op, key, oldKey string, leaves bool, row event.Row) error {
	rows := m.tables[table]
	if rows == nil {
		rows = map[string]event.Row{}
		m.tables[table] = rows
	}
	m.applied++
	switch op {
	case event.OpTruncate:
		clear(rows)
	case event.OpDelete:
		if leaves {
			m.moving = map[string]event.Row{key: rows[key]}
		}
		delete(rows, key)
	default:
		before := rows[key]
		if oldKey != "" {
			before = m.moving[oldKey]
		}
		for i := range row {
			if row[i].State != event.Absent {
				continue
			}
			if before == nil {
				return sink.Permanent(fmt.Errorf("row %s of %s is not there to be updated", key, table))
			}
			row[i] = before[i]
		}
		rows[key] = row
	}
	return nil
}

func (s *memorySession) Commit(_ context.Context, offsets []sink.Offset) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	switch {
	case s.m.down != nil:
		return s.m.down
	case s.m.epochs[s.name] != s.epoch:
		return sink.ErrFenced
	}
	before, applied := s.m.copyTables(), s.m.applied
	for _, change := range s.open {
		if err := change(); err != nil {
			s.m.tables, s.m.applied = before, applied
			return err
		}
	}
	s.open = nil
	if s.m.offsets[s.name] == nil {
		s.m.offsets[s.name] = map[string]sink.Offset{}
	}
	for _, o := range offsets {
		s.m.offsets[s.name][fmt.Sprint(o.Topic, "/", o.Partition)] = o
	}
	return nil
}

// copyTables copies what a failed transaction goes back to. Rows are never changed in place.
func (m *Memory) copyTables() map[string]map[string]event.Row {
	c := make(map[string]map[string]event.Row, len(m.tables))
	for name, rows := range m.tables {
		c[name] = maps.Clone(rows)
	}
	return c
}
