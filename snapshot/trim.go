package snapshot

import (
	"bytes"
	"errors"

	"github.com/rowtrail/rowtrail/log"
)

// trim finds the entries of one partition whose records compaction has taken: below the offset that it has come to, all
// but the last one of each key (invariant 10). A tombstone may be gone even if it is the last one.
type trim struct {
	deletes bool // the second time round
	found   int  // entries that may go
	reads   int  // of the log, in this piece

	key  []byte // the key, in its stored form, that the pass has come to
	kept bool   // its last record below the offset was seen

	// Of the entries below the offset:
	placed  bool // some have a commit position
	unknown bool // some have a place that this build cannot read
	commit  uint64
	time    int64 // us
}

// superseded is asked for the entries below the offset, in the order of the view, and tells whether a later one of the
// same key is among them.
func (t *trim) superseded(keyPart []byte, h *hit) bool {
	if !bytes.Equal(keyPart, t.key) {
		t.key, t.kept = append(t.key[:0], keyPart...), false
	}
	switch h.place {
	case placeKnown:
		t.placed, t.commit, t.time = true, max(t.commit, h.commit), max(t.time, h.commitTime)
	case placeNone:
		t.time = max(t.time, h.timestamp*1000+999)
	default:
		t.unknown = true
	}
	superseded := t.kept
	t.kept = true
	if superseded || h.tombstone {
		t.found++
	}
	return superseded
}

// forgotten tells whether the log no longer holds a tombstone.
func (t *trim) forgotten(h *hit) (bool, error) {
	t.reads++
	r := rowReader{reader: h.part.reader} // the fold's; its partition is locked
	_, _, err := r.read(h)
	switch {
	case errors.Is(err, ErrCompacted):
		return true, nil
	case errors.Is(err, log.ErrCorrupt):
		return false, nil // whoever asks for it is told
	}
	return false, err
}

// after is the state of a partition without the entries that were found. A cut at or behind all entries below the offset
// loses nothing by it.
func (t *trim) after(st state, whole int64) state {
	commit, time := t.commit, t.time
	if !t.placed {
		commit = unknownCommit
	}
	if t.unknown {
		time = unknownTime
	}
	// Records that are missing already had no entries to be looked at.
	if st.whole > 0 {
		commit, time = max(commit, st.wholeCommit), max(time, st.wholeTime)
	}
	st.whole, st.wholeCommit, st.wholeTime = max(st.whole, whole), commit, time
	return st
}
