package connectors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Types of signals, by Debezium's names.
const (
	SignalExecute = "execute-snapshot"
	SignalStop    = "stop-snapshot"
	SignalPause   = "pause-snapshot"
	SignalResume  = "resume-snapshot"
	SignalLog     = "log"
)

// SignalTypes are those that connectors take.
func SignalTypes() []string {
	return []string{SignalExecute, SignalStop, SignalPause, SignalResume, SignalLog}
}

// MaxSignal bounds the data of a signal.
const MaxSignal = 1 << 20

// Signal asks a running connector for something beside its stream, as Debezium's signals do.
type Signal struct {
	ID   string          `json:"id,omitempty"`
	Type string          `json:"type"`
	Data json.RawMessage `json:"data,omitempty"`
	// Request tells the result of this signal from others of its ID.
	Request string `json:"request,omitempty"`
}

// Signaler is a Connector that takes signals while it runs.
type Signaler interface {
	// Signal returns once the signal is taken and that is in the log, or refused.
	Signal(ctx context.Context, s Signal) SignalResult
}

// Why a signal was not taken.
const (
	SignalMalformed    = "malformed"
	SignalUnknownTable = "unknown table"
	SignalUnavailable  = "unavailable"
	SignalFailed       = "failed" // later, at a table
)

// SignalResult is what became of a signal.
type SignalResult struct {
	ID      string   `json:"id,omitempty"`
	Type    string   `json:"type"`
	Tables  []string `json:"tables"` // that it is about
	Reason  string   `json:"reason,omitempty"`
	Error   string   `json:"error,omitempty"`
	Request string   `json:"request,omitempty"`
}

// Result begins the result of a signal.
func (s *Signal) Result() SignalResult {
	return SignalResult{ID: s.ID, Type: s.Type, Tables: []string{}, Request: s.Request}
}

// Refuse says why a signal was not taken.
func (r SignalResult) Refuse(reason string, err error) SignalResult {
	r.Reason, r.Error = reason, err.Error()
	return r
}

// SnapshotRequest is what the data of a signal asks for.
type SnapshotRequest struct {
	Tables   []*regexp.Regexp // anchored; of stop-snapshot none is all
	Filters  []TableCondition
	Truncate bool   // begin with a truncate of the topic
	Message  string // of log
}

// TableCondition is one of additional-conditions.
type TableCondition struct {
	Tables *regexp.Regexp
	Filter string
}

// Matches tells whether a table is among those that are asked for.
func (r *SnapshotRequest) Matches(table string) bool {
	if len(r.Tables) == 0 {
		return true
	}
	return matchAny(r.Tables, table)
}

// Filter is the condition that a table's rows must meet, "" if there is none.
func (r *SnapshotRequest) Filter(table string) string {
	for _, c := range r.Filters {
		if c.Tables.MatchString(table) {
			return c.Filter
		}
	}
	return ""
}

// signalData is the data of every type; which of it a type has, request checks.
type signalData struct {
	Collections []string `json:"data-collections"`
	Type        string   `json:"type"`
	Conditions  []struct {
		Collection string `json:"data-collection"`
		Filter     string `json:"filter"`
	} `json:"additional-conditions"`
	Condition string `json:"additional-condition"` // the former form, of all tables
	Surrogate string `json:"surrogate-key"`
	Truncate  bool   `json:"truncate"`
	Message   string `json:"message"`
}

// Parse reads a signal. Its error names what is wrong, and what to write instead.
func (s *Signal) Parse() (*SnapshotRequest, error) {
	switch s.Type {
	case SignalExecute, SignalStop, SignalPause, SignalResume, SignalLog:
	case "schema-changes":
		return nil, errors.New("type schema-changes is not supported: the connector follows the source's own statements")
	case "snapshot-window-open", "snapshot-window-close":
		return nil, fmt.Errorf("type %s is not supported: chunks are read between positions, and need no marks in the table", s.Type)
	default:
		return nil, fmt.Errorf("type %q is not one of %s", s.Type, strings.Join(SignalTypes(), ", "))
	}
	if len(s.Data) > MaxSignal {
		return nil, fmt.Errorf("data has %d bytes, and may have %d", len(s.Data), MaxSignal)
	}
	var d signalData
	if len(bytes.TrimSpace(s.Data)) > 0 {
		in := json.NewDecoder(bytes.NewReader(s.Data))
		in.DisallowUnknownFields() // a misspelt filter must not load all rows
		err := in.Decode(&d)
		if err == nil && in.Decode(&struct{}{}) != io.EOF {
			err = errors.New("something follows it")
		}
		if err != nil {
			return nil, fmt.Errorf("data of %s is not as expected: %w", s.Type, err)
		}
	}
	return d.request(s.Type)
}

func (d *signalData) request(typ string) (*SnapshotRequest, error) {
	switch t := strings.ToLower(d.Type); {
	case t == "blocking":
		return nil, errors.New("a blocking snapshot is not supported: tables are loaded beside the stream, which does not wait; use type incremental")
	case t != "" && t != "incremental":
		return nil, fmt.Errorf("snapshots of type %q are not supported; use incremental", d.Type)
	case d.Surrogate != "":
		return nil, errors.New("surrogate-key is not supported: a table is read along its primary key, or a unique key without NULL, whichever there is; leave it out")
	case typ == SignalExecute && len(d.Collections) == 0:
		return nil, errors.New(`data-collections is empty: name tables, as in {"data-collections": ["db.orders", "db.c.*"]}`)
	case typ != SignalExecute && (d.Truncate || d.Condition != "" || len(d.Conditions) > 0):
		return nil, fmt.Errorf("%s takes no truncate and no conditions", typ)
	case (typ == SignalPause || typ == SignalResume) && len(d.Collections) > 0:
		return nil, fmt.Errorf("%s is of all tables that are being loaded: leave data-collections out", typ)
	}
	r := &SnapshotRequest{Truncate: d.Truncate, Message: d.Message}
	for _, c := range d.Collections {
		re, err := tablePattern(c)
		if err != nil {
			return nil, err
		}
		r.Tables = append(r.Tables, re)
	}
	for _, c := range d.Conditions {
		re, err := tablePattern(c.Collection)
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(c.Filter) == "" {
			return nil, fmt.Errorf("the condition of %s has no filter", c.Collection)
		}
		r.Filters = append(r.Filters, TableCondition{re, c.Filter})
	}
	if d.Condition != "" {
		if len(d.Conditions) > 0 {
			return nil, errors.New("additional-condition is the former name of additional-conditions: use one of them")
		}
		r.Filters = append(r.Filters, TableCondition{regexp.MustCompile(""), d.Condition})
	}
	return r, nil
}

// tablePattern reads one name of a table, which is an expression.
func tablePattern(s string) (*regexp.Regexp, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, errors.New("the name of a table is empty")
	}
	re, err := regexp.Compile(`(?i)^(?:` + s + `)$`)
	if err != nil {
		return nil, fmt.Errorf("%q is not a regular expression that Rowtrail supports (RE2): %w", s, err)
	}
	return re, nil
}

// SignalTable is signal.data.collection, and what goes with it.
func (p *Properties) SignalTable() string {
	const cli = "use the table of signal.data.collection, or `rowtrail connectors signal`"
	p.Only("signal.enabled.channels", cli, "source")
	return p.Text("signal.data.collection", "")
}
