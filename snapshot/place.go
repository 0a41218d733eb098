package snapshot

import "github.com/rowtrail/rowtrail/log/record"

// The position header's name and the version that is read here. Its form is part of the contract between the planes:
// version, uvarint commit position, uvarint order, uvarint order in the table, varint commit time in microseconds, and more
// that a view does not need.
const (
	positionHeader  = "rowtrail.position"
	positionVersion = 1
)

// readPlace finds a record's place in its source.
func readPlace(e *entry, r *record.Record) {
	if r.HeaderCount() == 0 {
		return
	}
	b, ok := r.Header(positionHeader)
	if !ok {
		return
	}
	e.place = placeUnknown
	if len(b) == 0 || b[0] != positionVersion {
		return
	}
	f := fields{b: b[1:]}
	commit := f.uvarint()
	f.uvarint()
	f.uvarint()
	commitTime := f.varint()
	if !f.bad {
		e.place, e.commit, e.commitTime = placeKnown, commit, commitTime
	}
}
