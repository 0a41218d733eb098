package chunks

import (
	"fmt"
	"slices"
)

const (
	// DefaultParallel is how many tables are read at a time.
	DefaultParallel = 2
	// MaxTables bounds the tables that wait or are read.
	MaxTables = 1 << 16
)

// Options of a Load.
type Options struct {
	Parallel int // tables that are read at a time; 0: DefaultParallel
	Rows     int // of the first chunk; 0: DefaultRows
}

// Load is the state of all tables that are to be read: those of the initial load, new ones, and those that a signal asked for. It
// belongs to the stream's goroutine. For each transaction of the source, the stream calls Change of the Windows of its tables and
// then, between two transactions, Boundary:
//
//	for t := l.Next(here); t != nil; t = l.Next(here) { go read t, then hand it back }
//	on a task that was read:  l.Done(t, err)
//	after each transaction:   for t in l.Boundary(here) { t.Each(tell the row); l.Told(t) }
type Load struct {
	options Options
	tables  []*Progress
	active  map[string]*Task // by collection
	ready   []*Task
	paused  bool
	spare   []*Window
}

// Progress is how far one table is.
type Progress struct {
	Plan *Plan
	// Signal is the id of the signal that asked for it, "" of the initial load.
	Signal string
	// After is the last key that was told, UpTo the last that there is to tell, when Bounded.
	After, UpTo Cursor
	Bounded     bool
	Rows        uint64 // told
	limit       int
	find        []Cursor // the keys that are looked for, of Find
	sought      []string // their identities
}

// NewLoad makes a Load of no tables.
func NewLoad(o Options) *Load {
	if o.Parallel <= 0 {
		o.Parallel = DefaultParallel
	}
	if o.Rows <= 0 {
		o.Rows = DefaultRows
	}
	o.Rows = min(o.Rows, maxRows)
	return &Load{options: o, active: map[string]*Task{}}
}

// Add puts a table behind those that wait. The stream must capture the table already.
func (l *Load) Add(p *Plan, signal string) error {
	return l.add(&Progress{Plan: p, Signal: signal})
}

func (l *Load) add(p *Progress) error {
	if len(l.tables) >= MaxTables {
		return fmt.Errorf("more than %d tables wait to be loaded", MaxTables)
	}
	p.limit = l.options.Rows
	l.tables = append(l.tables, p)
	return nil
}

// Tables are those that are not loaded yet, in their order.
func (l *Load) Tables() []*Progress { return l.tables }

// Waits says whether a table is not loaded yet.
func (l *Load) Waits(collection string) bool {
	return slices.ContainsFunc(l.tables, func(p *Progress) bool { return p.Plan.Table.Collection() == collection })
}

// Empty says whether all tables are loaded.
func (l *Load) Empty() bool { return len(l.tables) == 0 }

// Pause begins no new chunk until Resume; those that are read are still told.
func (l *Load) Pause() { l.paused = true }

// Resume goes on after Pause.
func (l *Load) Resume() { l.paused = false }

// Paused says whether the Load is paused.
func (l *Load) Paused() bool { return l.paused }

// Stop gives up the tables for which stop says true, and says how many they were. What was told of them stays.
func (l *Load) Stop(stop func(*Progress) bool) int {
	n := len(l.tables)
	l.tables = slices.DeleteFunc(l.tables, func(p *Progress) bool {
		if !stop(p) {
			return false
		}
		if t := l.active[p.Plan.Table.Collection()]; t != nil && t.Progress == p {
			t.Window.Abandon()
			t.stopped = true
			if t.done {
				l.release(t)
			}
		}
		return true
	})
	return n - len(l.tables)
}

// Replan gives a table another Plan: its columns changed. The chunk that is read is given up. If the new Plan reads by another key,
// the table begins anew, since its Cursor says nothing of that one's order.
func (l *Load) Replan(collection string, plan func(*Progress) *Plan) {
	if t := l.active[collection]; t != nil {
		t.Window.Abandon()
	}
	for _, p := range l.tables {
		if p.Plan.Table.Collection() != collection {
			continue
		}
		was := p.Plan
		if p.Plan = plan(p); was.key == nil || p.Plan.key == nil || was.key.signature() != p.Plan.key.signature() {
			p.After, p.UpTo, p.Bounded = nil, nil, false
		}
	}
}

// Next begins a chunk of the next table, if there is one of which none is read; here is where the stream stands, between two
// transactions, and must not be changed later.
func (l *Load) Next(here Point) *Task {
	if l.paused || len(l.active) >= l.options.Parallel || l.Held() {
		return nil
	}
	for _, p := range l.tables {
		collection := p.Plan.Table.Collection()
		if l.active[collection] != nil {
			continue
		}
		t := &Task{Progress: p, Plan: p.Plan, after: p.After, upTo: p.UpTo, bounded: p.Bounded, limit: p.limit, find: p.find, Window: l.window()}
		t.Window.open(len(p.Plan.Table.Columns), p.Plan.identity, here)
		t.Window.seek(p.find, p.sought)
		l.active[collection] = t
		return t
	}
	return nil
}

func (l *Load) window() *Window {
	if n := len(l.spare); n > 0 {
		w := l.spare[n-1]
		l.spare = l.spare[:n-1]
		return w
	}
	return &Window{}
}

// Window is that of a table of which a chunk is read, nil if there is none. It is another one after Next, Boundary and Told.
func (l *Load) Window(collection string) *Window {
	if t := l.active[collection]; t != nil && !t.Whole() {
		return t.Window
	}
	return nil
}

// Held says that the stream must not begin a transaction: a table without a key is read as a whole, and it is not known yet where.
func (l *Load) Held() bool {
	for _, t := range l.active {
		if t.Whole() && !t.done {
			return true
		}
	}
	return false
}

// Done takes a Task back that was read; err is that of reading. The chunk is read again by a later Next. An error that Done gives is
// not of the moment: the caller decides, by Stop or by ending.
func (l *Load) Done(t *Task, err error) error {
	t.done = true
	if t.stopped {
		l.release(t)
		return nil
	}
	if err == nil {
		if t.Whole() {
			t.Window.high, t.Window.loaded = t.low, true
		} else {
			err = t.Window.load(t.low, t.high)
			t.Window.found(t.found)
		}
	}
	if err != nil {
		l.release(t)
		if Again(err) {
			return nil
		}
	}
	return err
}

// Later gives a Task up whose table cannot be read now, and puts the table behind the others.
func (l *Load) Later(t *Task) {
	l.release(t)
	if i := slices.Index(l.tables, t.Progress); i >= 0 {
		l.tables = append(slices.Delete(l.tables, i, i+1), t.Progress)
	}
}

func (l *Load) release(t *Task) {
	if l.active[t.Plan.Table.Collection()] == t {
		delete(l.active, t.Plan.Table.Collection())
	}
	l.ready = slices.DeleteFunc(l.ready, func(o *Task) bool { return o == t })
	if t.Window != nil {
		l.spare = append(l.spare, t.Window)
		t.Window = nil
	}
}

// Boundary gives the chunks whose rows are to be told here, between two transactions. Each must be given to Told then. The place in
// the file is enough of the position: high marks are of files.
func (l *Load) Boundary(now Point) []*Task {
	l.ready = l.ready[:0]
	for _, t := range l.active {
		if !t.done || !t.Window.ready(now) {
			continue
		}
		if t.Window.lost {
			l.release(t)
			continue
		}
		l.ready = append(l.ready, t)
	}
	slices.SortFunc(l.ready, func(a, b *Task) int { // not as a map happens to be
		return slices.Index(l.tables, a.Progress) - slices.Index(l.tables, b.Progress)
	})
	return l.ready
}

// Told says that a chunk's rows were told, in the log transaction that the Load's token goes into. true: the table is loaded.
func (l *Load) Told(t *Task) bool {
	p := t.Progress
	p.Rows += uint64(t.rows) //nolint:gosec // a count
	p.After, p.UpTo, p.Bounded = t.last, t.upTo, true
	p.limit = nextRows(t.limit, t.read, t.bytes)
	end := t.end
	l.active[t.Plan.Table.Collection()] = nil
	delete(l.active, t.Plan.Table.Collection())
	if t.Window != nil {
		l.spare = append(l.spare, t.Window)
		t.Window = nil
	}
	if end {
		l.tables = slices.DeleteFunc(l.tables, func(o *Progress) bool { return o == p })
	}
	return end
}
