package log

import (
	"bytes"

	"github.com/rowtrail/rowtrail/log/record"
)

// compactTwin keeps every record for ever, in a list, and answers by looking at all of them.
type compactTwin struct {
	records  []twinRecord // by offset, which is the position
	logStart int64
	epochs   []twinEpoch
	txns     map[int64]int64 // first offsets of open transactions
	sent     map[int64]*record.Producer
	// cleaned are the rounds: where each ended, and when it was.
	cleaned []twinRound
}

type twinRecord struct {
	key, value []byte
	ts         int64
	producer   int64
	control    bool
	commit     bool
	state      txnState
}

type txnState int8

const (
	plain txnState = iota
	undecided
	committed
	aborted
)

type twinEpoch struct{ term, offset int64 }

type twinRound struct{ end, at, retention int64 }

func (w *compactTwin) end() int64 { return int64(len(w.records)) }

func (w *compactTwin) stable() int64 {
	end := w.end()
	for _, first := range w.txns {
		end = min(end, first)
	}
	return max(end, w.logStart)
}

// latest is the offset of the last committed record of a key below an offset, or -1.
func (w *compactTwin) latest(key []byte, below int64) int64 {
	for o := below - 1; o >= 0; o-- {
		r := &w.records[o]
		if !r.control && r.state != aborted && r.state != undecided && r.key != nil && bytes.Equal(r.key, key) {
			return o
		}
	}
	return -1
}

// compacted is where the furthest round ended.
func (w *compactTwin) compacted() (end int64) {
	for _, c := range w.cleaned {
		end = max(end, c.end)
	}
	return end
}

// mayBeForgotten reports that rounds may have removed a tombstone: one saw it first, a later one found its time over.
func (w *compactTwin) mayBeForgotten(offset int64) bool {
	first := int64(-1)
	for _, c := range w.cleaned {
		switch {
		case c.end <= offset:
		case first < 0:
			first = c.at
		case first+c.retention <= c.at:
			return true
		}
	}
	return false
}
