package chunks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// TestFind looks for keys of each type by their texts, after some rows were deleted: exactly those are missing.
func TestFind(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		s := newSource(t, m)
		for i, c := range keyCases() {
			if c.only != "" && c.only != m.Flavour() || strings.Contains(c.columns, "CHARACTER SET binary") || strings.Contains(c.columns, "cp932") {
				continue // the former is BINARY; the latter has characters twice, so that a text is no key
			}
			name := fmt.Sprint("f", i)
			var values, names, columns []string
			for n, v := range c.values {
				values = append(values, fmt.Sprintf("(%s, %d)", v, n))
			}
			for _, k := range c.key {
				names, columns = append(names, quote(k.Name)), append(columns, k.Name)
			}
			s.exec(database, "SET NAMES utf8mb4", "SET SESSION sql_mode = '', time_zone = '+00:00'", "DROP TABLE IF EXISTS "+name, fmt.Sprintf("CREATE TABLE %s (n INT, %s)", name, c.columns),
				fmt.Sprintf("INSERT IGNORE INTO %s (%s, n) VALUES %s", name, strings.Join(names, ", "), strings.Join(values, ", ")))
			key := Key{Name: primary, Columns: c.key}
			if _, rest, ok := strings.Cut(c.columns, "UNIQUE KEY "); ok {
				key.Name = strings.ReplaceAll(strings.Trim(rest[:strings.LastIndex(rest, " (")], "`"), "``", "`")
			}
			p := NewPlan(Table{Database: database, Name: name, Columns: append(columns, "n"), Keys: []Key{key}}, "", "")
			if !p.Findable() {
				t.Errorf("%s cannot be looked for", c.columns)
				continue
			}
			var images []event.Row
			var want []int
			s.check(s.session.Select(p.Whole()))
			row := make(event.Row, len(columns)+1)
			for {
				more, err := s.session.Next(row)
				s.check(err)
				if !more {
					break
				}
				if n := string(row[len(row)-1].Text); n[len(n)-1]%2 == 0 {
					want = append(want, len(images))
				}
				image := row.Clone()
				image[len(row)-1] = event.Datum{} // as a key alone
				images = append(images, image)
			}
			s.exec(database, "DELETE FROM "+name+" WHERE n % 2 = 0")
			l := NewLoad(Options{})
			s.check(l.Find(p, images))
			task := l.Next(at(10))
			s.check(task.Read(s.session, still{}))
			s.check(l.Done(task, nil))
			if ready := l.Boundary(at(10)); len(ready) != 1 || !ready[0].Finding() {
				t.Fatalf("%v", ready)
			}
			if got := task.Missing(); !slices.Equal(got, want) || len(want) == 0 {
				t.Errorf("%s: %v are missing, want %v; %s", c.columns, got, want, p.Found(task.find))
			}
			if !l.Told(task) || !l.Empty() {
				t.Error("it does not end")
			}
		}
	})
}

// TestFindBesideTheStream: keys that an event touches are left to it, whenever it comes; a token does not hold what is looked for.
func TestFindBesideTheStream(t *testing.T) {
	p := NewPlan(Table{Database: "d", Name: "t", Columns: []string{"id", "v"}, Keys: []Key{intKey("id")}}, "", "")
	images := []event.Row{texts("1", ""), texts("2", ""), texts("3", ""), texts("4", ""), texts("5", "")}
	begin := func() (*Load, *Task) {
		l := NewLoad(Options{})
		if err := l.Find(p, images); err != nil {
			t.Fatal(err)
		}
		return l, l.Next(at(10))
	}
	l, task := begin()
	if err := task.Window.Change(texts("2", "v"), nil); err != nil { // before it is read
		t.Fatal(err)
	}
	task.found = []string{identityOf(t, p, images[0])}
	task.low, task.high = at(12), at(20)
	if err := l.Done(task, nil); err != nil {
		t.Fatal(err)
	}
	if len(l.Boundary(at(15))) != 0 {
		t.Error("it is told before the stream is there")
	}
	if err := task.Window.Change(texts("3", "v"), texts("30", "v")); err != nil { // after
		t.Fatal(err)
	}
	if err := task.Window.Change(nil, texts("5", "v")); err != nil {
		t.Fatal(err)
	}
	if got := len(l.Boundary(at(20))); got != 1 {
		t.Fatalf("%d tasks are ready", got)
	}
	if got := task.Missing(); !slices.Equal(got, []int{3}) {
		t.Errorf("missing %v, want 4 alone", got)
	}
	if token := l.AppendToken(nil); string(token) != string(NewLoad(Options{}).AppendToken(nil)) {
		t.Errorf("token %x", token)
	}
	l, task = begin()
	task.Window.Truncate()
	task.low, task.high = at(12), at(20)
	if err := l.Done(task, nil); err != nil {
		t.Fatal(err)
	}
	if got := task.Missing(); len(got) != 0 {
		t.Errorf("%v are missing from an emptied table, which an event has told", got)
	}
}

func identityOf(t *testing.T, p *Plan, row event.Row) string {
	t.Helper()
	b, err := AppendIdentity(nil, row, p.identity)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
