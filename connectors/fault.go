package connectors

import (
	"errors"
	"fmt"
	"strings"
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

// Passing is a failure that may heal by itself: it is tried again. Its remedy is for where it does not.
type Passing struct {
	Problem string // one cause, once
	Remedy  string
	Err     error
}

func (p *Passing) Error() string { return p.Problem + "; to mend it: " + p.Remedy }
func (p *Passing) Unwrap() error { return p.Err }

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

// FindingOf is an error as a finding.
func FindingOf(subject string, err error) Finding {
	f := Finding{Level: LevelError, Subject: subject, Problem: err.Error(), Remedy: "look into the server's log"}
	var fault *Fault
	var passing *Passing
	switch {
	case errors.As(err, &fault):
		f.Problem, f.Remedy = fault.Problem, fault.Remedy
		if fault.Err != nil {
			f.Problem = fmt.Sprintf("%s: %v", fault.Problem, fault.Err)
		}
	case errors.As(err, &passing):
		f.Problem, f.Remedy = passing.Problem, passing.Remedy
	}
	return f
}

// Refuse turns the errors among findings into one Fault.
func Refuse(list []Finding) error {
	var problems, remedies []string
	for _, f := range list {
		if f.Level == LevelError {
			problems = append(problems, f.Subject+": "+f.Problem)
			remedies = append(remedies, f.Remedy)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &Fault{Problem: "the source cannot be captured: " + strings.Join(problems, "; "), Remedy: strings.Join(remedies, "; ")}
}
