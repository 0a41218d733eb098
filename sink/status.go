package sink

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// States of a sink.
const (
	StateStarting  = "starting"  // connecting, waiting for topics or for its turn in the group
	StateStreaming = "streaming" // applying
	StateRetrying  = "retrying"  // something failed that can heal by itself; Error says what
	StateFailed    = "failed"    // stopped; Error and Poison say what needs a human
	StateStopped   = "stopped"
)

// Sink runs until its context ends. It retries what can heal by itself and returns an error for what needs a human.
type Sink interface {
	Run(ctx context.Context) error
	Status() Status
}

// Status is what a sink tells about itself.
type Status struct {
	Name         string    `json:"name"`
	Type         string    `json:"type"`
	Node         int32     `json:"node,omitempty"` // that runs it, as who runs sinks knows; 0: none
	Here         bool      `json:"here"`           // that is the node that says so
	State        string    `json:"state"`
	Error        string    `json:"error,omitempty"`
	Topics       []string  `json:"topics"`
	Events       uint64    `json:"events"`       // applied and committed since start
	Transactions uint64    `json:"transactions"` // source transactions, likewise
	LagBytes     int64     `json:"lagBytes"`     // as stored, estimated from the mean of each partition
	LagEvents    int64     `json:"lagEvents"`    // records of the topics that are not applied
	LagSeconds   float64   `json:"lagSeconds"`   // age of the oldest record not applied; while none is fetched, how long there has been lag
	Poison       *Poison   `json:"poison,omitempty"`
	Since        time.Time `json:"since"` // of State
}

// Poison is the record that stopped a sink.
type Poison struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Reason    string `json:"reason"`
}

// Levels of a Finding.
const (
	LevelError   = "error"
	LevelWarning = "warning"
)

// Finding is one problem that a check found, with the exact SQL or setting that mends it.
type Finding struct {
	Level   string `json:"level"`
	Subject string `json:"subject"`
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"`
}

// Deps is what a sink needs from its surroundings.
type Deps struct {
	Client  []kgo.Opt // seed brokers and dialer of the log
	Logger  *slog.Logger
	Version string
	// Instance is the sink's place in its group: who comes with the same one takes the place of the one before at once, after a
	// crash too, and fences it. "" for none: nodes stand by for each other.
	Instance string
}
