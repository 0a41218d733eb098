// Package history judges what clients of a log did and saw. It is pure: a History goes in, violations come out.
//
// Every record of a run has a value of its own, so that a read names the write that it saw. A Transaction whose commit was
// never asked for must never be read; one whose commit was answered must be read whole; one whose outcome the client does
// not know may be either, but the same one in every place. The properties are those of Jepsen's Kafka workload, plus two
// that follow from groups (no committed record below a group's offset was given to none of its members; each record is
// transformed once) and one from compaction (the last committed record of each key is there).
//
// Transactions of Kafka isolate reads and not writes: appends of open transactions interleave. So cycles that need a
// write-write or a read-write dependency are counted and are no violations; cycles of write-read dependencies and the order of
// one client's own operations are.
package history

import (
	"fmt"
	"time"
)

// TP names a partition.
type TP struct {
	Topic     string
	Partition int32
}

func (tp TP) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// Kind is what an operation was.
type Kind string

// The kinds of operations.
const (
	Send        Kind = "send"        // records outside of transactions, each with an outcome of its own
	Transaction Kind = "transaction" // writes, and maybe reads, in one log transaction
	Poll        Kind = "poll"        // reads only
)

// Outcome is what a client knows of a transaction.
type Outcome string

// The outcomes of a transaction.
const (
	Committed Outcome = "committed" // the commit was answered
	Aborted   Outcome = "aborted"   // the commit was never asked for, or refused for certain
	Unknown   Outcome = "unknown"   // the commit was asked for, and the answer is not known
)

// NoOffset is the offset of a write that was not answered.
const NoOffset = -1

// Write is a record that was sent.
type Write struct {
	TP
	Key       string `json:",omitempty"`
	Value     int64  // unique in the run, never 0
	From      int64  `json:",omitempty"` // the value that this one was made of
	Tombstone bool   `json:",omitempty"`
	Offset    int64  // NoOffset: not answered
}

// Read is a record that was received.
type Read struct {
	TP
	Session int64 // a key of History.Sessions
	Offset  int64
	Value   int64
	Key     string `json:",omitempty"`
}

// Op is one operation of one client. Reads are in the order in which they came.
type Op struct {
	Client     string
	Kind       Kind
	Begin, End time.Duration // since the start of the run; a transaction's reads lie between them
	Outcome    Outcome       `json:",omitempty"`
	Writes     []Write       `json:",omitempty"`
	Reads      []Read        `json:",omitempty"`
	Error      string        `json:",omitempty"`
}

// Session is a stretch of reading of one partition in which the position only moved by reading.
type Session struct {
	Client      string
	Group       string // "": none
	FromStart   bool   // it began at the start of the partition
	Final       bool   // it read up to the end, after everything else was over
	Uncommitted bool   // it also saw records of open and aborted transactions
}

// Transform is a group that reads one topic and writes one record for each into another, in transactions.
type Transform struct{ Group, Input, Output string }

// History is a whole run. Final sessions of committed readers have read every partition from start to end.
type History struct {
	Ops        []Op // of one client in its order
	Sessions   map[int64]Session
	Compacted  map[string]bool         // topics with cleanup.policy compact
	Groups     map[string]map[TP]int64 // the offsets committed in the end
	Transforms []Transform
}

// The names of violations.
const (
	InconsistentOffset = "inconsistent offset" // two values at one offset
	Duplicate          = "duplicate"           // one value at two offsets
	Phantom            = "phantom"             // a value, or a place of it, that nobody wrote
	AbortedRead        = "aborted read"
	LostWrite          = "lost write" // a reader went past it
	Unseen             = "unseen"     // no reader came as far as it
	Torn               = "torn transaction"
	InternalSkip       = "poll skip within a poll"
	ExternalSkip       = "poll skip between polls"
	InternalBackwards  = "non-monotonic poll"
	ExternalBackwards  = "non-monotonic polls"
	GroupSkip          = "skipped by a group"
	TransformedTwice   = "transformed twice"
	NotTransformed     = "not transformed"
	KeyLost            = "last record of a key lost"
	KeyStale           = "last record of a key is not the last"
	FutureRead         = "read before it was written"
	CycleG1c           = "cycle of reads (G1c)"
	CycleG1cProcess    = "cycle of reads and a client's order (G1c-process)"
)

// The names of cycles that Kafka's transactions allow.
const (
	AllowedG0    = "G0: cycles of writes"
	AllowedG1cWW = "G1c: cycles of writes and reads"
	AllowedG2    = "G2: cycles with an anti-dependency"
)

// Violation is a broken property with its evidence.
type Violation struct {
	Kind string
	Text string
	Ops  []int // of History.Ops: what it takes to see it
}

func (v Violation) String() string { return v.Kind + ": " + v.Text }

// maxPerKind bounds the violations of a kind that a report explains; it counts all of them.
const maxPerKind = 10

// Report is a verdict.
type Report struct {
	Violations []Violation    // at most maxPerKind of a kind
	Count      map[string]int // all violations by kind
	Allowed    map[string]int // strongly connected components by kind
	// What was there to judge.
	Committed, Aborted, Unknown, UnknownSeen, Sent, Reads, Edges int
}

func (r *Report) add(kind string, ops []int, format string, args ...any) {
	r.Count[kind]++
	if r.Count[kind] <= maxPerKind {
		r.Violations = append(r.Violations, Violation{Kind: kind, Text: fmt.Sprintf(format, args...), Ops: ops})
	}
}

// Check judges a history.
func Check(h *History) *Report {
	r := &Report{Count: map[string]int{}, Allowed: map[string]int{}}
	x := index(h, r)
	x.aborted(r)
	x.lost(r)
	x.torn(r)
	x.polls(r)
	x.groups(r)
	x.transforms(r)
	x.keys(r)
	x.cycles(r)
	return r
}
