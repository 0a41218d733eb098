package schema

import (
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
)

var schemaSeed = flag.Uint64("schema.seed", 1, "seed of the random streams; 0 is the time")

func seed(t *testing.T) uint64 {
	s := *schemaSeed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("-schema.seed %d", s)
	return s
}

// op is one input of a Book.
type op struct {
	sql   *binlog.Query
	table *binlog.Table
	read  []string
	ahead *binlog.Query
	gone  string
}

// randomOps is a stream of statements, table maps and reads of the catalog over few names, right and wrong ones.
func randomOps(f *feed, r *rand.Rand, n int) []op {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	name := func() string { return one("t", "u", "v", "_t_gho", "x.t") }
	columns := func() string {
		return one("id INT PRIMARY KEY", "id INT PRIMARY KEY, a VARCHAR(9) DEFAULT 'é'", "a VARCHAR(9), id INT PRIMARY KEY", "id BIGINT, e ENUM('p','it''s')", "id INT PRIMARY KEY, a VARCHAR(9), b INT INVISIBLE COMMENT 'c'")
	}
	var maps []*binlog.Table
	for range 30 {
		maps = append(maps, f.mapped("CREATE TABLE "+name()+" ("+columns()+")", r.IntN(3) == 0))
	}
	sql := func() *binlog.Query {
		q := statement(one("CREATE TABLE "+name()+" ("+columns()+")", "CREATE TABLE IF NOT EXISTS "+name()+" ("+columns()+")", "CREATE TABLE "+name()+" LIKE "+name(),
			"ALTER TABLE "+name()+" ADD z INT", "ALTER TABLE "+name()+" DROP a", "ALTER TABLE "+name()+" MODIFY a VARCHAR(9) FIRST", "ALTER TABLE "+name()+" RENAME TO "+name(), "ALTER TABLE "+name()+" ADD UNIQUE (id), ADD KEY (id)",
			"RENAME TABLE "+name()+" TO tmp, "+name()+" TO "+name()+", tmp TO "+name(), "DROP TABLE IF EXISTS "+name(), "TRUNCATE "+name(), "FROB "+name(), "DROP TABLE 'x", "CREATE DATABASE x CHARACTER SET latin1",
			"ALTER DATABASE x COLLATE utf8mb4_bin", "DROP DATABASE x", "CREATE TABLE "+name()+" SELECT 1", "BEGIN"))
		if r.IntN(20) == 0 {
			q.ErrorCode = 1
		}
		return q
	}
	var ops []op
	for range n {
		switch k := r.IntN(10); {
		case k < 4:
			ops = append(ops, op{sql: sql()})
		case k < 9:
			ops = append(ops, op{table: maps[r.IntN(len(maps))]})
		default:
			o := op{read: []string{"CREATE TABLE " + name() + " (" + columns() + ")"}, gone: "zz"}
			if r.IntN(2) == 0 {
				o.ahead = sql()
			}
			ops = append(ops, o)
		}
	}
	return ops
}

// apply gives one input to a Book, and its answer.
func (f *feed) apply(at int, o op) string {
	f.order = uint64(at)
	switch {
	case o.sql != nil:
		text, _ := json.Marshal(f.b.Statement(f.at(), o.sql).Tables)
		return string(text)
	case o.table != nil:
		return whole(f.b.Table(f.at(), o.table))
	}
	ahead := f.b.Ahead()
	if o.ahead != nil {
		ahead.Statement(o.ahead)
	}
	f.catalog(ahead, o.read, o.gone)
	return ""
}

// TestABookGoesOnAfterACrash ends a Book anywhere, restores another from the records that were written with the last commit, and feeds it from
// there: it answers as one that never ended.
func TestABookGoesOnAfterACrash(t *testing.T) {
	s := seed(t)
	described, crashes := 0, 0
	for run := range 120 {
		r := rand.New(rand.NewPCG(s, uint64(run)))
		steady, broken := newFeed(t, Options{}), newFeed(t, Options{})
		ops := randomOps(steady, r, 200)
		var want []string
		for i, o := range ops {
			want = append(want, steady.apply(i, o))
		}
		topic := map[string][]byte{}
		committed := 0
		commit := func(upTo int) {
			records, err := broken.b.Changes(Place{Order: uint64(upTo)})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range records {
				if topic[string(x.Key)] = x.Value; x.Value == nil {
					delete(topic, string(x.Key))
				}
			}
			committed = upTo
		}
		commit(0)
		for i := 0; i < len(ops); i++ {
			if got := broken.apply(i, ops[i]); got != want[i] {
				t.Fatalf("seed %d, run %d, step %d (%v) after a restart at %d:\n got %s\nwant %s", s, run, i, ops[i], committed, got, want[i])
			}
			if strings.HasPrefix(want[i], "[{") && ops[i].table != nil {
				described++
			}
			switch r.IntN(12) {
			case 0, 1:
				commit(i + 1)
			case 2:
				crashes++
				broken.b = New(broken.o)
				for _, k := range slices.Sorted(maps.Keys(topic)) {
					if err := broken.b.Restore([]byte(k), topic[k]); err != nil {
						t.Fatal(err)
					}
				}
				if broken.b.Place().Order > uint64(committed) {
					t.Fatalf("at %v, committed %d", broken.b.Place(), committed)
				}
				i = committed - 1
			}
		}
	}
	if described < 500 || crashes < 100 {
		t.Errorf("%d descriptions, %d crashes: the test tests little", described, crashes)
	}
}

func TestRecords(t *testing.T) {
	f := newFeed(t, Options{})
	f.sql("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(3) DEFAULT '<&>')", "CREATE TABLE u (a INT)")
	records, err := f.b.Changes(Place{Order: 7, Text: "x:7"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range records {
		got = append(got, string(r.Key)+" "+string(r.Value))
	}
	want := []string{
		`{"database":"d","table":"t"} {"version":1,"from":{"order":2,"text":"u:2"},"description":{"charset":"utf8mb4","columns":[{"name":"id","type":"int","length":-1,"scale":-1},` +
			`{"name":"s","type":"varchar","length":3,"scale":-1,"charset":"utf8mb4","nullable":true,"default":"<&>"}],"primary":["id"]}}`,
		`{"database":"d","table":"u"} {"version":1,"from":{"order":3,"text":"u:3"},"description":{"charset":"utf8mb4","columns":[{"name":"a","type":"int","length":-1,"scale":-1,"nullable":true}]}}`,
		`{"database":"d"} {"version":1,"known":true,"charset":"utf8mb4","complete":true}`,
		`{} {"version":1,"place":{"order":7,"text":"x:7"}}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if again, _ := f.b.Changes(Place{Order: 8}); again != nil {
		t.Errorf("written again: %s", again)
	}
	f.sql("DROP TABLE u")
	records, _ = f.b.Changes(Place{Order: 9})
	if len(records) != 2 || string(records[0].Key) != `{"database":"d","table":"u"}` || records[0].Value != nil {
		t.Errorf("%s", records)
	}
	for _, bad := range []struct{ key, value string }{
		{`{"database":"d","table":"t"}`, `{"version":2}`}, {`{"database":"d","table":"t"}`, `{}`}, {`{"database":"d","table":"t"}`, `{"version":1,"more":1}`},
		{`{"database":"d"`, `{"version":1}`}, {`{}`, `7`}, {`{"database":"d"}`, `{"version":9}`},
	} {
		if err := New(Options{}).Restore([]byte(bad.key), []byte(bad.value)); !errors.Is(err, ErrRecord) {
			t.Errorf("%s %s: %v", bad.key, bad.value, err)
		}
	}
}
