package binlog

import (
	"errors"
	"fmt"
)

// What an EventError wraps.
var (
	// ErrMalformed tells of bytes that no server writes: the connection or the binlog is damaged.
	ErrMalformed = errors.New("malformed")
	// ErrTruncated is ErrMalformed where bytes are missing.
	ErrTruncated = fmt.Errorf("%w: bytes are missing", ErrMalformed)
	// ErrChecksum tells of an event whose CRC32 does not fit.
	ErrChecksum = errors.New("checksum does not match: the binlog is damaged, or the network changed it")
	// ErrIncident tells that the server itself lost changes. What follows cannot be trusted without a new load.
	ErrIncident = errors.New("the server recorded an incident: changes are missing from its binlog; the tables must be loaded anew")
	// ErrUnsupported tells of something that is valid and cannot be decoded.
	ErrUnsupported = errors.New("not supported")
	// ErrTooLarge tells of an event or value above its bound.
	ErrTooLarge = errors.New("too large")
	// ErrNoTable tells of rows whose table map was not seen: reading began in the middle of a transaction.
	ErrNoTable = errors.New("rows without their table map: reading must begin where a transaction begins")
)

// EventError is an event that cannot be decoded. Capture must stop at it: what follows is not known.
type EventError struct {
	Type Type
	Pos  uint64 // of the event's end, 0 if it is not known
	Err  error
}

func (e *EventError) Error() string {
	return fmt.Sprintf("binlog event %s that ends at %d: %v", e.Type, e.Pos, e.Err)
}

func (e *EventError) Unwrap() error { return e.Err }

// ColumnError is a column that cannot be decoded. Other tables are not concerned.
type ColumnError struct {
	Table  string // schema.table
	Column int    // 1-based place in the table
	Name   string // "" if the binlog does not tell
	Err    error
}

func (e *ColumnError) Error() string {
	if e.Name != "" {
		return fmt.Sprintf("table %s, column %s: %v", e.Table, e.Name, e.Err)
	}
	return fmt.Sprintf("table %s, column %d: %v", e.Table, e.Column, e.Err)
}

func (e *ColumnError) Unwrap() error { return e.Err }

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUnsupported}, args...)...)
}
