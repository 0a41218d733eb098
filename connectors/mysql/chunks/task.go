package chunks

import (
	"errors"
	"fmt"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/rows"
)

// Task is one chunk of a table, or the whole of one without a key.
type Task struct {
	Progress *Progress
	Plan     *Plan
	Window   *Window // of a chunk

	after, upTo Cursor
	bounded     bool
	limit       int
	find        []Cursor
	found       []string // identities of those that are there
	low, high   Point
	last        Cursor
	end         bool // there is nothing behind it
	read, rows  int
	bytes       int64
	done        bool
	stopped     bool
}

// Whole says that the table is read at once: with At and Stream, not Read and Each.
func (t *Task) Whole() bool { return t.Plan.key == nil }

// Marker reads the positions around a chunk, in the order Low, chunk, High: see Marks.
type Marker interface {
	Low() (Point, error)
	High() (Point, error)
}

// Read reads the chunk. It may run beside the stream.
func (t *Task) Read(s *rows.Session, m Marker) error {
	if err := t.start(m); err != nil {
		return fmt.Errorf("load table %s: read the position: %w", t.Plan.Table.Collection(), err)
	}
	var err error
	if err := t.chunk(s); err != nil {
		return fmt.Errorf("load table %s: %w", t.Plan.Table.Collection(), err)
	}
	if t.high, err = m.High(); err != nil {
		return fmt.Errorf("load table %s: read the position: %w", t.Plan.Table.Collection(), err)
	}
	return nil
}

// lowTries is how often the low mark is asked for until it includes where the stream stood: what the stream has read is committed a
// moment later. Then the chunk is read for nothing, and again.
const lowTries = 100

func (t *Task) start(m Marker) error {
	for range lowTries {
		var err error
		if t.low, err = m.Low(); err != nil {
			return err
		}
		if ok, err := t.low.Includes(t.Window.since); ok || err != nil { // of an error Load.Done tells
			break
		}
	}
	return nil
}

func (t *Task) chunk(s *rows.Session) error {
	if t.find != nil {
		return t.lookFor(s)
	}
	if !t.bounded {
		found, err := t.bound(s)
		if err != nil {
			return err
		}
		if t.bounded = true; !found {
			t.end = true
			return nil
		}
	}
	if err := s.Select(t.Plan.Chunk(t.after, t.upTo, t.limit)); err != nil {
		return err
	}
	row := make(event.Row, len(t.Plan.Table.Columns))
	t.last = t.after
	full := false
	for {
		more, err := s.Next(row)
		if err != nil {
			return errors.Join(err, s.Skip())
		}
		if !more {
			break
		}
		t.Window.rows.add(row)
		t.read++
		if full = t.Window.rows.size() >= maxChunkBytes; full || t.read == t.limit {
			if t.last, err = t.Plan.Cursor(s); err != nil {
				return errors.Join(err, s.Skip())
			}
		}
		if full {
			if err := s.Skip(); err != nil {
				return err
			}
			break
		}
	}
	t.bytes = s.Size()
	t.rows = t.read
	t.end = !full && t.read < t.limit || t.last.equal(t.upTo)
	return nil
}

// bound reads the largest key, so that a table that grows behind it has an end: rows that come later are the stream's.
func (t *Task) bound(s *rows.Session) (bool, error) {
	if err := s.Select(t.Plan.Last()); err != nil {
		return false, err
	}
	found, err := s.Next(nil)
	if err != nil || !found {
		return false, err
	}
	if t.upTo, err = t.Plan.LastCursor(s); err != nil {
		return false, errors.Join(err, s.Skip())
	}
	return true, s.Skip()
}

// At says at which position a snapshot was taken from which the whole table can be read: see LockTable. The stream, which waits as
// long as Load.Held says, then goes on to there.
func (t *Task) At(p Point) { t.low, t.end = p, true }

// Stream reads the whole table, in a session that has the snapshot, and tells its rows as they come, when Boundary has given the Task.
func (t *Task) Stream(s *rows.Session, tell func(event.Row) error) error {
	if err := s.Select(t.Plan.Whole()); err != nil {
		return fmt.Errorf("load table %s: %w", t.Plan.Table.Collection(), err)
	}
	row := make(event.Row, len(t.Plan.Table.Columns))
	for {
		more, err := s.Next(row)
		if err != nil {
			return fmt.Errorf("load table %s: %w", t.Plan.Table.Collection(), errors.Join(err, s.Skip()))
		}
		if !more {
			return nil
		}
		t.rows++
		if err := tell(row); err != nil {
			return err
		}
	}
}

// Each gives the rows that are to be told, in the order of the key. A row is valid until the next one.
func (t *Task) Each(tell func(event.Row) error) error {
	b := &t.Window.rows
	for i := range b.len() {
		if b.dropped[i] {
			t.rows--
			continue
		}
		if err := tell(b.at(i)); err != nil {
			return err
		}
	}
	return nil
}

// ErrLost is what a reader adds to an error of a connection that broke, and with which the chunk did not: it can be read on another.
var ErrLost = errors.New("the connection was lost")

// Again says that an error of reading was of the moment: the chunk can be read again, on the same connection unless that is lost.
func Again(err error) bool {
	if errors.Is(err, ErrEarly) || errors.Is(err, ErrServer) || errors.Is(err, ErrLost) {
		return true
	}
	var e *mysql.MyError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case mysql.ER_LOCK_WAIT_TIMEOUT, mysql.ER_LOCK_DEADLOCK, mysql.ER_TABLE_DEF_CHANGED, mysql.ER_QUERY_INTERRUPTED:
		return true
	}
	return false
}
