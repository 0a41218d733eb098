package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

var (
	idCol = sinktest.Col("id", "integer", event.KindInt32, 1)
	vCol  = sinktest.Col("v", "text", event.KindText, 0)
)

// A session that was replaced while its connection lives on is fenced, and writes nothing.
func TestFencedByNewerSession(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		ctx := context.Background()
		tab := tableOf(t, "t", idCol, vCol)
		first := h.open(t, "w", nil)
		mustApply(t, first, ev(tab, event.OpCreate, text("1", "first")))
		if _, err := first.conn.exec(ctx, "DO RELEASE_LOCK("+literal(first.target.config.lockName())+")"); err != nil {
			t.Fatal(err)
		}
		for range 10 { // the row waits in the window; then it is in the open transaction
			if err := first.Apply(ctx, ev(tab, event.OpCreate, text("2", "first"))); err != nil {
				t.Fatal(err)
			}
		}
		if err := first.in.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		second := h.open(t, "w", nil)
		if err := first.Commit(ctx, []sink.Offset{{Topic: "x", Next: 9}}); !errors.Is(err, sink.ErrFenced) {
			t.Fatalf("commit of the session before: %v, want ErrFenced", err)
		}
		first.Close()
		mustApply(t, second, ev(tab, event.OpCreate, text("3", "second")))
		if got := h.rows(t, "SELECT * FROM t"); !slices.Equal(got, []string{"1|first", "3|second"}) {
			t.Fatalf("rows %q", got)
		}
	})
}

// The session before may be committing while the next one opens: its COMMIT is seen whole, or it is fenced.
func TestOpenWaitsForCommitInFlight(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		ctx := context.Background()
		tab := tableOf(t, "t", idCol, vCol)
		first := h.open(t, "w", nil)
		mustApply(t, first, ev(tab, event.OpCreate, text("1", "a")))
		for _, sql := range []string{
			"DO RELEASE_LOCK(" + literal(first.target.config.lockName()) + ")", "START TRANSACTION",
			first.target.config.epochSQL(),
			first.target.config.offsetsSQL([]sink.Offset{{Topic: "shop.public.t", Next: 77}}),
		} {
			if _, err := first.conn.exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
		}
		opened := make(chan []sink.Offset)
		go func() {
			s, err := newTarget(first.target.config, sink.Deps{}).Open(ctx)
			if err != nil {
				t.Error(err)
				close(opened)
				return
			}
			defer s.Close()
			opened <- s.Offsets()
		}()
		select {
		case <-opened:
			t.Fatal("opened beside a commit in flight")
		case <-time.After(500 * time.Millisecond):
		}
		if _, err := first.conn.exec(ctx, "COMMIT"); err != nil {
			t.Fatal(err)
		}
		if got := <-opened; len(got) != 1 || got[0].Next != 77 {
			t.Fatalf("offsets %+v", got)
		}
	})
}

// drawOps draws changes that a source with PRIMARY KEY (id), UNIQUE (email) and a reference to a parent could have made one
// after another, and the rows that they leave. With deferred, values of email also change places in one step.
func drawOps(t *rapid.T, child, parent *event.Schema) (ops []*sink.Event, children, parents map[string]event.Row) {
	children, parents = map[string]event.Row{}, map[string]event.Row{}
	emails := map[string]string{} // to id
	refs := map[string]int{}
	id := func() string { return strconv.Itoa(rapid.IntRange(1, 5).Draw(t, "id")) }
	drop := func(key string) {
		row := children[key]
		delete(emails, string(row[1].Text))
		refs[string(row[2].Text)]--
		delete(children, key)
		ops = append(ops, ev(child, event.OpDelete, row))
	}
	for range rapid.IntRange(1, 30).Draw(t, "ops") {
		key := id()
		switch rapid.IntRange(0, 7).Draw(t, "op") {
		case 0:
			row := text(key, "p"+strconv.Itoa(len(ops)))
			parents[key] = row
			ops = append(ops, ev(parent, event.OpUpdate, row))
		case 1:
			if parents[key] != nil && refs[key] == 0 {
				delete(parents, key)
				ops = append(ops, ev(parent, event.OpDelete, text(key, "ABSENT")))
			}
		case 2:
			if children[key] != nil {
				drop(key)
			}
		case 3: // key change
			to := id()
			if old := children[key]; old != nil && children[to] == nil {
				row := slices.Clone(old)
				drop(key)
				row[0] = sinktest.Text(to)
				children[to], emails[string(row[1].Text)] = row, to
				refs[string(row[2].Text)]++
				ops = append(ops, ev(child, event.OpCreate, row))
			}
		case 4: // values of a unique key change places, which a source with deferred constraints can do
			a, b := children[key], children[id()]
			if a != nil && b != nil {
				x, y := slices.Clone(a), slices.Clone(b)
				x[1], y[1] = b[1], a[1]
				for _, row := range []event.Row{x, y} {
					k := string(row[0].Text)
					children[k], emails[string(row[1].Text)] = row, k
					ops = append(ops, ev(child, event.OpUpdate, row))
				}
			}
		default:
			email := "e" + strconv.Itoa(rapid.IntRange(0, 6).Draw(t, "email"))
			ref := id()
			if holder, taken := emails[email]; (taken && holder != key) || parents[ref] == nil {
				continue
			}
			note := sinktest.Text("n" + strconv.Itoa(len(ops)))
			old := children[key]
			row := event.Row{sinktest.Text(key), sinktest.Text(email), sinktest.Text(ref), note}
			sent := slices.Clone(row)
			if old != nil {
				delete(emails, string(old[1].Text))
				refs[string(old[2].Text)]--
				if rapid.Bool().Draw(t, "absent") {
					sent[3], row[3] = sinktest.Absent(), old[3]
				}
			}
			children[key], emails[email] = row, key
			refs[ref]++
			ops = append(ops, ev(child, event.OpUpdate, sent))
		}
	}
	return ops, children, parents
}

// Folding a window never shows: with other unique indexes and foreign keys in the target the result is as if every change
// had been applied by itself, in source order, and constraints had been checked at its end.
func TestM27FoldingKeepsSourceOrder(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		child := tableOf(t, "child", idCol, sinktest.Col("email", "text", event.KindText, 0),
			sinktest.Col("ref", "integer", event.KindInt32, 0), sinktest.Col("note", "text", event.KindText, 0))
		parent := tableOf(t, "parent", idCol, sinktest.Col("name", "text", event.KindText, 0))
		h.must(t, "CREATE TABLE parent (id int PRIMARY KEY, name varchar(20) UNIQUE)",
			"CREATE TABLE child (id int PRIMARY KEY, email varchar(20) NOT NULL UNIQUE, ref int NOT NULL, note text, FOREIGN KEY (ref) REFERENCES parent (id))")
		s := h.open(t, "w", nil)
		rapid.Check(t, func(rt *rapid.T) {
			if err := h.Exec(context.Background(), h.name, "DELETE FROM child", "DELETE FROM parent"); err != nil {
				rt.Fatal(err)
			}
			s.in.Careful = rapid.Bool().Draw(rt, "careful")
			ops, children, parents := drawOps(rt, child, parent)
			for i, op := range ops {
				if err := s.Apply(context.Background(), op); err != nil {
					rt.Fatalf("apply %d: %v", i, err)
				}
			}
			if err := s.Commit(context.Background(), nil); err != nil {
				rt.Fatalf("commit: %v", err)
			}
			for table, want := range map[string]map[string]event.Row{"child": children, "parent": parents} {
				var list []string
				for _, row := range want {
					list = append(list, sinktest.Format(row))
				}
				slices.Sort(list)
				if got, err := h.tryRows("SELECT * FROM " + table); err != nil || !slices.Equal(got, list) {
					rt.Fatalf("%s: %v, want %v, %v", table, got, list, err)
				}
			}
		})
	})
}

// A unique index other than the key's never decides which row is written.
func TestM27OtherUniqueIndexIsAnError(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		h.must(t, "CREATE TABLE u (id int PRIMARY KEY, email varchar(20) UNIQUE)")
		u := tableOf(t, "u", idCol, sinktest.Col("email", "text", event.KindText, 0))
		for _, op := range []event.Op{event.OpCreate, event.OpUpdate} {
			s := h.open(t, "w", nil)
			mustApply(t, s, ev(u, event.OpCreate, text("1", "a")))
			e := ev(u, op, text("2", "a"))
			e.Partition, e.Offset = 3, 42
			other := ev(u, op, text("3", "b"))
			other.Offset = 43
			err := apply(t, s, e, other)
			if err == nil || !sink.IsPermanent(err) || !strings.Contains(err.Error(), "topic shop.public.u partition 3 offset 42") || !strings.Contains(err.Error(), "1062") {
				t.Fatalf("%c: %v; want a permanent error of record 42", op, err)
			}
			s.Close()
			if got := h.rows(t, "SELECT * FROM u"); !slices.Equal(got, []string{"1|a"}) {
				t.Fatalf("rows %v", got)
			}
		}
	})
}

// Many rows, of which some are there: updates, inserts and values of a unique key that move on, in windows of all sizes.
func TestM27ManyRows(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		h.must(t, "CREATE TABLE u (id bigint unsigned PRIMARY KEY, n varchar(20) UNIQUE, own int DEFAULT 7)")
		u := tableOf(t, "u", sinktest.Col("id", "bigint", event.KindInt64, 1), sinktest.Col("n", "text", event.KindText, 0))
		s := h.open(t, "w", nil)
		var first, moved []*sink.Event
		var want []string
		const rows = 3000
		id := func(i int) string { return strconv.FormatUint(18446744073709551615-uint64(i), 10) }
		for i := range rows {
			if i%3 > 0 {
				first = append(first, ev(u, event.OpCreate, text(id(i), "n"+strconv.Itoa(i))))
			}
		}
		for i := range rows { // each takes the value that the next one has until then
			moved = append(moved, ev(u, event.OpUpdate, text(id(i), "n"+strconv.Itoa(i+1))))
			want = append(want, id(i)+"|n"+strconv.Itoa(i+1)+"|7")
		}
		mustApply(t, s, first...)
		h.must(t, "UPDATE u SET own = 7")
		mustApply(t, s, moved...)
		slices.Sort(want)
		if got := h.rows(t, "SELECT * FROM u"); !slices.Equal(got, want) {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
	})
}

func TestP6AbsentIsNotNull(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		s := h.open(t, "w", nil)
		tab := tableOf(t, "t", idCol, sinktest.Col("big", "text", event.KindText, 0), sinktest.Col("small", "integer", event.KindInt32, 0))
		// Insert and partial update meet in one window, on an empty target.
		mustApply(t, s, ev(tab, event.OpCreate, text("1", "toast", "1")), ev(tab, event.OpUpdate, text("1", "ABSENT", "2")),
			ev(tab, event.OpCreate, text("2", "other", "1")))
		mustApply(t, s, ev(tab, event.OpUpdate, text("1", "ABSENT", "3")), ev(tab, event.OpUpdate, text("2", "NULL", "4")))
		if got := h.rows(t, "SELECT * FROM t"); !slices.Equal(got, []string{"1|toast|3", "2|NULL|4"}) {
			t.Fatalf("rows %v", got)
		}
		var many []*sink.Event
		for i := range 20 {
			many = append(many, ev(tab, event.OpUpdate, text(strconv.Itoa(i+1), "ABSENT", "1")))
		}
		for n, list := range map[int][]*sink.Event{1: {many[2]}, 18: many} {
			s := h.open(t, "w", nil)
			err := apply(t, s, list...)
			if err == nil || !sink.IsPermanent(err) || !strings.Contains(err.Error(), fmt.Sprintf("%d of %d rows", n, len(list))) {
				t.Fatalf("update of rows that are not there: %v", err)
			}
			s.Close()
		}
	})
}

// A key change whose create lacks a column keeps what the row has, in the target or in the window.
func TestP9KeyUpdateKeepsAbsentColumns(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		for _, careful := range []bool{false, true} {
			s := h.open(t, "w", nil)
			s.SetCareful(careful)
			tab := tableOf(t, "t", sinktest.Col("a", "integer", event.KindInt32, 1), sinktest.Col("b", "integer", event.KindInt32, 2),
				sinktest.Col("big", "text", event.KindText, 0), sinktest.Col("v", "text", event.KindText, 0))
			rekey := func(from, to event.Row) []*sink.Event {
				d, c := ev(tab, event.OpDelete, from), ev(tab, event.OpCreate, to)
				d.NewKey, c.OldKey = c.Key, d.Key
				return []*sink.Event{d, c}
			}
			h.must(t, "DROP TABLE IF EXISTS t")
			mustApply(t, s, ev(tab, event.OpCreate, text("1", "1", "toast", "x")))
			events := rekey(text("1", "1", "ABSENT", "ABSENT"), text("2", "1", "ABSENT", "y"))
			events = append(events, ev(tab, event.OpCreate, text("5", "5", "new", "z")))
			events = append(events, rekey(text("5", "5", "ABSENT", "ABSENT"), text("6", "5", "ABSENT", "z"))...)
			events = append(events, rekey(text("2", "1", "ABSENT", "ABSENT"), text("3", "1", "whole", "w"))...)
			mustApply(t, s, events...)
			if got := h.rows(t, "SELECT * FROM t"); !slices.Equal(got, []string{"3|1|whole|w", "6|5|new|z"}) {
				t.Fatalf("careful %t: rows %v", careful, got)
			}
			// A delete whose create does not follow is a delete.
			mustApply(t, s, rekey(text("6", "5", "ABSENT", "ABSENT"), text("7", "5", "ABSENT", "z"))[0])
			if got := h.rows(t, "SELECT * FROM t"); !slices.Equal(got, []string{"3|1|whole|w"}) {
				t.Fatalf("careful %t: rows %v", careful, got)
			}
			s.Close()
		}
	})
}

// TRUNCATE of tables that refer to each other is one event per table. It is undone with the transaction.
func TestP25TruncateTogether(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		h.must(t, "CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY, FOREIGN KEY (id) REFERENCES a (id))")
		a, b := tableOf(t, "a", idCol), tableOf(t, "b", idCol)
		s := h.open(t, "w", nil)
		mustApply(t, s, ev(a, event.OpCreate, text("1")), ev(b, event.OpCreate, text("1")),
			ev(a, event.OpTruncate, text("1")), ev(b, event.OpTruncate, text("1")), ev(a, event.OpCreate, text("2")))
		const both = "SELECT a.id, b.id AS b FROM a LEFT JOIN b USING (id)"
		if got := h.rows(t, both); !slices.Equal(got, []string{"2|NULL"}) {
			t.Fatalf("rows %v", got)
		}
		for _, e := range []*sink.Event{ev(a, event.OpTruncate, text("1")), ev(a, event.OpCreate, text("3"))} {
			if err := s.Apply(context.Background(), e); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.in.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if got := h.rows(t, both); !slices.Equal(got, []string{"2|NULL"}) {
			t.Fatalf("rows after a lost session: %v", got)
		}
		refuse := h.open(t, "x", map[string]string{"truncate.enabled": "false"})
		mustApply(t, refuse, ev(b, event.OpTruncate, text("1"))) // there is nothing to lose
		if err := apply(t, refuse, ev(a, event.OpTruncate, text("1"))); !sink.IsPermanent(err) {
			t.Fatalf("truncate.enabled=false: %v", err)
		}
	})
}

// A value that does not fit is refused, not cut off or rounded.
func TestValueThatDoesNotFit(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		h.must(t, "CREATE TABLE t (id int PRIMARY KEY, v varchar(3), b bit(3), n decimal(5,2), d date, e enum('a','b') CHARACTER SET latin1)")
		tab := tableOf(t, "t", idCol, vCol, sinktest.Col("b", "bit(4)", event.KindBit, 0), sinktest.Col("n", "text", event.KindText, 0),
			sinktest.Col("d", "text", event.KindText, 0), sinktest.Col("e", "text", event.KindText, 0))
		for _, bad := range []event.Row{
			text("1", "abcd", "NULL", "NULL", "NULL", "NULL"), text("1", "abc ", "NULL", "NULL", "NULL", "NULL"), text("1", "NULL", "1111", "NULL", "NULL", "NULL"),
			text("1", "NULL", "NULL", "1.005", "NULL", "NULL"), text("1", "NULL", "NULL", "1000", "NULL", "NULL"), text("1", "NULL", "NULL", "x", "NULL", "NULL"),
			text("1", "NULL", "NULL", "NULL", "infinity", "NULL"), text("1", "NULL", "NULL", "NULL", "2024-02-29 12:00:00", "NULL"),
			text("1", "NULL", "NULL", "NULL", "NULL", "c"), text("2147483648", "NULL", "NULL", "NULL", "NULL", "NULL"),
			text("1", "abcd", "NULL", "NULL", "NULL", ""), text("1", "NULL", "NULL", "1.005", "NULL", ""),
		} {
			s := h.open(t, "w", nil)
			if err := apply(t, s, ev(tab, event.OpCreate, bad)); !sink.IsPermanent(err) {
				t.Errorf("%s: %v; want a permanent error", sinktest.Format(bad), err)
			}
			s.Close()
		}
		s := h.open(t, "w", nil)
		mustApply(t, s, ev(tab, event.OpCreate, text("1", "abc", "101", "1.5", "2024-02-29", "")), ev(tab, event.OpCreate, text("2", "a'b", "001", "-1", "0000-00-00", "b")))
		if got := h.rows(t, "SELECT id, v, b + 0, n, d, e, e + 0 FROM t"); !slices.Equal(got, []string{"1|abc|5|1.50|2024-02-29||0", "2|a'b|1|-1.00|0000-00-00|b|2"}) {
			t.Fatalf("rows %q", got)
		}
		for _, c := range []struct{ kind, source string }{{"datetime(3)", "timestamp without time zone"}, {"float", "double precision"}} {
			h.must(t, "DROP TABLE IF EXISTS r", "CREATE TABLE r (id int PRIMARY KEY, v "+c.kind+")")
			v := sinktest.Col("v", c.source, event.KindTimestamp, 0)
			if c.kind == "float" {
				v.Kind = event.KindFloat64
			}
			err := apply(t, h.open(t, "w", nil), ev(tableOf(t, "r", idCol, v), event.OpCreate, text("1", "NULL")))
			if !sink.IsPermanent(err) || !strings.Contains(err.Error(), "MODIFY COLUMN `v`") {
				t.Errorf("%s: %v", c.kind, err)
			}
		}
	})
}

// Values of ENUM that are no label, more than the server keeps warnings of.
func TestM19ManyEnumsWithoutLabel(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		h.must(t, "CREATE TABLE t (id int PRIMARY KEY, e enum('a','b'))")
		tab := tableOf(t, "t", idCol, sinktest.Col("e", "text", event.KindText, 0))
		for _, op := range []event.Op{event.OpCreate, event.OpUpdate} {
			s := h.open(t, "w", nil)
			var events []*sink.Event
			for i := range 300 {
				events = append(events, ev(tab, op, text(strconv.Itoa(i), "")))
			}
			mustApply(t, s, events...)
			if got := h.rows(t, "SELECT COUNT(*) FROM t WHERE e + 0 = 0"); got[0] != "300" {
				t.Fatalf("%c: %s rows", op, got[0])
			}
			h.must(t, "UPDATE t SET e = 'b'")
			if err := apply(t, s, append(events, ev(tab, op, text("999", "c")))...); !sink.IsPermanent(err) {
				t.Fatalf("a value that is no label among them: %v", err)
			}
			s.Close()
		}
	})
}

// What other sessions hold is waited for; a deadlock ends the transaction, which is applied again and not taken for poison.
func TestDeadlockIsNotPoison(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		ctx := context.Background()
		h.must(t, "CREATE TABLE t (id int PRIMARY KEY, v varchar(3))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
		tab := tableOf(t, "t", idCol, vCol)
		s := h.open(t, "w", nil)
		s.SetCareful(true)
		other, err := h.Connect(ctx, h.name)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if err := s.Apply(ctx, ev(tab, event.OpUpdate, text("1", "s"))); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := other.Execute("BEGIN")
			for _, sql := range []string{"UPDATE t SET v = 'o' WHERE id = 2", "INSERT INTO t VALUES (3, 'o'), (4, 'o'), (5, 'o'), (6, 'o')", "UPDATE t SET v = 'o' WHERE id = 1"} {
				if err == nil {
					_, err = other.Execute(sql)
				}
			}
			done <- err
		}()
		time.Sleep(300 * time.Millisecond)
		err = s.Apply(ctx, ev(tab, event.OpUpdate, text("2", "s")))
		if err == nil || sink.IsPermanent(err) || code(err) != errDeadlock {
			t.Fatalf("apply: %v; want a deadlock that is not permanent", err)
		}
		s.Close()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// Records of other producers: JSON keys and values, into a table that exists.
func TestForeignRecords(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		h.must(t, "CREATE TABLE app (id int PRIMARY KEY, name text, at datetime, doc json, flag boolean)")
		s := h.open(t, "w", nil)
		raw := func(key, value string) *sink.Event {
			e := &sink.Event{Topic: "their.public.app", RawKey: []byte(key)}
			if value != "" {
				e.RawValue = []byte(value)
			}
			return e
		}
		mustApply(t, s,
			raw(`{"id":1}`, `{"id":1,"name":"a\"b","at":"2024-05-06T07:08:09","doc":{"x": [1, 2]},"flag":true}`),
			raw(`{"id":2}`, `{"before":null,"after":{"id":2,"name":null},"op":"c"}`),
			raw(`{"id":4}`, `{"name":"gone"}`), raw(`{"id":4}`, ""))
		got := h.rows(t, "SELECT id, name, at, doc, flag FROM app")
		if want := []string{`1|a"b|2024-05-06 07:08:09|{"x": [1, 2]}|1`, "2|NULL|NULL|NULL|NULL"}; !slices.Equal(got, want) {
			t.Fatalf("rows %q, want %q", got, want)
		}
		for _, bad := range []*sink.Event{raw("", `{"id":1}`), raw("7", `{"id":1}`), raw(`{"id":1}`, `[]`), raw(`{"id":1}`, `{"unknown":1}`)} {
			s := h.open(t, "w", nil)
			if err := apply(t, s, bad); !sink.IsPermanent(err) {
				t.Errorf("key %s value %s: %v; want a permanent error", bad.RawKey, bad.RawValue, err)
			}
			s.Close()
		}
	})
}
