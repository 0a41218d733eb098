package park

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/raw"
)

// Source is what unparking needs of a source's stream, between two source transactions.
type Source interface {
	// Place is where a transaction of our own stands: behind what was written, before what the source commits next. room is how many
	// more there can be until the source goes on.
	Place() (at event.Position, room uint64)
	// Rewrite decodes a record that was kept and writes its events, as those of the transaction that is open.
	Rewrite(ctx context.Context, collection string, kind Kind, record []byte) error
	// Mark makes what was written a part of the position: with own a transaction of our own, at its Place, else what is parked alone,
	// which then is committed at once.
	Mark(ctx context.Context, own bool) error
	// Live has changes of a table that is parked no longer written at once, from here on. With load it is loaded anew instead: then, or in
	// a run that follows once this one has ended with after.
	Live(ctx context.Context, collection string, load bool) (after, err error)
	// Loads tells whether tables are loaded at all.
	Loads() bool
}

// Start has the stream woken for what is asked, until Close, and puts into the log what the run parked or forgot as it began.
func (p *Parking) Start(ctx context.Context, e *connectors.Emitter, src Source, wake func()) error {
	p.isolation.stream(wake, src.Loads())
	if p.store != nil {
		if err := p.forget(ctx, e); err != nil {
			return err
		}
	}
	if !p.changed {
		return nil
	}
	p.changed = false
	return src.Mark(ctx, false)
}

// Close ends what Start began.
func (p *Parking) Close() { p.isolation.quiet() }

// forget drops segments of tables that are not parked: a former life of the connector left them, or the configuration.
func (p *Parking) forget(ctx context.Context, e *connectors.Emitter) error {
	known := map[raw.ID]bool{}
	for name, t := range p.tables {
		for n := t.First; n < t.Next; n++ {
			known[t.id(name, n)] = true
		}
	}
	var stale []raw.ID
	for h := range p.store.All() {
		if h.ID.Kind == raw.Table && !known[h.ID] {
			stale = append(stale, h.ID)
		}
	}
	for _, s := range stale {
		p.changed = true
		if err := p.store.Drop(ctx, e, s); err != nil {
			return err
		}
	}
	return nil
}

// Boundary does what is to be done between two source transactions: what was asked, and some of a table that is unparked.
func (p *Parking) Boundary(ctx context.Context, e *connectors.Emitter, src Source) error {
	if len(p.tables) == 0 {
		return nil
	}
	for _, u := range p.isolation.take() {
		if err := p.ask(ctx, e, src, u); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.tables)) {
		if p.tables[name].Unpark {
			return p.write(ctx, e, src, name)
		}
	}
	return nil
}

func (p *Parking) ask(ctx context.Context, e *connectors.Emitter, src Source, u connectors.Unpark) error {
	t := p.tables[u.Table]
	log := p.isolation.log.With("table", u.Table)
	switch {
	case t == nil: // asked twice
		return nil
	case u.How == connectors.UnparkWrite:
		log.Info("unparking: what waits is written", "changes", t.Changes, "bytes", t.Bytes)
		t.Unpark, p.marked = true, nil
		p.isolation.tried(u.Table)
		return src.Mark(ctx, false)
	case u.How == connectors.UnparkReload:
		log.Warn("unparking: what waits is forgotten, and the table is loaded again", "changes", t.Changes, "bytes", t.Bytes)
		return p.remove(ctx, e, src, u.Table, true)
	}
	log.Error("unparking: what waits IS LOST, as was asked for (discard): the topic, state and targets lack it", "changes", t.Changes, "bytes", t.Bytes)
	return p.remove(ctx, e, src, u.Table, t.Load && src.Loads())
}

// write writes the first of what waits, as one transaction of our own. Where there is little room for such, it takes more at once.
func (p *Parking) write(ctx context.Context, e *connectors.Emitter, src Source, name string) error {
	t := p.tables[name]
	if t.First == t.Next {
		return p.finish(ctx, e, src, name)
	}
	at, room := src.Place()
	if room == 0 {
		return nil // the source goes on before long, and with it the stream
	}
	count := (t.Next - t.First + room - 1) / room
	e.Begin(at)
	e.ID = fmt.Appendf(e.ID, "unparked:%s:%d:%d", name, t.ID, t.First)
	for range count {
		if err := p.segment(ctx, e, src, name, t); err != nil {
			return err
		}
	}
	p.marked = nil
	if _, err := e.End(ctx); err != nil {
		return err
	}
	if err := src.Mark(ctx, true); err != nil {
		return err
	}
	if t.First == t.Next { // nothing can come in between
		return p.finish(ctx, e, src, name)
	}
	p.isolation.poke()
	return nil
}

func (p *Parking) finish(ctx context.Context, e *connectors.Emitter, src Source, name string) error {
	p.isolation.log.Info("table is unparked", "table", name)
	return p.remove(ctx, e, src, name, p.tables[name].Load && src.Loads())
}

// segment writes the first segment and drops it.
func (p *Parking) segment(ctx context.Context, e *connectors.Emitter, src Source, name string, t *table) error {
	first := t.id(name, t.First)
	err := p.store.Read(ctx, first, func(record []byte) error {
		if len(record) == 0 {
			return raw.ErrPiece
		}
		t.Bytes -= int64(len(record))
		if Kind(record[0]) == KindChange {
			t.Changes--
		}
		return src.Rewrite(ctx, name, Kind(record[0]), record[1:])
	})
	if errors.Is(err, raw.ErrMissing) || errors.Is(err, raw.ErrPiece) {
		return &connectors.Fault{
			Problem: "what waits of table " + name + " cannot be read back", Err: err, Collection: name,
			Remedy: "load the table again: `rowtrail connectors unpark " + p.isolation.name + " " + name + " --reload`",
		}
	}
	if err == nil {
		err = p.store.Drop(ctx, e, first)
	}
	if s := p.open[name]; s != nil && s.number == t.First {
		delete(p.open, name)
	}
	t.First++
	return err
}

// remove ends a parking, and drops what is left of what waited.
func (p *Parking) remove(ctx context.Context, e *connectors.Emitter, src Source, name string, load bool) error {
	t := p.tables[name]
	for n := t.First; n < t.Next; n++ {
		if err := p.store.Drop(ctx, e, t.id(name, n)); err != nil {
			return err
		}
	}
	delete(p.tables, name)
	delete(p.open, name)
	p.marked = nil
	after, err := src.Live(ctx, name, load)
	if err != nil {
		return err
	}
	if err := src.Mark(ctx, false); err != nil || after == nil {
		return err
	}
	if err := e.Send(ctx); err != nil {
		return err
	}
	if err := e.Writer.Drain(ctx); err != nil {
		return err
	}
	return after
}
