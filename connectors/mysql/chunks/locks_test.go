package chunks

import (
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// TestLocksHold takes each lock of each mode on each server: while it is held nobody's change is committed, and the snapshot that began
// under it and the position that was read are of one moment. A table without a key is loaded so.
func TestLocksHold(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		for _, mode := range []string{"minimal", "extended"} {
			table := Table{Database: database, Name: "whole", Columns: []string{"id", "v"}}
			locks, err := Locks(mode, m.MariaDB(), []*Table{&table})
			if err != nil {
				t.Fatal(err)
			}
			for _, lock := range locks {
				t.Run(mode+" "+lock.Name, func(t *testing.T) { holds(newSource(t, m), newSource(t, m), lock, table) })
			}
		}
	})
}

func holds(s, locker *source, lock Lock, table Table) {
	s.exec(database, "DROP TABLE IF EXISTS whole", "CREATE TABLE whole (id INT, v INT)", "INSERT INTO whole VALUES (1, 1), (1, 1), (2, NULL)")
	l := NewLoad(Options{})
	s.check(l.Add(NewPlan(table, "", ""), ""))
	task := l.Next(Point{File: "b.000001", Pos: 4})
	if !task.Whole() || !l.Held() || l.Window(table.Collection()) != nil {
		s.t.Fatal("a table without a key is not read as a whole")
	}
	for _, statement := range lock.Take {
		_, err := locker.query(statement)
		s.check(err)
	}
	written := make(chan error, 1)
	go func() { written <- s.m.Exec(s.t.Context(), database, "INSERT INTO whole VALUES (3, 3)") }()
	_, err := s.query(Snapshot)
	s.check(err)
	select {
	case err := <-written:
		s.t.Fatalf("written while %s is held: %v", lock.Name, err)
	case <-time.After(200 * time.Millisecond):
	}
	file, pos, err := s.m.BinaryLog(s.t.Context())
	s.check(err)
	here := Point{File: file, Pos: pos}
	task.At(here)
	for _, statement := range lock.Release {
		_, err := locker.query(statement)
		s.check(err)
	}
	s.check(<-written)
	if _, end, err := s.m.BinaryLog(s.t.Context()); err != nil || end <= pos {
		s.t.Fatalf("the change is at %d, the snapshot at %d: %v", end, pos, err)
	}
	s.check(l.Done(task, nil))
	if l.Held() || len(l.Boundary(Point{File: file, Pos: pos - 1})) != 0 {
		s.t.Error("it is told before the stream is there")
	}
	ready := l.Boundary(here)
	if len(ready) != 1 {
		s.t.Fatalf("%d tasks are ready", len(ready))
	}
	var got []string
	s.check(ready[0].Stream(s.session, func(row event.Row) error {
		got = append(got, show(row))
		return nil
	}))
	if len(got) != 3 || !l.Told(ready[0]) || !l.Empty() {
		s.t.Errorf("told %q", got)
	}
}
