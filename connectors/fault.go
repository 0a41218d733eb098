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

	// Collection is the one table, as schema.table, that the fault is about: the others can go on without it. "": the source, its
	// stream or the log as a whole.
	Collection string
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

// Reason is the Fault without its remedy.
func (f *Fault) Reason() string {
	bare := Fault{Problem: f.Problem, Err: f.Err}
	return bare.Error()
}

// IsFault tells whether err needs a person.
func IsFault(err error) bool {
	var f *Fault
	return errors.As(err, &f)
}

// TableFault is the Fault of one table in err; nil if there is none.
func TableFault(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) && f.Collection != "" {
		return f
	}
	return nil
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

// subjectTable begins the subject of what is found about one table.
const subjectTable = "table "

// SubjectOf is the subject of what is found about one table.
func SubjectOf(collection string) string { return subjectTable + collection }

// Collection is the table that the finding is about; "": the source as a whole.
func (f *Finding) Collection() string {
	name, ok := strings.CutPrefix(f.Subject, subjectTable)
	if !ok {
		return ""
	}
	return name
}

// Fault is an error that was found about one table.
func (f *Finding) Fault() *Fault {
	return &Fault{Problem: f.Subject + ": " + f.Problem, Remedy: f.Remedy, Collection: f.Collection()}
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

// Sort parts the errors among findings: those about the source as a whole, and those about single tables. Warnings go to warn.
func Sort(list []Finding, warn func(Finding)) (whole, tables []Finding) {
	for _, f := range list {
		switch {
		case f.Level != LevelError:
			warn(f)
		case f.Collection() == "":
			whole = append(whole, f)
		default:
			tables = append(tables, f)
		}
	}
	return whole, tables
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
