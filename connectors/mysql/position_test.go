package mysql

import (
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/mysql/gtid"
)

// TestPointsHoldWhatWasExecuted adds transactions one by one: runs, holes, other servers, MariaDB's domains; the text is the set's, also
// after it was stored and read.
func TestPointsHoldWhatWasExecuted(t *testing.T) {
	const a, b = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
	for _, tc := range []struct {
		kind, base, want string
		add              []string
	}{
		{KindMySQL, a + ":1-5", a + ":1-8", []string{a + ":6", a + ":7", a + ":8"}},
		{KindMySQL, "", a + ":3:5-6", []string{a + ":3", a + ":5", a + ":6"}},
		{KindMySQL, a + ":1-2", a + ":1-4,\n" + b + ":1-2", []string{a + ":3", b + ":1", a + ":4", b + ":2"}},
		{KindMySQL, a + ":1-2", a + ":1-2:tag:1-2", []string{a + ":tag:1", a + ":tag:2"}},
		{KindMariaDB, "0-1-5", "0-1-8", []string{"0-1-6", "0-1-7", "0-1-8"}},
		{KindMariaDB, "0-1-5", "0-2-7,1-1-1", []string{"0-1-6", "1-1-1", "0-2-7"}},
		{KindMariaDB, "0-1-5", "0-2-3", []string{"0-2-2", "0-2-3"}}, // a failover where numbers fall
	} {
		flavour := gtid.MySQL
		if tc.kind == KindMariaDB {
			flavour = gtid.MariaDB
		}
		base, err := gtid.Parse(flavour, tc.base)
		if err != nil {
			t.Fatal(err)
		}
		p := &point{base: base}
		for i, text := range tc.add {
			g, err := gtid.ParseGTID(flavour, text)
			if err != nil {
				t.Fatal(err)
			}
			if p.has(g) {
				t.Errorf("%v: %s is there before it was added", tc, text)
			}
			if p, err = p.after(&g, place{"f.000001", uint64(i)}, 0); err != nil {
				t.Fatal(err)
			}
			if flavour == gtid.MySQL && !p.has(g) {
				t.Errorf("%v: %s is not there after it was added", tc, text)
			}
		}
		if p.String() != tc.want || p.commits != uint64(len(tc.add)) {
			t.Errorf("%v: %q after %d", tc, p, p.commits)
		}
		if base.String() != strings.ReplaceAll(tc.base, ",", ",\n") {
			t.Errorf("%v: the base is now %s", tc, base)
		}
		stored, err := (&resume{point: p, source: tc.kind}).append(nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := parseResume(stored)
		if err != nil || r.point.String() != tc.want || r.point.commits != p.commits || r.point.at != p.at {
			t.Errorf("%v: stored as %s, read as %+v: %v", tc, stored, r, err)
		}
		set, _ := p.executed()
		if got := r.point.base.Loose(); len(got) != len(set.Loose()) {
			t.Errorf("%v: loose domains %v, stored %v", tc, set.Loose(), got)
		}
	}
}

// TestM11BinlogFilesCompareByNumber: their names do not.
func TestM11BinlogFilesCompareByNumber(t *testing.T) {
	if fileNumber("bin.999999") >= fileNumber("bin.1000000") || fileNumber("mysql-bin.000010") != 10 || fileNumber("x") != 0 {
		t.Fatal(fileNumber("bin.999999"), fileNumber("bin.1000000"))
	}
}

// TestResumePointsOfOthersAreRefused: another version, another kind, damage.
func TestResumePointsOfOthersAreRefused(t *testing.T) {
	c := &Config{}
	c.Prefix = "p"
	for text, want := range map[string]string{
		`{"version":2}`: "another version of Rowtrail",
		`{"version":1,"source":"mariadb","gtid":"0-1-1"}`: "is of a mariadb connector",
		`{"version":1,"source":"mysql","gtid":"0-1-1"}`:   "cannot be read",
		`{`: "cannot be read",
	} {
		if _, err := c.readResume([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
