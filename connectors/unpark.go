package connectors

import (
	"errors"
	"time"
)

// ParkedStatus is what a connector says of a parked table.
type ParkedStatus struct {
	Table   string    `json:"table"` // schema.table
	State   string    `json:"state"` // parked or unparking
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason"`
	Remedy  string    `json:"remedy"`
	Changes int64     `json:"changes"`        // that wait
	Bytes   int64     `json:"bytes"`          // of what waits
	Load    bool      `json:"load,omitempty"` // it is loaded when it is unparked
}

// States of a parked table.
const (
	StateParked    = "parked"
	StateUnparking = "unparking"
)

// How a table is unparked.
const (
	UnparkWrite   = ""        // what waits is written, then the table goes on
	UnparkReload  = "reload"  // what waits is forgotten, and the table is loaded again after a truncate
	UnparkDiscard = "discard" // what waits is lost, and the table goes on
)

// What is wrong with a request to unpark.
var (
	ErrNotParked    = errors.New("is not parked")
	ErrNotStreaming = errors.New("does not stream now; try again when it does")
)

// Unpark asks for a parked table to be unparked.
type Unpark struct {
	Table string `json:"table"` // schema.table
	How   string `json:"how,omitempty"`
}
