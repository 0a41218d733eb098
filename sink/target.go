package sink

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// ErrFenced tells that another instance of this sink has taken over (invariant 4).
var ErrFenced = errors.New("fenced by a newer instance of this sink")

// Target is where a sink writes. It must be transactional.
type Target interface {
	// Ping tells whether the target can be reached now. The sink joins its group only then.
	Ping(ctx context.Context) error
	// Open fences the session before (invariant 4) and reads the offsets that the target has.
	Open(ctx context.Context) (Session, error)
}

// Session is one task's connection to the target, from assignment to the first error.
type Session interface {
	// Offsets are the offsets of the target when the session was opened.
	Offsets() []Offset
	// Apply adds an event to the open target transaction, beginning one if there is none. It must not keep the event.
	Apply(ctx context.Context, ev *Event) error
	// Commit ends the target transaction with the offsets in it. It fails with ErrFenced when a newer session exists.
	Commit(ctx context.Context, offsets []Offset) error
	// SetCareful makes Apply return only when the event was applied, so that an error belongs to that event.
	SetCareful(on bool)
	Close()
}

// Offset is how far a partition has been applied.
type Offset struct {
	Topic     string
	Partition int32
	Next      int64  // offset of the first record that is not applied
	Position  uint64 // commit position of the last source transaction applied when it was written
	Behind    bool   // the topic joined the sink late and has not reached the others
	Log       string // which log it is an offset of; "" when that was not known
}

// Event is one record to apply.
type Event struct {
	Topic     string
	Partition int32
	Offset    int64
	Position  event.Position
	Schema    *event.Schema // nil: no position header; Key and Value are then all there is
	Key       event.Row     // key columns only; nil when the record has no key
	Change    event.Change
	NewKey    event.Row // delete: the row goes on under this key, and its create is the next event of the transaction
	OldKey    event.Row // create: the row was under this key; columns that are absent are as they were there
	RawKey    []byte
	RawValue  []byte // nil: tombstone (only without a position header)
}

// permanentError marks what trying again does not mend.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks err as one that trying again does not mend: the record at hand is then poison.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent tells whether an error was marked by Permanent.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// recordError is a permanent error with its place in the log.
type recordError struct {
	poison Poison
	err    error
}

func (e *recordError) Error() string {
	return fmt.Sprintf("apply record at topic %s partition %d offset %d: %v", e.poison.Topic, e.poison.Partition, e.poison.Offset, e.err)
}

func (e *recordError) Unwrap() error { return e.err }

// AtRecord marks err as one that trying again does not mend, of a record that is not the one at hand.
func AtRecord(topic string, partition int32, offset int64, err error) error {
	return recordErr(topic, partition, offset, err)
}

func recordErr(topic string, partition int32, offset int64, err error) error {
	return &recordError{Poison{topic, partition, offset, err.Error()}, Permanent(err)}
}
