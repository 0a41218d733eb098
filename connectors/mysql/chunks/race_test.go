package chunks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/gtid"
	"github.com/rowtrail/rowtrail/itest/binlogs"
	"github.com/rowtrail/rowtrail/itest/servers"
)

const raceKeys = 40

// raceWriters change rows of r in small transactions until the context ends.
func raceWriters(ctx context.Context, t *testing.T, m *servers.MySQL) *sync.WaitGroup {
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			conn, err := m.Connect(context.WithoutCancel(ctx), database)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			r := rand.New(rand.NewPCG(uint64(i), 5))
			for ctx.Err() == nil {
				_, _ = conn.Execute("BEGIN")
				for range 1 + r.IntN(3) {
					a, b, v := r.IntN(raceKeys), r.IntN(raceKeys), r.IntN(1000)
					s := [...]string{
						fmt.Sprintf("INSERT IGNORE INTO r VALUES (%d, %d)", a, v), fmt.Sprintf("UPDATE r SET v = %d WHERE id = %d", v, a),
						fmt.Sprintf("DELETE FROM r WHERE id = %d", a), fmt.Sprintf("UPDATE IGNORE r SET id = %d WHERE id = %d", b, a),
					}[r.IntN(4)]
					if _, err := conn.Execute(s); err != nil {
						break // a deadlock ends the transaction
					}
				}
				_, _ = conn.Execute("COMMIT")
			}
		})
	}
	return &wg
}

// raceChunk is a chunk that was read while others wrote.
type raceChunk struct {
	task  *Task
	since Point // of a stream that is as far as a stream can be
	from  int   // the chunk's first key, less one
}

func raceRead(ctx context.Context, s *source, marks Marks) []raceChunk {
	s.t.Helper()
	marker := marks.Marker(s.query)
	p := NewPlan(Table{Database: database, Name: "r", Columns: []string{"id", "v"}, Keys: []Key{{Name: primary, Columns: []KeyColumn{column("id", "int")}}}}, "", "")
	p.Locking = marks.Locking()
	key := func(n int) Cursor { return Cursor{{kind: kindInt, number: uint64(n)}} }
	r := rand.New(rand.NewPCG(9, 9))
	var chunks []raceChunk
	for ctx.Err() == nil {
		file, pos, err := s.m.BinaryLog(context.WithoutCancel(ctx))
		s.check(err)
		c := raceChunk{since: Point{File: file, Pos: pos}, from: r.IntN(raceKeys)}
		c.task = &Task{Plan: p, Window: &Window{}, after: key(c.from), upTo: key(raceKeys), bounded: true, limit: 12}
		c.task.Window.open(2, p.identity, c.since)
		if err := c.task.Read(s.session, marker); err != nil {
			if Again(err) && marks.Locking() { // a deadlock
				continue
			}
			s.check(err)
		}
		chunks = append(chunks, c)
	}
	return chunks
}

// raceTx is a transaction of the binlog with the table after it.
type raceTx struct {
	id      gtid.GTID
	end     uint64
	changes []simChange
	state   map[string]string
}

func (s *source) raceLog(file string, pos uint32) []raceTx {
	s.t.Helper()
	packets, err := binlogs.Dump(s.t.Context(), s.m, file, pos)
	s.check(err)
	d := binlog.NewDecoder(binlog.Options{})
	var txs []raceTx
	var tx raceTx
	state := map[string]string{}
	for _, p := range packets {
		e, err := d.Decode(p)
		s.check(err)
		switch e.Kind {
		case binlog.KindGTID:
			tx = raceTx{}
			if !e.GTID.MariaDB {
				tx.id = gtid.GTID{UUID: e.GTID.UUID, Number: e.GTID.Number}
			}
		case binlog.KindXID, binlog.KindCommit:
			tx.end, tx.state = e.End, maps.Clone(state)
			txs = append(txs, tx)
		case binlog.KindRows:
			columns, err := e.Table.FullColumns(s.charset)
			s.check(err)
			l, err := binlog.NewLayout(e.Table, columns)
			s.check(err)
			before, after := make(event.Row, 2), make(event.Row, 2)
			for {
				more, err := e.Rows.Next(l, before, after)
				s.check(err)
				if !more {
					break
				}
				var c simChange
				if e.Rows.Op != event.OpCreate {
					c.before = before.Clone()
					delete(state, string(before[0].Text))
				}
				if e.Rows.Op != event.OpDelete {
					c.after = after.Clone()
					state[string(after[0].Text)] = string(after[1].Text)
				}
				tx.changes = append(tx.changes, c)
			}
		}
	}
	return txs
}

// verify passes the transactions by a chunk as the stream would have, and compares what is told with the table at that place.
func (c *raceChunk) verify(txs []raceTx) (told, dropped int, err error) {
	w := c.task.Window
	var since *gtid.Set
	if c.task.low.GTIDs != nil { // the binlog begins in the middle of the server's set
		since = c.task.low.GTIDs.Clone()
		for _, tx := range txs {
			_ = since.Subtract(setOf(tx.id))
		}
		for _, tx := range txs {
			if tx.end <= c.since.Pos {
				if err := since.Add(tx.id); err != nil {
					return 0, 0, err
				}
			}
		}
	}
	w.since.GTIDs = since
	if err := w.load(c.task.low, c.task.high); err != nil {
		return 0, 0, err
	}
	var state map[string]string
	touched := map[string]bool{}
	for _, tx := range txs {
		if state = tx.state; tx.end > c.since.Pos {
			for _, ch := range tx.changes {
				if err := w.Change(ch.before, ch.after); err != nil {
					return 0, 0, err
				}
				for _, row := range []event.Row{ch.before, ch.after} {
					if row != nil {
						touched[string(row[0].Text)] = true
					}
				}
			}
			if ok := w.ready(Point{File: c.since.File, Pos: tx.end}); ok {
				break
			}
		}
	}
	last := raceKeys
	seen := map[string]bool{}
	for i := range w.rows.len() {
		row := w.rows.at(i)
		id, v := string(row[0].Text), string(row[1].Text)
		seen[id] = true
		if i == c.task.limit-1 {
			_, _ = fmt.Sscan(id, &last)
		}
		if w.rows.dropped[i] {
			dropped++
			continue
		}
		if told++; state[id] != v {
			return told, dropped, fmt.Errorf("row %s is told as %s, and is %q", id, v, state[id])
		}
	}
	for n := c.from + 1; n <= last; n++ {
		if id := fmt.Sprint(n); state[id] != "" && !seen[id] && !touched[id] {
			return told, dropped, fmt.Errorf("row %s is missing", id)
		}
	}
	return told, dropped, nil
}

func setOf(id gtid.GTID) *gtid.Set {
	s := gtid.New(gtid.MySQL)
	_ = s.Add(id)
	return s
}

// race reads chunks for a while, and gives how many rows were told and dropped, how many chunks were refused, and what is wrong.
func race(s *source, marks Marks, long time.Duration) (told, dropped, early int, wrong []error) {
	s.t.Helper()
	s.exec(database, "DROP TABLE IF EXISTS r", "CREATE TABLE r (id INT PRIMARY KEY, v INT)")
	s.exec("", "FLUSH BINARY LOGS")
	file, _, err := s.m.BinaryLog(s.t.Context())
	s.check(err)
	ctx, cancel := context.WithTimeout(s.t.Context(), long)
	defer cancel()
	wg := raceWriters(ctx, s.t, s.m)
	chunks := raceRead(ctx, s, marks)
	wg.Wait()
	txs := s.raceLog(file, 4)
	for i := range chunks {
		n, d, err := chunks[i].verify(txs)
		told, dropped = told+n, dropped+d
		switch {
		case errors.Is(err, ErrEarly):
			early++
		case err != nil:
			wrong = append(wrong, err)
		}
	}
	s.t.Logf("%d chunks and %d transactions: %d rows told, %d dropped, %d chunks too early, %d wrong", len(chunks), len(txs), told, dropped, early, len(wrong))
	return told, dropped, early, wrong
}

// TestMarks reads chunks while others write, with a stream that is as far ahead as a server lets one be, and sees afterwards, in the
// binlog, whether what would have been told was true where it would have been told.
func TestMarks(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		long := 3 * time.Second
		if testing.Short() {
			long = time.Second
		}
		run := func(name string, marks Marks) {
			t.Run(name, func(t *testing.T) {
				told, dropped, _, wrong := race(newSource(t, m, marks.Settings()...), marks, long)
				if len(wrong) > 0 {
					t.Errorf("%d chunks are wrong, the first: %v", len(wrong), wrong[0])
				}
				if told == 0 || dropped == 0 {
					t.Error("the test tests nothing")
				}
			})
		}
		if m.MariaDB() {
			run("snapshots", Marks{MariaDB: true})
			return
		}
		// Transactions are in the binlog for a while before they are committed.
		delay := func(us int) []string {
			return []string{fmt.Sprintf("SET GLOBAL sync_binlog = 1, GLOBAL binlog_group_commit_sync_delay = %d", us)}
		}
		if err := m.Exec(t.Context(), "", delay(2000)...); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Exec(context.Background(), "", delay(0)...) })
		run("gtids", Marks{GTIDs: true, Status: "SHOW BINARY LOG STATUS"})
		run("locks", Marks{Status: "SHOW BINARY LOG STATUS"})
		t.Run("neither", func(t *testing.T) { // what the marks are for
			s := newSource(t, m)
			if _, _, _, wrong := race(s, Marks{Status: "SHOW BINARY LOG STATUS", MariaDB: false, unlocked: true}, long); len(wrong) == 0 {
				t.Error("chunks read without locks between ends of the binlog are right: the test tests nothing")
			}
		})
	})
}
