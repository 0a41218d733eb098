package mysql

import (
	"bytes"
	"context"
	"fmt"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/gtid"
)

// maxSavepoints bounds the savepoints of a transaction that are remembered.
const maxSavepoints = 1 << 16

// group is the group of events that is being read: a source transaction, or a part of one that stands alone.
type group struct {
	open     bool
	explicit bool // it ends with a commit of its own; else with the one statement in it
	skip     bool // it is in the log already
	id       *gtid.GTID
	name     string // its GTID, or where it begins
	alter    bool   // MariaDB: its ALTER TABLE only begins, or is rolled back
	hold     *hold  // it is, or may be, prepared only: its rows do not count yet
	replay   replay // which rows of a hold count now

	ordinal    int               // of row events
	touched    map[*relation]int // the last of them that was written, of each table
	savepoints []savepoint
	undo       []spanOf // row events that the source took back, as a former reading found
}

type savepoint struct {
	name    string
	ordinal int
}

// spanOf are row events from up to before to.
type spanOf struct{ from, to int }

// undoError says that a group's rows, which are in the open log transaction, were taken back by the source: the group is read again.
type undoError struct {
	group string
	undo  []spanOf
}

func (e *undoError) Error() string {
	return "transaction " + e.group + " was rolled back at the source: it is read again without its rows"
}

func (s *stream) beginGTID(ctx context.Context, e *binlog.Event) error {
	if s.group.open {
		return malformed("transaction %s does not end before the next one", s.group.name)
	}
	g := &e.GTID
	s.open(e)
	if !g.Anonymous {
		s.group.id = identifier(g)
		s.group.name = s.group.id.String()
		s.group.skip = s.group.skip || s.point.has(*s.group.id)
		s.Meta.Binlog.GTID = s.group.name
		s.ID = append(s.ID[:0], s.group.name...)
	}
	if g.Original > 0 {
		s.at(int64(g.Original))
	}
	s.group.explicit = g.MariaDB && !g.Standalone
	s.group.alter = g.StartAlter || g.RollbackAlter
	s.group.undo = s.run.undoOf(s.group.name)
	if g.Prepared {
		return s.beginHold(ctx, string(g.XID))
	}
	return nil
}

func identifier(g *binlog.GTID) *gtid.GTID {
	if g.MariaDB {
		return &gtid.GTID{Flavour: gtid.MariaDB, Domain: g.Domain, Server: g.Server, Number: g.Number}
	}
	return &gtid.GTID{UUID: g.UUID, Tag: g.Tag, Number: g.Number}
}

// open begins a group at its first event.
func (s *stream) open(e *binlog.Event) {
	touched := s.group.touched
	clear(touched)
	if touched == nil {
		touched = map[*relation]int{}
	}
	start := e.End - min(e.End, uint64(e.Header.Size))
	s.sought(place{s.file, start})
	s.group = group{open: true, touched: touched, savepoints: s.group.savepoints[:0], name: fmt.Sprintf("%s:%d", s.file, start)}
	s.Meta = event.Meta{TsMs: s.Meta.TsMs, Binlog: event.Binlog{ServerID: e.Header.ServerID, File: s.file, Pos: start}}
	s.Begin(event.Position{Commit: s.point.commits + 1})
	s.ID = event.AppendBinlogTransactionID(s.ID, "", s.file, start)
	s.group.skip = s.point.seeks(place{s.file, start})
	s.at(int64(e.Header.Timestamp) * 1e6)
}

// at sets when the transaction was committed, in microseconds since 1970.
func (s *stream) at(us int64) {
	s.Meta.SourceTsUs, s.Pos.CommitTime = us, us
	if s.run.committedEvents() == s.Events {
		s.since.Store(us)
	}
}

// begin is BEGIN, the first event of a group but for its GTID.
func (s *stream) begin(e *binlog.Event) error {
	if s.group.explicit && s.group.ordinal > 0 {
		return malformed("BEGIN inside of a transaction")
	}
	if !s.group.open {
		s.open(e)
		s.group.undo = s.run.undoOf(s.group.name)
	}
	s.group.explicit = true
	s.Meta.Binlog.Thread = uint64(e.Query.Thread)
	return nil
}

func (s *stream) commit(ctx context.Context, e *binlog.Event) error {
	if !s.group.open {
		return malformed("a commit outside of a transaction")
	}
	if err := s.endHold(ctx); err != nil {
		return err
	}
	return s.finish(ctx, e)
}

// finish ends the group.
func (s *stream) finish(ctx context.Context, e *binlog.Event) error {
	g := &s.group
	g.open = false
	if g.skip {
		return nil
	}
	if err := s.parking.End(ctx, &s.Emitter); err != nil {
		return err
	}
	if err := s.run.raw.End(ctx, &s.Emitter); err != nil {
		return err
	}
	had, err := s.End(ctx)
	if err != nil {
		return err
	}
	if had {
		s.txs++
	}
	if s.point, err = s.point.after(g.id, place{s.file, e.End}, s.Pos.CommitTime); err != nil {
		return &connectors.Fault{Problem: "the position after transaction " + g.name + " cannot be kept", Err: err, Remedy: s.config.again()}
	}
	s.run.forgetUndo(g.name)
	turns, err := s.turn(ctx)
	if err != nil {
		return err
	}
	if len(g.undo) > 0 { // else the next one that was rolled back would have this one read again, too, and this one that one
		if err := s.settle(ctx); err != nil {
			return err
		}
		return s.boundary(ctx)
	}
	// Without a record there is nothing to commit with the position: now and then it goes alone.
	if idle := s.Now.Sub(s.markedAt) >= idleEvery; had || idle || turns || s.Batch != nil && !s.Batch.Empty() {
		if err := s.placeMark(ctx, turns || !had && idle); err != nil {
			return err
		}
	}
	return s.boundary(ctx)
}

// cut is the begin of a file inside of a group: the server crashed while it wrote, and takes the group back when it recovers.
func (s *stream) cut(ctx context.Context) error {
	if !s.group.open {
		return nil
	}
	if s.Pos.Order > 0 || s.parking.Touched() {
		return s.takeBack(0)
	}
	s.group.open = false
	if h := s.group.hold; h != nil {
		return s.run.raw.Drop(ctx, &s.Emitter, h.id)
	}
	return nil
}

// rollback ends a group that the server rolled back. It is in the binlog because of tables without transactions: their rows stay.
func (s *stream) rollback(ctx context.Context, e *binlog.Event) error {
	if !s.group.open {
		return malformed("a rollback outside of a transaction")
	}
	if err := s.undoFrom(ctx, 0); err != nil {
		return err
	}
	if err := s.endHold(ctx); err != nil {
		return err
	}
	return s.finish(ctx, e)
}

// savepoint is SAVEPOINT, RELEASE or ROLLBACK TO.
func (s *stream) savepoint(e *binlog.Event) error {
	g := &s.group
	verb, name := savepointName(e.Query.Text)
	if !g.open || g.skip {
		if g.hold != nil && verb == "ROLLBACK" {
			g.hold.refused = true
		}
		return nil
	}
	at := -1
	for i := range g.savepoints {
		if g.savepoints[i].name == name {
			at = i
		}
	}
	switch verb {
	case "SAVEPOINT":
		if at >= 0 { // a new one of the name takes the place of the old one
			g.savepoints = append(g.savepoints[:at], g.savepoints[at+1:]...)
		}
		if len(g.savepoints) == maxSavepoints {
			return malformed("more than %d savepoints", maxSavepoints)
		}
		g.savepoints = append(g.savepoints, savepoint{name, g.ordinal})
		return nil
	case "RELEASE":
		if at >= 0 {
			g.savepoints = g.savepoints[:at]
		}
		return nil
	}
	if at < 0 {
		return malformed("a rollback to savepoint %s, which was not set", name)
	}
	g.savepoints = g.savepoints[:at+1]
	return s.undoFrom(context.Background(), g.savepoints[at].ordinal)
}

// savepointName takes apart SAVEPOINT `a`, RELEASE SAVEPOINT a, ROLLBACK [WORK] TO [SAVEPOINT] "a". Names do not tell cases apart.
func savepointName(text []byte) (verb, name string) {
	words := bytes.Fields(bytes.TrimRight(text, " \t\r\n;\x00"))
	if len(words) < 2 {
		return "", ""
	}
	verb = string(bytes.ToUpper(words[0]))
	last := bytes.Join(words[1:], []byte(" "))
	for _, skip := range []string{"WORK ", "TO ", "SAVEPOINT "} {
		if len(last) > len(skip) && bytes.EqualFold(last[:len(skip)], []byte(skip)) {
			last = last[len(skip):]
		}
	}
	last = bytes.Trim(last, "`\"")
	return verb, string(bytes.ToLower(bytes.ReplaceAll(last, []byte("``"), []byte("`"))))
}

// undoFrom takes back the rows of tables with transactions from a row event on, if any were written.
func (s *stream) undoFrom(ctx context.Context, from int) error {
	if s.group.skip {
		return nil
	}
	for r, last := range s.group.touched {
		if last < from {
			continue
		}
		transactional, err := s.run.transactional(ctx, r)
		if err != nil {
			return err
		}
		if transactional {
			return s.takeBack(from)
		}
	}
	return nil
}

// takeBack gives the open log transaction up; the next reading of the group leaves out what the source took back.
func (s *stream) takeBack(from int) error {
	undo := append(append([]spanOf{}, s.group.undo...), spanOf{from, s.group.ordinal})
	return &undoError{group: s.group.name, undo: undo}
}

// undone tells whether the source took the current row event of a table back.
func (s *stream) undone(ctx context.Context, r *relation) (bool, error) {
	for _, u := range s.group.undo {
		if s.group.ordinal >= u.from && s.group.ordinal < u.to {
			return s.run.transactional(ctx, r)
		}
	}
	return false, nil
}

// undoOf is what a former reading of a group found to be taken back.
func (c *Connector) undoOf(group string) []spanOf {
	if c.undo == nil || c.undo.group != group {
		return nil
	}
	return c.undo.undo
}

func (c *Connector) forgetUndo(group string) {
	if c.undo != nil && c.undo.group == group {
		c.undo = nil
	}
}
