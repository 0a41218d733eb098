package load

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/checker/history"
)

// recorder collects the history of a run.
type recorder struct {
	start  time.Time
	values atomic.Int64

	mu       sync.Mutex
	h        history.History
	sessions int64
	reports  []string // what clients themselves reported as wrong

	sends, commits, aborts, unknown, reads atomic.Int64
}

func newRecorder() *recorder {
	return &recorder{start: time.Now(), h: history.History{
		Sessions: map[int64]history.Session{}, Compacted: map[string]bool{StateTopic: true}, Groups: map[string]map[history.TP]int64{},
	}}
}

func (r *recorder) now() time.Duration { return time.Since(r.start) }

// Progress is what has been done so far, in a line.
func (r *recorder) Progress() string {
	return fmt.Sprintf("%.0f s: %d committed, %d aborted, %d unknown, %d sent, %d read",
		r.now().Seconds(), r.commits.Load(), r.aborts.Load(), r.unknown.Load(), r.sends.Load(), r.reads.Load())
}

// add ends an operation.
func (r *recorder) add(op history.Op) {
	op.End = r.now()
	r.reads.Add(int64(len(op.Reads)))
	switch {
	case op.Kind == history.Send:
		r.sends.Add(int64(len(op.Writes)))
	case op.Kind == history.Poll && len(op.Reads) == 0 && op.Error == "":
		return
	case op.Outcome == history.Committed:
		r.commits.Add(1)
	case op.Outcome == history.Aborted:
		r.aborts.Add(1)
	case op.Outcome == history.Unknown:
		r.unknown.Add(1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Ops = append(r.h.Ops, op)
}

// session begins a stretch of reading.
func (r *recorder) session(s history.Session) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions++
	r.h.Sessions[r.sessions] = s
	return r.sessions
}

// maxReports bounds what clients report.
const maxReports = 20

// report notes something that no client may ever see.
func (r *recorder) report(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.reports) < maxReports {
		r.reports = append(r.reports, fmt.Sprintf("%.3f s: ", r.now().Seconds())+fmt.Sprintf(format, args...))
	}
}

// The headers of every record: its value, and the value that it was made of.
const (
	valueHeader = "v"
	fromHeader  = "from"
)

// record makes the record of a write.
func record(w history.Write) *kgo.Record {
	r := &kgo.Record{Topic: w.Topic, Partition: w.Partition, Headers: []kgo.RecordHeader{{Key: valueHeader, Value: number(w.Value)}}}
	if w.From != 0 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: fromHeader, Value: number(w.From)})
	}
	if w.Key != "" {
		r.Key = []byte(w.Key)
	}
	if !w.Tombstone {
		r.Value = payload(w.Value)
	}
	return r
}

func number(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// payload is what a record of this value carries, of a size of its own.
func payload(v int64) []byte {
	b := make([]byte, 0, 256)
	for size := 20 + int(v*7919%200); len(b) < size; {
		b = strconv.AppendInt(b, v, 36)
		b = append(b, '.')
	}
	return b
}

// damaged is the value of a record that nobody can have written.
const damaged = -1

// read is what a reader notes of a record.
func read(r *kgo.Record, session int64) history.Read {
	rd := history.Read{TP: history.TP{Topic: r.Topic, Partition: r.Partition}, Session: session, Offset: r.Offset, Key: string(r.Key), Value: damaged}
	for _, h := range r.Headers {
		if h.Key == valueHeader && len(h.Value) == 8 {
			rd.Value = int64(binary.BigEndian.Uint64(h.Value))
		}
	}
	if r.Value != nil && string(r.Value) != string(payload(rd.Value)) {
		rd.Value = damaged
	}
	return rd
}
