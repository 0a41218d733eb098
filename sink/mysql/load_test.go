package mysql

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// loads is how many LOAD DATA statements a session has sent.
func (s *session) loads(t *testing.T) int {
	t.Helper()
	rows, err := s.conn.query(t.Context(), "SHOW SESSION STATUS LIKE 'Com_load'")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(rows[0][1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Every value of a type that can be loaded arrives as it left.
func TestM15M16M17M19EveryTypeLoads(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		cases := slices.DeleteFunc(typeCases(h.MySQL), func(c typeCase) bool {
			return strings.HasPrefix(c.typ, "bit") || strings.HasPrefix(c.typ, "enum('a','it")
		})
		schema, data, read := h.source(t, cases)
		h.must(t, "RENAME TABLE every TO origin")
		s := h.open(t, "w", nil)
		s.loadFrom = 1
		var events []*sink.Event
		for _, row := range data {
			events = append(events, ev(schema, event.OpCreate, row))
		}
		mustApply(t, s, events...)
		if s.loads(t) != 1 {
			t.Errorf("%d LOAD DATA, want 1", s.loads(t))
		}
		h.same(t, "loaded", schema, data, read)
	})
}

// loadCase is rows for a table; each is written by statements and by LOAD DATA, and both do the same.
type loadCase struct {
	name    string
	before  []string // statements; the table is t
	columns []event.Column
	rows    []event.Row
	fails   bool
	loaded  bool // by LOAD DATA alone
}

func loadCases() []loadCase {
	v := []event.Column{idCol, vCol}
	table := func(columns string) []string { return []string{"CREATE TABLE t (id int PRIMARY KEY, " + columns + ")"} }
	one := func(value string) []event.Row { return []event.Row{text("1", "NULL"), text("2", value)} }
	strange := make([]event.Row, 0, 300)
	for i := range 256 {
		strange = append(strange, text(strconv.Itoa(i), "a"+string(rune(i))+"b"), text(strconv.Itoa(1000+i), string(rune(i))))
	}
	list := []loadCase{
		{"special characters", table("v varchar(20) COLLATE utf8mb4_bin"), v, strange, false, true},
		{"what LOAD DATA has a meaning for", table("v varchar(20)"), v, []event.Row{text("1", `\N`), text("2", `N`), text("3", `\`), text("4", `\\`), text("5", ``),
			text("6", "\t"), text("7", "\n"), text("8", "\r\n"), text("9", `"x"`), text("10", `'`), text("11", "NULL "), text("12", "\x00"), text("13", "\x1a"), text("14", `\t`)}, false, true},
		{"a text that is too long", table("v varchar(3)"), v, one("abcd"), true, false},
		{"spaces at the end that do not fit", table("v varchar(3)"), v, one("abc "), true, false},
		{"a character that the charset lacks", table("v varchar(3) CHARACTER SET latin1"), v, one("\u4e2d"), true, false},
		{"a fraction that does not fit", table("v decimal(5,2)"), v, one("1.005"), true, false},
		{"a number that does not fit", table("v tinyint"), v, one("128"), true, false},
		{"a number below zero", table("v int unsigned"), v, one("-1"), true, false},
		{"no number", table("v int"), v, one("x"), true, false},
		{"a number with a tail", table("v int"), v, one("1x"), true, false},
		{"an empty number", table("v int"), v, one(""), true, false},
		{"a date with a time", table("v date"), v, one("2024-02-29 12:00:00"), true, false},
		{"no date", table("v date"), v, one("infinity"), true, false},
		{"a time that is too large", table("v time"), v, one("839:00:00"), true, false},
		{"a year that is none", table("v year"), v, one("1900"), true, false},
		{"a label that is none", table("v enum('a', 'b')"), v, one("c"), true, false},
		{"an element of a set that is none", table("v set('a', 'b')"), v, one("a,c"), true, false},
		{"broken JSON", table("v json, CHECK (JSON_VALID(v))"), v, one("{"), true, false},
		{"NULL where it may not be", table("v varchar(3) NOT NULL"), v, one("x"), true, false},
		{"NULL for a timestamp", table("v timestamp NOT NULL DEFAULT '2001-01-01 00:00:00'"), v, one("2024-01-01 00:00:00"), true, false},
		{"NULL for a timestamp that may be", table("v timestamp NULL"), v, one("2024-01-01 00:00:00"), false, true},
		{"a column without a default", table("v varchar(3), w int NOT NULL"), v, one("x"), true, false},
		{"a column with a default", table("v varchar(3), w int NOT NULL DEFAULT 7"), v, one("x"), false, false},
		{"a check", table("v int, CHECK (v < 5)"), v, one("7"), true, false},
		{"no partition", []string{"CREATE TABLE t (id int PRIMARY KEY, v int) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (2))"}, v, one("7"), true, false},
		{"no parent", append([]string{"CREATE TABLE parent (id int PRIMARY KEY)"}, table("v int, FOREIGN KEY (v) REFERENCES parent (id)")...), v, one("7"), true, false},
		{"another row with the key", append(table("v varchar(3)"), "INSERT INTO t VALUES (2, 'old')"), v, one("new"), false, false},
		{"another row with a unique value", append(table("v varchar(3), UNIQUE (v)"), "INSERT INTO t VALUES (3, 'x')"), v, one("x"), true, false},
		{"two rows with a unique value", table("v varchar(3) UNIQUE"), v, []event.Row{text("1", "x"), text("2", "x")}, true, false},
		{"an id of its own accord", []string{"CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, v int)"}, v, []event.Row{text("0", "1"), text("7", "2")}, false, true},
		{"no value of a float", table("v float"), v, one("NaN"), true, false},
		{"a double that a float cannot have", table("v float"), v, one("1e39"), true, false},
		{"what a trigger refuses", append(table("v int"), "CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW SIGNAL SQLSTATE '45000'"), v, one("7"), true, false},
	}
	many := make([]event.Row, 3000)
	for i := range many {
		many[i] = text(strconv.Itoa(i), strings.Repeat("x", 1+i))
	}
	return append(list, loadCase{"more than one LOAD DATA", table("v text"), v, many, false, true})
}

// M27 and invariant 7: what LOAD DATA would change or leave out without an error is no other than with statements.
func TestM27LoadsLikeStatements(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		for _, c := range loadCases() {
			t.Run(c.name, func(t *testing.T) {
				tab := tableOf(t, "t", c.columns...)
				write := func(from int) (outcome string, loads int) {
					h.must(t, "SET foreign_key_checks = 0", "DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS parent")
					h.must(t, c.before...)
					s := h.open(t, "w", nil)
					defer s.Close()
					s.loadFrom = from
					events := make([]*sink.Event, len(c.rows))
					for i, row := range c.rows {
						events[i] = ev(tab, event.OpCreate, row)
					}
					err := apply(t, s, events...)
					if (err != nil) != c.fails || err != nil && !sink.IsPermanent(err) {
						t.Errorf("from %d rows on: %v", from, err)
					}
					loads = -1
					if err == nil {
						loads = s.loads(t)
					}
					return fmt.Sprintf("%v %q", err, h.rows(t, "SELECT *, HEX(v) FROM t ORDER BY id")), loads
				}
				want, _ := write(math.MaxInt)
				got, loads := write(1)
				if got != want {
					t.Errorf("loaded:     %.500s\nstatements: %.500s", got, want)
				}
				if c.loaded && loads < 1 {
					t.Errorf("nothing was loaded")
				}
			})
		}
	})
}

// A server that stops to take LOAD DATA LOCAL is sent statements.
func TestServerThatTakesNoLoads(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		h.must(t, "CREATE TABLE t (id int PRIMARY KEY, v varchar(3))")
		tab := tableOf(t, "t", idCol, vCol)
		s := h.open(t, "w", nil)
		s.loadFrom = 1
		mustApply(t, s, ev(tab, event.OpCreate, text("1", "a")))
		h.must(t, "SET GLOBAL local_infile = OFF")
		defer h.must(t, "SET GLOBAL local_infile = ON")
		mustApply(t, s, ev(tab, event.OpCreate, text("2", "b")), ev(tab, event.OpCreate, text("3", "c")))
		if s.conn.loads {
			t.Error("the session still loads")
		}
		other := h.open(t, "other", nil)
		other.loadFrom = 1
		mustApply(t, other, ev(tab, event.OpCreate, text("4", "d")))
		if got := h.rows(t, "SELECT id, v FROM t ORDER BY id"); !slices.Equal(got, []string{"1|a", "2|b", "3|c", "4|d"}) {
			t.Errorf("rows %q", got)
		}
	})
}
