package snapshot

import (
	"bytes"
	"errors"
)

// rank orders the records that one key has in several partitions.
type rank struct {
	placed    bool // commit is known
	commit    uint64
	timestamp int64 // ms
	partition int32
}

func (r rank) newer(o rank) bool {
	if r.placed && o.placed && r.commit != o.commit {
		return r.commit > o.commit
	}
	if r.timestamp != o.timestamp {
		return r.timestamp > o.timestamp
	}
	return r.partition > o.partition
}

func (r *Row) rank() rank {
	return rank{placed: !r.CommitTime.IsZero(), commit: r.Position, timestamp: r.Timestamp.UnixMilli(), partition: r.Partition}
}

// Newer tells which of two records of one key, in two partitions, is the later one.
func (r *Row) Newer(o *Row) bool { return r.rank().newer(o.rank()) }

// AppendKeyForm appends what rows of a scan are ordered by.
func (r *Row) AppendKeyForm(dst []byte) []byte {
	if r.Hash != nil {
		return append(dst, r.Hash...)
	}
	return appendKey(dst, r.Key)
}

// Told is a row of an answer.
type Told struct {
	Row
	Begins bool // it is what HistoryIn begins a partition with
}

// Answer is one of several, of other partitions each, that are to be merged.
type Answer interface {
	// Next returns the next row; false: there is none. Its slices are valid until the next call.
	Next() (Told, bool, error)
}

// answer is one of those that are merged, and the row that it stands on.
type answer struct {
	from Answer
	row  Told
	form []byte
	ok   bool
}

func (a *answer) next() (err error) {
	if a.row, a.ok, err = a.from.Next(); err == nil && a.ok {
		a.form = a.row.AppendKeyForm(a.form[:0])
	}
	return err
}

// MergeScans calls fn for the rows that a Scan of all the partitions would have told. The first error ends it.
func MergeScans(parts []Answer, fn func(Row) error) error {
	answers := make([]*answer, len(parts))
	for i, p := range parts {
		answers[i] = &answer{from: p}
		if err := answers[i].next(); err != nil {
			return err
		}
	}
	for {
		var best *answer
		for _, a := range answers {
			if !a.ok {
				continue
			}
			if best == nil {
				best = a
				continue
			}
			if c := bytes.Compare(a.form, best.form); c < 0 || c == 0 && a.row.Newer(&best.row.Row) {
				best = a
			}
		}
		if best == nil {
			return nil
		}
		if !best.row.Deleted {
			if err := fn(best.row.Row); err != nil {
				return err
			}
		}
		for _, a := range answers { // the older ones of the key, and then the one that was told
			if a != best && a.ok && bytes.Equal(a.form, best.form) {
				if err := a.next(); err != nil {
					return err
				}
			}
		}
		if err := best.next(); err != nil {
			return err
		}
	}
}

// MergeHistories calls fn for the rows that a History of all the partitions would have told. The first error ends it.
func MergeHistories(parts []Answer, fn func(Row) error) error {
	answers := make([]*answer, len(parts))
	for i, p := range parts {
		answers[i] = &answer{from: p}
		if err := answers[i].next(); err != nil {
			return err
		}
	}
	for {
		var oldest *answer // all of them stand where a partition begins
		for _, a := range answers {
			if a.ok && (oldest == nil || oldest.row.Newer(&a.row.Row)) {
				oldest = a
			}
		}
		if oldest == nil {
			return nil
		}
		for {
			if err := oldest.next(); err != nil {
				return err
			}
			if !oldest.ok || oldest.row.Begins {
				break
			}
			if err := fn(oldest.row.Row); err != nil {
				return err
			}
		}
	}
}

// Found is an answer of LatestIn.
type Found struct {
	Row   Row
	Found bool
	Err   error
}

// MergeLatest is the answer that a Latest of all the partitions would have given.
func MergeLatest(parts []Found) (row Row, found bool, err error) {
	var absent *CompactedError
	for i := range parts {
		p := &parts[i]
		var lost *CompactedError
		switch {
		case errors.As(p.Err, &lost) && lost.Absent:
			if absent == nil || lost.Partition < absent.Partition {
				absent = lost
			}
		case p.Err != nil:
			return Row{}, false, p.Err
		case p.Found && (!found || p.Row.Newer(&row)):
			row, found = p.Row, true
		}
	}
	if !found && absent != nil {
		return Row{}, false, absent
	}
	return row, found, nil
}
