package chunks

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/mysql/gtid"
)

func intKey(names ...string) Key {
	k := Key{Name: primary}
	for _, n := range names {
		k.Columns = append(k.Columns, KeyColumn{Name: n, DataType: "int"})
	}
	return k
}

func TestPlan(t *testing.T) {
	table := Table{Database: "d`b", Name: "t", Columns: []string{"a", "b", "e"}, Keys: []Key{intKey("a", "b")}}
	one := Value{kind: kindInt, number: math.MaxUint64} // -1
	text := Value{kind: kindText, charset: "latin1", bytes: "\xe9'"}
	for _, c := range []struct{ name, got, want string }{
		{"first", NewPlan(table, "", "").Chunk(nil, Cursor{one, text}, 7),
			"SELECT `a`, `b`, `e` FROM `d``b`.`t` FORCE INDEX (`PRIMARY`) WHERE (`a` < -1 OR (`a` = -1 AND `b` <= _latin1 x'e927')) ORDER BY `a`, `b` LIMIT 7"},
		{"next", NewPlan(table, "b > 3 -- x", "").Chunk(Cursor{one, one}, Cursor{one, text}, 7),
			"SELECT `a`, `b`, `e` FROM `d``b`.`t` FORCE INDEX (`PRIMARY`) WHERE (`a` > -1 OR (`a` = -1 AND `b` > -1)) AND (`a` < -1 OR (`a` = -1 AND `b` <= _latin1 x'e927')) AND (b > 3 -- x\n) ORDER BY `a`, `b` LIMIT 7"},
		{"last", NewPlan(table, "b > 3", "").Last(), "SELECT `a`, `b` FROM `d``b`.`t` FORCE INDEX (`PRIMARY`) ORDER BY `a` DESC, `b` DESC LIMIT 1"},
		{"override", NewPlan(table, "", "SELECT * FROM t WHERE x -- y").Chunk(nil, Cursor{one, one}, 7),
			"SELECT `a`, `b`, `e` FROM (SELECT * FROM t WHERE x -- y\n) AS rowtrail_rows WHERE (`a` < -1 OR (`a` = -1 AND `b` <= -1)) ORDER BY `a`, `b` LIMIT 7"},
		{"whole", NewPlan(Table{Database: "d", Name: "t", Columns: []string{"a"}}, "a > 1", "").Whole(), "SELECT `a` FROM `d`.`t` WHERE (a > 1\n)"},
	} {
		if c.got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, c.got, c.want)
		}
	}
	table.Keys[0].Columns[1].Name, table.Keys[0].Columns[1].DataType = "e", "ENUM"
	p := NewPlan(table, "", "")
	want := "SELECT `a`, `b`, `e`, CAST(`e` AS UNSIGNED) FROM `d``b`.`t` FORCE INDEX (`PRIMARY`) WHERE (`a` < -1 OR (`a` = -1 AND CAST(`e` AS UNSIGNED) <= -1)) ORDER BY `a`, `e` LIMIT 7"
	if got := p.Chunk(nil, Cursor{one, one}, 7); got != want || !slices.Equal(p.places, []int{0, 3}) || !slices.Equal(p.identity, []int{0, 2}) {
		t.Errorf("%s, %v, %v", got, p.places, p.identity)
	}
	table.Keys[0].Columns = append(table.Keys[0].Columns, KeyColumn{Name: "b", DataType: "int"})
	want = "(`a` > 1 OR (`a` = 1 AND (`b` > 2 OR (`b` = 2 AND `e` > 3))))"
	table.Keys[0] = intKey("a", "b", "e")
	if got := NewPlan(table, "", "").Chunk(Cursor{{kind: kindUint, number: 1}, {kind: kindUint, number: 2}, {kind: kindUint, number: 3}}, nil, 7); !strings.Contains(got, want) {
		t.Errorf("%s, without %s", got, want)
	}
}

func TestChooseKey(t *testing.T) {
	key := func(name string, change func(*KeyColumn)) Key {
		k := intKey("a", "b")
		k.Name = name
		if change != nil {
			change(&k.Columns[1])
		}
		return k
	}
	nullable, partial := func(c *KeyColumn) { c.Nullable = true }, func(c *KeyColumn) { c.Partial = true }
	labels, other := func(c *KeyColumn) { c.DataType = "SET" }, func(c *KeyColumn) { c.Name = "not read" }
	for _, c := range []struct {
		keys []Key
		want string
	}{
		{nil, ""},
		{[]Key{key("u", nil), key("PRIMARY", nil)}, "PRIMARY"},
		{[]Key{key("PRIMARY", partial), key("n", nullable), key("u", nil)}, "u"},
		{[]Key{key("PRIMARY", labels), key("u", nil)}, "PRIMARY"},
		{[]Key{key("e", labels), key("u", nil), key("v", nil)}, "u"},
		{[]Key{key("e", labels)}, "e"},
		{[]Key{key("PRIMARY", other)}, ""},
		{[]Key{{Name: "functional"}}, ""},
	} {
		table := Table{Columns: []string{"b", "a"}, Keys: c.keys}
		got := ""
		if k := table.ChooseKey(); k != nil {
			got = k.Name
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.keys, got, c.want)
		}
	}
}

func TestNextRows(t *testing.T) {
	for _, c := range []struct {
		limit, rows int
		bytes       int64
		want        int
	}{
		{1024, 0, 0, 1024},
		{1024, 1024, 1024 * 100, 4096},
		{4096, 4096, 4096 * 100, 16384},
		{1024, 1024, 1024 * 2048, 1024},
		{1024, 1024, 1024 * 1e6, minRows},
		{1024, 1, 1 << 30, minRows},
		{1 << 16, 1 << 16, 1, maxRows},
		{1024, 3, 30, 4096},
	} {
		if got := nextRows(c.limit, c.rows, c.bytes); got != c.want {
			t.Errorf("after %d rows of %d, %d bytes: %d, want %d", c.rows, c.limit, c.bytes, got, c.want)
		}
	}
}

func TestPoints(t *testing.T) {
	set := func(text string) *gtid.Set {
		s, err := gtid.Parse(gtid.MySQL, text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	file := func(name string, pos uint64) Point { return Point{File: name, Pos: pos} }
	for _, c := range []struct {
		name string
		p, o Point
		want bool
		bad  bool
	}{
		{"the same", file("b.000001", 4), file("b.000001", 4), true, false},
		{"before", file("b.000001", 4), file("b.000001", 5), false, false},
		{"above 32 bits", file("b.000001", 1<<33), file("b.000001", 1<<33-1), true, false},
		{"a longer number", file("b.1000000", 4), file("b.999999", 99), true, false},
		{"a longer number before", file("b.999999", 99), file("b.1000000", 4), false, false},
		{"another server", Point{Server: "a", File: "b.000001", Pos: 9}, Point{Server: "b", File: "b.000001", Pos: 4}, false, true},
		{"sets", Point{GTIDs: set(simUUID + ":1-5")}, Point{GTIDs: set(simUUID + ":2-5")}, true, false},
		{"sets with a hole", Point{GTIDs: set(simUUID + ":1-3:5")}, Point{GTIDs: set(simUUID + ":2-5")}, false, false},
		{"both, one of which is behind", Point{GTIDs: set(simUUID + ":1-5"), File: "b.000001", Pos: 4}, Point{GTIDs: set(simUUID + ":1-5"), File: "b.000001", Pos: 5}, false, false},
		{"both, the other of which is behind", Point{GTIDs: set(simUUID + ":1-4"), File: "b.000001", Pos: 9}, Point{GTIDs: set(simUUID + ":1-5"), File: "b.000001", Pos: 5}, false, false},
		{"one has both", Point{GTIDs: set(simUUID + ":1-4"), File: "b.000001", Pos: 9}, file("b.000001", 9), true, false},
		{"nothing in common", Point{GTIDs: set(simUUID + ":1-4")}, file("b.000001", 9), false, true},
		{"no number", file("binlog", 4), file("b.000001", 4), false, true},
	} {
		got, err := c.p.Includes(c.o)
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
}

func tokenLoad(t testing.TB) *Load {
	l := NewLoad(Options{})
	p := NewPlan(Table{Database: "d", Name: "t", Columns: []string{"a"}, Keys: []Key{intKey("a")}}, "a > 1", "")
	if err := l.add(&Progress{Plan: p, Signal: "s1", Bounded: true, Rows: 9,
		After: Cursor{{kind: kindInt, number: math.MaxUint64}}, UpTo: Cursor{{kind: kindText, charset: "ucs2", bytes: "\x00\xff"}}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Add(NewPlan(Table{Database: "d", Name: "whole"}, "", ""), ""); err != nil {
		t.Fatal(err)
	}
	l.Pause()
	return l
}

func restore(token []byte, change func(*Plan)) (*Load, error) {
	l := NewLoad(Options{})
	return l, l.Restore(token, func(database, table, filter string) (*Plan, error) {
		if table == "gone" {
			return nil, nil
		}
		p := Table{Database: database, Name: table, Columns: []string{"a"}}
		if table != "whole" {
			p.Keys = []Key{intKey("a")}
		}
		made := NewPlan(p, filter, "")
		if change != nil {
			change(made)
		}
		return made, nil
	})
}

func TestToken(t *testing.T) {
	l := tokenLoad(t)
	token := l.AppendToken(nil)
	again, err := restore(token, nil)
	if err != nil || string(again.AppendToken(nil)) != string(token) || !again.Paused() || len(again.Tables()) != 2 {
		t.Fatal(err)
	}
	if p := again.Tables()[0]; p.Signal != "s1" || p.Plan.Filter != "a > 1" || p.Rows != 9 || !p.After.equal(l.Tables()[0].After) || !p.UpTo.equal(l.Tables()[0].UpTo) {
		t.Errorf("%+v", p)
	}
	// Another key of the same name, or of another type, begins anew.
	again, err = restore(token, func(p *Plan) {
		if p.key != nil {
			p.key.Columns[0].DataType = "varchar"
		}
	})
	if err != nil || again.Tables()[0].Bounded || again.Tables()[0].After != nil || again.Tables()[0].Rows != 0 {
		t.Errorf("%v, %+v", err, again.Tables()[0])
	}
	for n := range token {
		if _, err := restore(token[:n], nil); !errors.Is(err, ErrToken) {
			t.Errorf("%d bytes of %d: %v", n, len(token), err)
		}
	}
	if _, err := restore(append(token, 0), nil); !errors.Is(err, ErrToken) {
		t.Errorf("a byte more: %v", err)
	}
	token[0]++
	if _, err := restore(token, nil); !errors.Is(err, ErrToken) {
		t.Errorf("another version: %v", err)
	}
}

// FuzzToken: a token is refused or comes back, and no value of it gets out of its literal.
func FuzzToken(f *testing.F) {
	f.Add(tokenLoad(f).AppendToken(nil))
	f.Fuzz(func(t *testing.T, token []byte) {
		l, err := restore(token, nil)
		if err != nil {
			return
		}
		for _, p := range l.Tables() {
			for _, v := range append(slices.Clone(p.After), p.UpTo...) {
				inner := strings.TrimSuffix(v.literal(), "'")
				if _, text, ok := strings.Cut(inner, "'"); ok && v.kind != kindDate && v.kind != kindTime && v.kind != kindMoment {
					inner = text
				}
				if strings.ContainsAny(inner, "\\\"`;#") || strings.Count(v.literal(), "'") > 2 {
					t.Fatalf("%s", v.literal())
				}
			}
		}
		if again, err := restore(l.AppendToken(nil), nil); err != nil || len(again.Tables()) != len(l.Tables()) {
			t.Fatal(err)
		}
	})
}

func TestLocks(t *testing.T) {
	tables := []*Table{{Database: "d", Name: "a`b"}, {Database: "d", Name: "t"}}
	for _, c := range []struct {
		mode    string
		mariaDB bool
		want    string
	}{
		{"none", false, ""},
		{"minimal", false, "FLUSH TABLES WITH READ LOCK, LOCK TABLES"},
		{"extended", false, "FLUSH TABLES WITH READ LOCK, LOCK TABLES"},
		{"minimal", true, "BACKUP STAGE, FLUSH TABLES WITH READ LOCK, LOCK TABLES"},
		{"extended", true, "FLUSH TABLES WITH READ LOCK, LOCK TABLES"},
	} {
		locks, err := Locks(c.mode, c.mariaDB, tables)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, l := range locks {
			names = append(names, l.Name)
		}
		if got := strings.Join(names, ", "); got != c.want {
			t.Errorf("%s, MariaDB %v: %s, want %s", c.mode, c.mariaDB, got, c.want)
		}
	}
	if _, err := Locks("custom", false, tables); err == nil {
		t.Error("any mode is taken")
	}
	if got := LockTable(tables...).Take[0]; got != "LOCK TABLES `d`.`a``b` READ, `d`.`t` READ" {
		t.Error(got)
	}
}
