package connectors

import (
	"errors"
	"fmt"
)

// Fault is an error that does not heal by itself: a person has to do what Remedy says.
type Fault struct {
	Problem string // what is wrong and where
	Remedy  string // the exact SQL or setting that mends it
	Err     error  // the cause, may be nil
}

func (f *Fault) Error() string {
	s := f.Problem
	if f.Err != nil {
		s = fmt.Sprintf("%s: %v", s, f.Err)
	}
	if f.Remedy != "" {
		s += "; to mend it: " + f.Remedy
	}
	return s
}

func (f *Fault) Unwrap() error { return f.Err }

// IsFault tells whether err needs a person.
func IsFault(err error) bool {
	var f *Fault
	return errors.As(err, &f)
}

// PropertyError is a configuration error that belongs to one property.
type PropertyError struct {
	Property string
	Err      error
}

func (e *PropertyError) Error() string { return fmt.Sprintf("property %s: %v", e.Property, e.Err) }
func (e *PropertyError) Unwrap() error { return e.Err }

// Levels of a Finding.
const (
	LevelError   = "error"
	LevelWarning = "warning"
)

// Finding is one result of checking a source.
type Finding struct {
	Level   string `json:"level"`   // error or warning
	Subject string `json:"subject"` // what was looked at: a table, a setting, a slot
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"` // exact SQL or setting

	Keyless string `json:"-"` // the topic of the table that was looked at, when its events have no key: sinks stop at it
}
