package window

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// Database is what an Intake writes to: one session, one target transaction at a time.
type Database[B Binding] interface {
	// Bind ties a version of a source table to its target table, and creates what is missing. Nothing waits when it is called.
	Bind(ctx context.Context, schema *event.Schema, topic string, foreign bool) (B, error)
	// Check looks at a row before it is gathered; nil: the event has none.
	Check(ctx context.Context, b B, row event.Row) error
	// Write writes the window.
	Write(ctx context.Context) error
	// Truncate empties tables that the source emptied one after another, or together.
	Truncate(ctx context.Context, tables []B) error
	// HoldsRows tells whether a target table has any.
	HoldsRows(ctx context.Context, b B) (bool, error)
}

// Intake takes a session's events into its window, and has the window written when it is full or when what comes must not be gathered
// with what waits.
type Intake[B Binding] struct {
	Window[B]
	Careful   bool // every event is written by itself
	Truncates bool // the target's tables may be emptied

	db       Database[B]
	bindings map[*event.Schema]B
	current  map[fmt.Stringer]B // of each target table: the version that is in the window
	last     B                  // of the event before
	foreign  sink.Foreign
	truncate []B      // truncates that follow one another
	leaving  struct { // a delete that is half of a key change, waiting for the create
		b    B
		key  event.Row
		here bool
	}
}

// NewIntake makes the intake of a session.
func NewIntake[B Binding](db Database[B], truncates bool) *Intake[B] {
	return &Intake[B]{Truncates: truncates, db: db, bindings: make(map[*event.Schema]B), current: make(map[fmt.Stringer]B)}
}

// Apply takes an event.
func (in *Intake[B]) Apply(ctx context.Context, ev *sink.Event) error {
	if err := in.add(ctx, ev); err != nil {
		return err
	}
	if in.Careful || in.Full() {
		return in.Flush(ctx)
	}
	return nil
}

// Settle writes all that waits: the target transaction is about to end.
func (in *Intake[B]) Settle(ctx context.Context) error {
	if l := in.leave(); l.here {
		if err := in.Delete(l.b, l.key); err != nil {
			return err
		}
	}
	return in.Flush(ctx)
}

// Flush writes what is gathered; truncates are before the window's operations. A delete that waits for its create goes on waiting.
func (in *Intake[B]) Flush(ctx context.Context) error {
	if len(in.truncate) > 0 {
		tables := in.truncate
		in.truncate = nil
		if err := in.db.Truncate(ctx, tables); err != nil {
			return err
		}
	}
	if in.Empty() {
		return nil
	}
	defer in.Reset()
	return in.db.Write(ctx)
}

// Forget drops what was bound to a target table as it was.
func (in *Intake[B]) Forget(table fmt.Stringer) {
	maps.DeleteFunc(in.bindings, func(_ *event.Schema, b B) bool { return b.Shape().Table == table })
	delete(in.current, table)
}

func (in *Intake[B]) add(ctx context.Context, ev *sink.Event) error {
	schema, change, key := ev.Schema, &ev.Change, ev.Key
	if schema == nil {
		made, row, madeKey, err := in.foreign.Read(ev)
		if err != nil || made == nil {
			return err
		}
		schema, change, key = made, &row, madeKey
	}
	b, err := in.bind(ctx, schema, ev)
	if err != nil {
		return err
	}
	// moves: the row lacks columns that only the row under the old key has (invariant 6). Else a waiting delete is one.
	moves := ev.OldKey != nil && change.After != nil && !b.Shape().Whole(change.After)
	if l := in.leave(); l.here && (l.b != b || change.Op != event.OpCreate || !moves) {
		if err := in.Delete(l.b, l.key); err != nil {
			return err
		}
	}
	in.At = Place{Topic: ev.Topic, Partition: ev.Partition, Offset: ev.Offset}
	if in.last != b {
		if table := b.Shape().Table; in.current[table] != b { // operations of another version must not be folded into the ones before
			if err := in.Flush(ctx); err != nil {
				return err
			}
			in.current[table] = b
		}
		in.last = b
	}
	if change.Op == event.OpTruncate {
		return in.addTruncate(ctx, b)
	}
	switch change.Op {
	case event.OpCreate, event.OpRead, event.OpUpdate:
		if err := in.db.Check(ctx, b, change.After); err != nil {
			return err
		}
		if moves {
			return in.move(ctx, b, change.After, key, ev.OldKey)
		}
		return in.Upsert(b, change.After, key, change.Op != event.OpUpdate)
	case event.OpDelete:
		if ev.NewKey != nil {
			in.leaving.b, in.leaving.key, in.leaving.here = b, key.Clone(), true
			return nil
		}
		return in.Delete(b, key)
	}
	return sink.Permanent(fmt.Errorf("operation %q is not one that a table can take", string(rune(change.Op))))
}

func (in *Intake[B]) bind(ctx context.Context, schema *event.Schema, ev *sink.Event) (B, error) {
	b, known := in.bindings[schema]
	if known {
		return b, nil
	}
	if len(schema.KeyColumns()) == 0 {
		return b, sink.Permanent(fmt.Errorf("table %s has no key, so its rows cannot be told apart in the target: add a primary key at the source "+
			"(or a unique index and message.key.columns), or leave its topic out with a leading ! in the sink's topics, as \"!*.%s\"",
			schema.Collection(), schema.Collection()))
	}
	if err := in.Flush(ctx); err != nil {
		return b, err
	}
	b, err := in.db.Bind(ctx, schema, ev.Topic, ev.Schema == nil)
	if err == nil {
		in.bindings[schema] = b
	}
	return b, err
}

// leave takes the delete that waits.
func (in *Intake[B]) leave() (l struct {
	b    B
	key  event.Row
	here bool
}) {
	l, in.leaving = in.leaving, l
	return l
}

// move changes a row's key and keeps the columns that the source did not send.
func (in *Intake[B]) move(ctx context.Context, b B, row, key, oldKey event.Row) error {
	if err := in.Flush(ctx); err != nil {
		return err
	}
	if err := in.Move(b, row, key, oldKey); err != nil {
		return err
	}
	return in.Flush(ctx)
}

// addTruncate collects truncates that follow one another: tables that refer to each other can only be emptied together.
func (in *Intake[B]) addTruncate(ctx context.Context, b B) error {
	if !in.Truncates {
		if err := in.Flush(ctx); err != nil {
			return err
		}
		holds, err := in.db.HoldsRows(ctx, b)
		if err != nil {
			return fmt.Errorf("look for rows of %s: %w", b.Shape().Table, err)
		}
		if !holds {
			return nil
		}
		return sink.Permanent(fmt.Errorf("the source truncated the table, or it is loaded again, and truncate.enabled is false; empty %s by hand or enable it", b.Shape().Table))
	}
	if !in.Empty() || slices.ContainsFunc(in.truncate, func(t B) bool { return t.Shape().Table == b.Shape().Table }) {
		if err := in.Flush(ctx); err != nil {
			return err
		}
	}
	in.truncate = append(in.truncate, b)
	return nil
}

// AbsentRow is the error of rows that lack columns and are not in a table.
func AbsentRow(table fmt.Stringer, missing, of int64) error {
	return sink.Permanent(fmt.Errorf("update with columns that the source did not send: %d of %d rows are not in table %s, and a row cannot "+
		"be made without those columns (invariant: absent is not NULL); load the table again", missing, of, table))
}
