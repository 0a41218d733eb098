package connectors

import (
	"sync"
	"time"
)

// States of a connector.
const (
	StateStarting  = "starting"
	StateLoading   = "loading"
	StateStreaming = "streaming"
	StateComplete  = "complete" // there is nothing more to do (snapshot.mode initial_only)
	StateRetrying  = "retrying"
	StateFailed    = "failed"
	StateStopped   = "stopped"
)

// Status is what one connector says about itself.
type Status struct {
	Name         string        `json:"name"`
	Type         string        `json:"type"`
	Prefix       string        `json:"prefix,omitempty"` // of its topics; "": not known yet
	Node         int32         `json:"node,omitempty"`   // that runs it, as who runs connectors knows; 0: none
	Here         bool          `json:"here"`             // that is the node that says so
	State        string        `json:"state"`
	Error        string        `json:"error,omitempty"`
	Position     string        `json:"position"`     // as the source writes it
	Events       uint64        `json:"events"`       // committed in the log since the start of the process
	Transactions uint64        `json:"transactions"` // source transactions, likewise
	Bytes        uint64        `json:"bytes"`        // key and value bytes, likewise
	LagBytes     int64         `json:"lagBytes"`     // source log not yet in our log
	LagEvents    int64         `json:"lagEvents"`    // read but not yet committed
	LagSeconds   float64       `json:"lagSeconds"`   // age of the oldest transaction that is read but not committed
	Load         *LoadStatus   `json:"load,omitempty"`
	Signal       *SignalResult `json:"signal,omitempty"`   // the last one
	Warnings     []string      `json:"warnings,omitempty"` // what needs a person, while the rest goes on

	Parked []ParkedStatus `json:"parked,omitempty"` // tables that need a person, while the others go on
	Since  time.Time      `json:"since"`            // of the state
}

// LoadStatus is the progress of the tables that are being loaded.
type LoadStatus struct {
	Tables        int    `json:"tables"`
	TablesDone    int    `json:"tablesDone"`
	Rows          int64  `json:"rows"`
	RowsEstimated int64  `json:"rowsEstimated"`
	Current       string `json:"current"`
	Signal        string `json:"signal,omitempty"` // that asked for the current table
	Paused        bool   `json:"paused,omitempty"`
}

// Tracker keeps a Status up to date; it is safe for concurrent use.
type Tracker struct {
	mu sync.Mutex
	s  Status
}

// NewTracker starts in StateStarting.
func NewTracker(name, kind, prefix string) *Tracker {
	return &Tracker{s: Status{Name: name, Type: kind, Prefix: prefix, State: StateStarting, Since: time.Now()}}
}

// SetState changes the state; err is nil when the state is a good one.
func (t *Tracker) SetState(state string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.s.State != state {
		t.s.Since = time.Now()
	}
	t.s.State, t.s.Error = state, ""
	if err != nil {
		t.s.Error = err.Error()
	}
	if state == StateStreaming {
		t.s.Load = nil
	}
}

// Update changes the status under the tracker's lock.
func (t *Tracker) Update(fn func(*Status)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fn(&t.s)
}

// Status is a copy.
func (t *Tracker) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.s
	if s.Load != nil {
		l := *s.Load
		s.Load = &l
	}
	return s
}
