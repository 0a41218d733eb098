package park

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/raw"
)

// segmentBytes is when a segment ends, at the end of a source transaction. The stream stands still while one is written.
const segmentBytes = 4 << 20

// Kind is what a kept record is. It is its first byte.
type Kind byte

// Kinds of kept records. Each change stands behind a transaction and a context.
const (
	KindTransaction Kind = 'b' // what events say of the source transaction
	KindContext     Kind = 'x' // what a table's changes are decoded by
	KindChange      Kind = 'c'
)

// Context is what some changes of a table are decoded by: it is kept once in each segment.
type Context struct {
	Raw     []byte
	segment uint64 // that has it
	tables  *Parking
}

// Parking is which tables are parked, as the stream stands. It belongs to the stream's goroutine.
type Parking struct {
	isolation *Isolation
	store     *raw.Store
	tables    map[string]*table
	open      map[string]*segment // of this run
	marked    *Tables             // of tables; nil: they changed since
	changed   bool                // not in the log since the run began
	buf       []byte
}

// segment is the one that a table's changes are added to.
type segment struct {
	number uint64
	bytes  int
	within bool // the open source transaction is in it
}

// id names a segment in the raw store.
func (t *table) id(collection string, segment uint64) raw.ID {
	return raw.ID{Kind: raw.Table, Name: fmt.Sprintf("%d:%d:%s", t.ID, segment, collection)}
}

// Begin is for one run: it goes on with what the resume point has (Restore), without tables that are not captured any more, and parks
// those whose faults ended the run before. owed tells whether a table is not loaded yet, though it should be. open gives the raw store,
// which is only needed for parked tables.
func (i *Isolation) Begin(captured, owed func(collection string) bool, open func() (*raw.Store, error)) (*Parking, error) {
	p := &Parking{isolation: i, tables: map[string]*table{}, open: map[string]*segment{}}
	i.mu.Lock()
	faults := maps.Clone(i.fault)
	if i.state != nil {
		for name, t := range i.state.tables {
			p.tables[name] = &t
		}
	}
	i.mu.Unlock()
	if len(p.tables) == 0 && len(faults) == 0 {
		return p, nil
	}
	for name, t := range p.tables {
		if !captured(name) { // Start drops what waits
			delete(p.tables, name)
			p.changed = true
			i.log.Error("a parked table is captured no longer, as the configuration says: what waited of it is lost", "table", name, "changes", t.Changes, "bytes", t.Bytes)
		}
	}
	for name, f := range faults {
		t := p.tables[name]
		if t == nil {
			t = &table{ID: time.Now().UnixMicro(), Load: owed(name)}
			p.tables[name] = t
		}
		t.Unpark, t.Reason, t.Remedy = false, f.Reason(), f.Remedy
		p.changed = true
	}
	var err error
	p.store, err = open()
	return p, err
}

// Has tells whether a table is parked.
func (p *Parking) Has(collection string) bool { return p.tables[collection] != nil }

// Names are the parked tables.
func (p *Parking) Names() []string { return slices.Sorted(maps.Keys(p.tables)) }

// Marked is the state for a mark.
func (p *Parking) Marked() *Tables {
	if len(p.tables) == 0 {
		return nil
	}
	if p.marked == nil {
		p.marked = &Tables{tables: make(map[string]table, len(p.tables))}
		for name, t := range p.tables {
			p.marked.tables[name] = *t
		}
	}
	return p.marked
}

// Owes tells whether a parked table is to be loaded, so that nothing of it is kept that the load will have.
func (p *Parking) Owes(collection string) bool { return p.tables[collection].Load }

// Touched tells whether the open source transaction has kept changes.
func (p *Parking) Touched() bool {
	for _, s := range p.open {
		if s.within {
			return true
		}
	}
	return false
}

// Owe notes that a parked table has to be loaded, after what waits of it.
func (p *Parking) Owe(collection string) {
	if t := p.tables[collection]; !t.Load {
		t.Load, p.marked = true, nil
	}
}

// Keep keeps a change of a parked table in the open source transaction, which transaction describes. Without a context it needs none.
func (p *Parking) Keep(ctx context.Context, e *connectors.Emitter, collection string, transaction func([]byte) []byte, c *Context, change func([]byte) []byte) error {
	t, s := p.tables[collection], p.open[collection]
	if s == nil || s.bytes >= segmentBytes && !s.within {
		s = &segment{number: t.Next}
		if err := p.store.Begin(ctx, e, t.id(collection, s.number)); err != nil {
			return err
		}
		p.open[collection] = s
		t.Next++
	}
	if !s.within {
		s.within = true
		if err := p.append(ctx, e, collection, KindTransaction, transaction); err != nil {
			return err
		}
	}
	if c != nil && (c.tables != p || c.segment != s.number) {
		c.tables, c.segment = p, s.number
		if err := p.append(ctx, e, collection, KindContext, func(dst []byte) []byte { return append(dst, c.Raw...) }); err != nil {
			return err
		}
	}
	t.Changes++
	return p.append(ctx, e, collection, KindChange, change)
}

func (p *Parking) append(ctx context.Context, e *connectors.Emitter, collection string, kind Kind, what func([]byte) []byte) error {
	p.buf = what(append(p.buf[:0], byte(kind)))
	t, s := p.tables[collection], p.open[collection]
	s.bytes += len(p.buf)
	t.Bytes += int64(len(p.buf))
	p.marked = nil
	err := p.store.Append(ctx, e, t.id(collection, s.number), p.buf)
	if cap(p.buf) > segmentBytes {
		p.buf = nil
	}
	return err
}

// End ends the open source transaction.
func (p *Parking) End(ctx context.Context, e *connectors.Emitter) error {
	if p.store == nil {
		return nil
	}
	for _, s := range p.open {
		s.within = false
	}
	return p.store.End(ctx, e)
}
