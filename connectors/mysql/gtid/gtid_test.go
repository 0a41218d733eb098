package gtid

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	u1 = "06e3a8f2-2d6e-11ef-9c5c-0242ac110002"
	u2 = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
)

// failer is a *testing.T, *testing.F or *rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func mustParse(t failer, f Flavour, s string) *Set {
	t.Helper()
	set, err := Parse(f, s)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func mustGTID(t failer, f Flavour, s string) GTID {
	t.Helper()
	g, err := ParseGTID(f, s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestTextIsTheServers(t *testing.T) {
	for _, c := range []struct {
		f        Flavour
		in, want string
	}{
		{MySQL, "", ""},
		{MySQL, " ,\n", ""},
		{MySQL, u1 + ":1", u1 + ":1"},
		{MySQL, u1 + ":1-3:5-7", u1 + ":1-3:5-7"},
		{MySQL, u1 + ":5-7:1-3:4:9-9", u1 + ":1-7:9"},
		{MySQL, u2 + ":1-3," + u1 + ":4", u1 + ":4,\n" + u2 + ":1-3"},
		{MySQL, u2 + ":1-3,\n" + u2 + ":4", u2 + ":1-4"},
		{MySQL, strings.ToUpper(u1) + " : 1 - 3 : TAG : 2", u1 + ":1-3:tag:2"},
		{MySQL, strings.ReplaceAll(u1, "-", "") + ":1", u1 + ":1"},
		// As MySQL 9.7 printed it.
		{MySQL, u1 + ":1-5:a_1:1:b:1-3:7,\n" + u2 + ":t:1", u1 + ":1-5:a_1:1:b:1-3:7,\n" + u2 + ":t:1"},
		{MySQL, u1 + ":b:2:a:1:9", u1 + ":a:1:9:b:2"},
		{MySQL, u1 + ":9223372036854775806", u1 + ":9223372036854775806"},
		{MariaDB, "", ""},
		{MariaDB, "0-1-5", "0-1-5"},
		{MariaDB, "7-2-18446744073709551615, 0-1-5", "0-1-5,7-2-18446744073709551615"},
	} {
		s := mustParse(t, c.f, c.in)
		if got := s.String(); got != c.want {
			t.Errorf("%s %q is printed %q, want %q", c.f, c.in, got, c.want)
		}
		if s.IsEmpty() != (c.want == "") {
			t.Errorf("%q: IsEmpty is %v", c.in, s.IsEmpty())
		}
	}
}

func TestBadTextIsRefused(t *testing.T) {
	for _, c := range []struct {
		f        Flavour
		in, want string
	}{
		{MySQL, "x", "no UUID"},
		{MySQL, u1, "neither a number nor a tag"},
		{MySQL, u1 + ":", "neither a number nor a tag"},
		{MySQL, u1 + ":tag", "without numbers"},
		{MySQL, u1 + ":1:tag:other:1", "tag tag has no numbers"},
		{MySQL, u1 + ":0", "not an interval"},
		{MySQL, u1 + ":3-2", "not an interval"},
		{MySQL, u1 + ":9223372036854775807", "not a number up to"},
		{MySQL, u1 + ":1-+3", "not a number"},
		{MySQL, u1 + ":t-g:1", "neither a number nor a tag"},
		{MySQL, u1 + ":" + strings.Repeat("t", 33) + ":1", "neither a number nor a tag"},
		{MySQL, "0-1-5", "no UUID"},
		{MariaDB, "0-1", "domain-server-number"},
		{MariaDB, "4294967296-1-1", "domain"},
		{MariaDB, "0-4294967296-1", "server"},
		{MariaDB, "0-1-18446744073709551616", "number"},
		{MariaDB, "0-1-1,0-2-2", "named twice"},
	} {
		if s, err := Parse(c.f, c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, %v; want an error that says %q", c.f, c.in, s, err, c.want)
		}
	}
}

func TestHostileSetsAreRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString(u1)
	for i := range MaxIntervals + 1 {
		fmt.Fprintf(&b, ":%d", 2*(MaxIntervals+1-i))
	}
	if _, err := Parse(MySQL, b.String()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too many intervals: %v", err)
	}
	b.Reset()
	for i := range MaxSources + 1 {
		fmt.Fprintf(&b, ",%s%06x:1", u1[:30], i)
	}
	if _, err := Parse(MySQL, b.String()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too many UUIDs: %v", err)
	}
	b.Reset()
	for i := range MaxSources + 1 {
		fmt.Fprintf(&b, ",%d-1-1", i)
	}
	if _, err := Parse(MariaDB, b.String()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too many domains: %v", err)
	}
	s, g := New(MySQL), mustGTID(t, MySQL, u1+":1")
	for i := range MaxIntervals {
		g.Number = uint64(2*i + 1)
		if err := s.Add(g); err != nil {
			t.Fatal(err)
		}
	}
	g.Number += 2
	if err := s.Add(g); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one interval too many was added: %v", err)
	}
	g.Number -= 3
	if err := s.Add(g); err != nil {
		t.Errorf("closing a hole of a full set: %v", err)
	}
}

// model is a set of small numbers of few sources.
type model map[string]bool

func (m model) set(t *rapid.T) *Set {
	s := New(MySQL)
	for _, k := range rapid.Permutation(slices.Sorted(maps.Keys(m))).Draw(t, "order") {
		if err := s.Add(mustGTID(t, MySQL, k)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func genModel(max int) *rapid.Generator[model] {
	return rapid.Custom(func(t *rapid.T) model {
		m := model{}
		for _, src := range []string{u1, u1 + ":a", u2 + ":b_2"} {
			from := uint64(1)
			if rapid.Bool().Draw(t, "at the end") {
				from = maxNumber - uint64(max)
			}
			for _, n := range rapid.SliceOfN(rapid.IntRange(0, max), 0, max).Draw(t, "numbers") {
				m[fmt.Sprintf("%s:%d", src, from+uint64(n))] = true
			}
		}
		return m
	})
}

func TestSetsAreAsModels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ma, mb := genModel(12).Draw(t, "a"), genModel(12).Draw(t, "b")
		a, b := ma.set(t), mb.set(t)
		union, less := a.Clone(), a.Clone()
		if err := union.Union(b); err != nil {
			t.Fatal(err)
		}
		if err := less.Subtract(b); err != nil {
			t.Fatal(err)
		}
		all := model{}
		subset := true
		for k := range mb {
			all[k] = true
			subset = subset && ma[k]
		}
		for k := range ma {
			all[k] = true
		}
		for k := range all {
			g := mustGTID(t, MySQL, k)
			if g.String() != k {
				t.Fatalf("%s is printed %s", k, g)
			}
			if a.Contains(g) != ma[k] || !union.Contains(g) || less.Contains(g) != (ma[k] && !mb[k]) {
				t.Fatalf("%s: a %v, union %v, less %v", k, a.Contains(g), union.Contains(g), less.Contains(g))
			}
		}
		rest := model{}
		for k := range ma {
			if !mb[k] {
				rest[k] = true
			}
		}
		if !less.Equal(rest.set(t)) || !union.Equal(all.set(t)) || a.ContainsSet(b) != subset {
			t.Fatalf("a %s, b %s, union %s, less %s", a, b, union, less)
		}
		for _, s := range []*Set{a, union, less} {
			again := mustParse(t, MySQL, s.String())
			if !again.Equal(s) || again.count != s.count {
				t.Fatalf("%s is read as %s; intervals %d, %d", s, again, s.count, again.count)
			}
			theirs, err := mysql.ParseMysqlGTIDSet(s.String())
			if err != nil {
				t.Fatal(err)
			}
			if strings.ReplaceAll(theirs.String(), ",", ",\n") != s.String() && s.String() != "" && !strings.Contains(s.String(), ":a") {
				t.Fatalf("go-mysql prints %s, we %s", theirs, s)
			}
			bytesOf, err := s.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := theirs.Encode(); !bytes.Equal(bytesOf, want) {
				t.Fatalf("%s: %x, go-mysql %x", s, bytesOf, want)
			}
			decoded, err := Decode(bytesOf)
			if err != nil || !decoded.Equal(s) {
				t.Fatalf("%s is decoded as %s: %v", s, decoded, err)
			}
		}
	})
}

func TestDumpBody(t *testing.T) {
	s := mustParse(t, MySQL, u1+":1-3:tag:5")
	got, err := s.AppendDump(nil, Dump{ServerID: 77, Position: 4})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := mysql.ParseMysqlGTIDSet(s.String())
	if err != nil {
		t.Fatal(err)
	}
	// As go-mysql's writeBinlogDumpMysqlGTIDCommand lays it out.
	want := []byte{0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0}
	want = binary.LittleEndian.AppendUint32(want, uint32(len(theirs.Encode())))
	want = append(want, theirs.Encode()...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := mustParse(t, MariaDB, "0-1-1").AppendDump(nil, Dump{}); err == nil {
		t.Error("a MariaDB position was encoded")
	}
}

func TestMariaDBDomains(t *testing.T) {
	s := New(MariaDB)
	for _, g := range []string{"0-1-1", "0-1-2", "0-2-3", "5-1-10"} {
		if err := s.Add(mustGTID(t, MariaDB, g)); err != nil {
			t.Fatal(err)
		}
	}
	contains := func(g string, want bool) {
		t.Helper()
		if got := s.Contains(mustGTID(t, MariaDB, g)); got != want {
			t.Errorf("%s contains %s: %v", s, g, got)
		}
	}
	contains("0-1-2", true)
	contains("0-9-1", true)
	contains("0-2-3", true)
	contains("0-1-3", false)
	contains("0-1-4", false)
	contains("1-1-1", false)
	if s.String() != "0-2-3,5-1-10" || s.Loose() != nil {
		t.Errorf("%s, loose %v", s, s.Loose())
	}
	if err := s.Add(mustGTID(t, MariaDB, "0-2-3")); err != nil || s.Loose() != nil {
		t.Errorf("the last GTID once more makes the domain loose: %v, %v", s.Loose(), err)
	}
	// Two servers write one domain without gtid_strict_mode.
	if err := s.Add(mustGTID(t, MariaDB, "0-1-3")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]uint32{0}, s.Loose()); diff != "" {
		t.Error(diff)
	}
	contains("0-1-3", true)
	contains("0-1-2", false)
	contains("5-1-9", true)
	again := mustParse(t, MariaDB, s.String())
	again.MarkLoose(0)
	if !again.Equal(s) {
		t.Errorf("%s read again is %s", s, again)
	}
	if err := s.Add(mustGTID(t, MySQL, u1+":1")); err == nil {
		t.Error("a MySQL GTID was added to a MariaDB position")
	}
}

func TestMariaDBUnion(t *testing.T) {
	for _, c := range []struct{ a, b, union, less string }{
		{"0-1-5", "0-1-7", "0-1-7", ""},
		{"0-1-7", "0-1-5", "0-1-7", "0-1-7"},
		{"0-1-7", "1-1-5", "0-1-7,1-1-5", "0-1-7"},
		{"0-1-7,1-2-3", "0-2-9", "0-2-9,1-2-3", "1-2-3"},
		{"", "0-2-9", "0-2-9", ""},
		{"0-1-7", "", "0-1-7", "0-1-7"},
	} {
		a, b := mustParse(t, MariaDB, c.a), mustParse(t, MariaDB, c.b)
		union := a.Clone()
		if err := union.Union(b); err != nil {
			t.Fatal(err)
		}
		if err := a.Subtract(b); err != nil {
			t.Fatal(err)
		}
		if union.String() != c.union || a.String() != c.less {
			t.Errorf("%s and %s: union %s, less %s", c.a, c.b, union, a)
		}
	}
}

func TestGaps(t *testing.T) {
	for _, c := range []struct {
		f                                        Flavour
		resume, executed, purged, missing, ahead string
	}{
		{MySQL, u1 + ":1-10", u1 + ":1-20", u1 + ":1-5", "", ""},
		{MySQL, u1 + ":1-10", u1 + ":1-20", u1 + ":1-15", u1 + ":11-15", ""},
		{MySQL, u1 + ":1-3:5-10", u1 + ":1-20", u1 + ":1-7", u1 + ":4", ""},
		// SET GLOBAL gtid_purged brings transactions of a server that was never read.
		{MySQL, u1 + ":1-10", u1 + ":1-20," + u2 + ":1-9", u2 + ":1-9", u2 + ":1-9", ""},
		{MySQL, u1 + ":1-10", u1 + ":1-8", "", "", u1 + ":9-10"},
		{MySQL, u1 + ":1-10:t:1", u1 + ":1-20", u1 + ":1-2:t:2", u1 + ":t:2", u1 + ":t:1"},
		{MariaDB, "0-1-10", "0-1-20", "0-1-5", "", ""},
		{MariaDB, "0-1-10", "0-1-20", "0-1-15", "0-1-15", ""},
		{MariaDB, "0-1-10", "0-1-20,3-1-4", "3-1-2", "3-1-2", ""},
		{MariaDB, "0-1-10", "0-1-9", "", "", "0-1-10"},
	} {
		g, err := MissingFrom(mustParse(t, c.f, c.resume), mustParse(t, c.f, c.executed), mustParse(t, c.f, c.purged))
		if err != nil {
			t.Fatal(err)
		}
		if g.Missing.String() != c.missing || g.Ahead.String() != c.ahead || g.Found() != (c.missing+c.ahead != "") {
			t.Errorf("%s of %s without %s: missing %q, ahead %q", c.resume, c.executed, c.purged, g.Missing, g.Ahead)
		}
	}
	e, err := Errant(mustParse(t, MySQL, u1+":1-8,"+u2+":1-2"), mustParse(t, MySQL, u1+":1-10"))
	if err != nil || e.String() != u2+":1-2" {
		t.Errorf("errant %s: %v", e, err)
	}
	if _, err := Errant(New(MySQL), New(MariaDB)); err == nil {
		t.Error("two flavours were compared")
	}
}

func TestAddingTheNextNumberAllocatesNothing(t *testing.T) {
	s, g := New(MySQL), mustGTID(t, MySQL, u1+":tag:1")
	if err := s.Add(g); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		g.Number++
		if err := s.Add(g); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(false, u1+":1-3:tag:5,\n"+u2+":7")
	f.Add(true, "0-1-5,7-2-9")
	f.Fuzz(func(t *testing.T, maria bool, text string) {
		flavour := MySQL
		if maria {
			flavour = MariaDB
		}
		s, err := Parse(flavour, text)
		if err != nil {
			return
		}
		again, err := Parse(flavour, s.String())
		if err != nil || !again.Equal(s) || again.String() != s.String() {
			t.Fatalf("%q is %q, then %q: %v", text, s, again, err)
		}
		left := s.Clone()
		if err := left.Subtract(s); err != nil || !left.IsEmpty() {
			t.Fatalf("%q less itself is %q: %v", s, left, err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	s := mustParse(f, MySQL, u1+":1-3:tag:5,"+u2+":7")
	b, _ := s.AppendBinary(nil)
	f.Add(b)
	f.Add(make([]byte, 8))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Decode(data)
		if err != nil {
			return
		}
		b, err := s.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(b)
		if err != nil || !again.Equal(s) {
			t.Fatalf("%s, then %s: %v", s, again, err)
		}
	})
}
