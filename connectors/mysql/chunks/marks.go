package chunks

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/mysql/gtid"
)

// Query runs a statement in the session that reads the chunks and gives its rows as text.
type Query func(statement string) ([][]string, error)

// Marks is how the positions around a chunk are read. A server flushes a transaction to its binlog, from which it may be streamed,
// then commits it to the engine, where a chunk sees it, and then, MySQL, adds it to gtid_executed. So:
//
//   - MySQL with GTIDs: the low mark is gtid_executed, all of which a chunk sees; the high mark is the end of the binlog, behind
//     everything that it saw. The other way round neither would hold.
//   - MySQL without: nothing tells what a chunk is sure to see. Chunks are read with shared locks, which wait for the transactions
//     that are between binlog and engine; both marks are ends of the binlog.
//   - MariaDB tells the place in the binlog of a consistent snapshot, which is both marks.
type Marks struct {
	MariaDB bool
	GTIDs   bool // MySQL's gtid_mode is ON
	// Status is the statement that gives the end of the binlog: SHOW BINARY LOG STATUS, before MySQL 8.2 SHOW MASTER STATUS (M24).
	Status string
	Server string // as in Point

	unlocked bool // for a test
}

// Locking says how chunks are to be read: see Plan.
func (m Marks) Locking() bool { return !m.MariaDB && !m.GTIDs && !m.unlocked }

// Settings are what the session needs beside those of package rows.
func (m Marks) Settings() []string {
	if m.Locking() { // without locks on the gaps between rows, into which others may insert
		return []string{"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"}
	}
	return nil
}

// Marker makes the Marker of a session.
func (m Marks) Marker(q Query) Marker {
	if m.MariaDB {
		return &snapshotMarker{marks: m, query: q}
	}
	return &marker{marks: m, query: q}
}

type marker struct {
	marks Marks
	query Query
}

func (m *marker) Low() (Point, error) {
	if !m.marks.GTIDs {
		return m.High()
	}
	const statement = "SELECT @@GLOBAL.gtid_executed"
	rows, err := m.query(statement)
	if err != nil {
		return Point{}, err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return Point{}, fmt.Errorf("%s: %d rows", statement, len(rows))
	}
	set, err := gtid.Parse(gtid.MySQL, rows[0][0])
	return Point{GTIDs: set}, err
}

func (m *marker) High() (Point, error) {
	rows, err := m.query(m.marks.Status)
	if err != nil {
		return Point{}, err
	}
	if len(rows) != 1 || len(rows[0]) < 2 {
		return Point{}, fmt.Errorf("%s: %d rows; is the binlog on (log_bin)?", m.marks.Status, len(rows))
	}
	return m.marks.point(rows[0][0], rows[0][1])
}

func (m Marks) point(file, pos string) (Point, error) {
	n, err := strconv.ParseUint(pos, 10, 64)
	if err != nil || file == "" {
		return Point{}, fmt.Errorf("position %q of binlog file %q: is the binlog on (log_bin)?", pos, file)
	}
	return Point{Server: m.Server, File: file, Pos: n}, nil
}

// snapshotMarker reads each chunk in a snapshot of which MariaDB tells the position.
type snapshotMarker struct {
	marks Marks
	query Query
	at    Point
}

// beginSnapshot also ends a transaction before it that an error left open.
const beginSnapshot = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"

func (m *snapshotMarker) Low() (Point, error) {
	if _, err := m.query(beginSnapshot); err != nil {
		return Point{}, err
	}
	rows, err := m.query("SHOW STATUS LIKE 'binlog_snapshot_%'")
	if err != nil {
		return Point{}, err
	}
	var file, pos string
	for _, row := range rows {
		if len(row) != 2 {
			return Point{}, errors.New("SHOW STATUS does not give names and values")
		}
		switch strings.ToLower(row[0]) {
		case "binlog_snapshot_file":
			file = row[1]
		case "binlog_snapshot_position":
			pos = row[1]
		}
	}
	m.at, err = m.marks.point(file, pos)
	return m.at, err
}

func (m *snapshotMarker) High() (Point, error) {
	_, err := m.query("COMMIT")
	return m.at, err
}
