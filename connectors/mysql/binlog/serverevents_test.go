package binlog

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

// seen is an event as a line of text, without what differs from run to run.
func (s *source) seen(packets [][]byte) (lines []string, gtids []string) {
	s.t.Helper()
	d := NewDecoder(Options{})
	for i, p := range packets {
		for e, err := d.Decode(p); ; e, err = d.Next() {
			if err != nil {
				s.t.Fatal(err)
			}
			if e == nil {
				break
			}
			if e.Header.LogPos != 0 && e.Header.Flags&FlagArtificial == 0 && e.Kind != KindRotate && uint32(e.End) != e.Header.LogPos {
				s.t.Errorf("event %d ends at %d, the decoder says %d", i, e.Header.LogPos, e.End)
			}
			switch q := &e.Query; e.Kind {
			case KindBegin, KindCommit, KindRollback:
				lines = append(lines, map[Kind]string{KindBegin: "begin", KindCommit: "commit", KindRollback: "rollback"}[e.Kind])
			case KindSavepoint:
				lines = append(lines, "savepoint "+string(q.Text))
			case KindXA:
				lines = append(lines, string(q.Text))
			case KindXAPrepare:
				lines = append(lines, fmt.Sprintf("XA PREPARE %s %t", e.XA.XID, e.XA.OnePhase))
			case KindXID:
				lines = append(lines, "xid")
			case KindQuery:
				if q.Thread == 0 || !q.HasSQLMode || q.Charset.Client == 0 {
					s.t.Errorf("query %s: %+v", q.Text, q)
				}
				lines = append(lines, fmt.Sprintf("query %s: %s", q.Schema, q.Text))
			case KindRows:
				lines = append(lines, fmt.Sprintf("rows %c %s", e.Rows.Op, e.Rows.Table.Name))
			case KindRowsQuery:
				lines = append(lines, "statement "+string(e.Text))
			case KindGTID:
				gtids = append(gtids, string(e.GTID.Append(nil)))
			}
		}
	}
	return lines, gtids
}

func (s *source) events() {
	mixed := "INSERT INTO evm VALUES (1)"
	if !s.m.MariaDB() {
		mixed = "INSERT INTO ev VALUES (3)" // with GTIDs it refuses to mix engines
	}
	lines, gtids := s.seen(s.capture("DROP TABLE IF EXISTS ev, evm", "CREATE TABLE ev (id INT PRIMARY KEY)", "CREATE TABLE evm (id INT) ENGINE=MyISAM",
		"BEGIN", "INSERT INTO ev VALUES (1)", "/* c */ SAVEPOINT sp1", "INSERT INTO ev VALUES (2)", "SAVEPOINT sp2", mixed, "ROLLBACK TO sp2", "COMMIT",
		"INSERT INTO evm VALUES (2)",
		"XA START 'a','b'", "INSERT INTO ev VALUES (7)", "XA END 'a','b'", "XA PREPARE 'a','b'", "XA COMMIT 'a','b'",
		"SET SESSION binlog_format=STATEMENT", "INSERT INTO ev VALUES (8)", "SET SESSION binlog_format=ROW",
		"TRUNCATE ev"))
	text := strings.Join(lines, "\n")
	wanted := []string{
		"query it: CREATE TABLE ev (id INT PRIMARY KEY)", "rows c ev", "savepoint", "xid\n", "rows c evm", "commit\n", "XA PREPARE X'61',X'62',1 false", "XA COMMIT X'61',X'62',1", "query it: INSERT INTO ev VALUES (8)", "query it: TRUNCATE ev",
	}
	if !s.m.MariaDB() {
		wanted = append(wanted, "begin\n", "XA START X'61',X'62',1")
	}
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			s.t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	if len(gtids) < 8 {
		s.t.Errorf("%d GTIDs", len(gtids))
	}
}

func (s *source) gtids() {
	if s.m.MariaDB() {
		packets := s.capture("SET gtid_domain_id=7", "CREATE OR REPLACE TABLE gt (id INT)", "INSERT INTO gt VALUES (1)", "SET SESSION gtid_domain_id=0", "INSERT INTO gt VALUES (2)")
		_, gtids := s.seen(packets)
		pos := strings.Split(s.query("SELECT @@gtid_binlog_pos")[0][0], ",")
		for _, g := range pos {
			if !slices.Contains(gtids, g) {
				s.t.Errorf("%s is not among %v", g, gtids)
			}
		}
		if len(pos) != 2 {
			s.t.Errorf("position %v", pos)
		}
		d := NewDecoder(Options{})
		var flags []string
		for _, p := range packets {
			e, err := d.Decode(p)
			if err != nil {
				s.t.Fatal(err)
			}
			if e.Kind == KindGTID {
				flags = append(flags, fmt.Sprint(e.GTID.Standalone, e.GTID.DDL, e.GTID.Transactional))
			}
		}
		if want := []string{"true true false", "false false true", "false false true"}; !slices.Equal(flags, want) {
			s.t.Errorf("flags %v", flags)
		}
		var alters []string
		d = NewDecoder(Options{})
		for _, p := range s.capture("SET binlog_alter_two_phase=ON", "ALTER TABLE gt ADD c INT") {
			e, err := d.Decode(p)
			if err != nil {
				s.t.Fatal(err)
			}
			if g := e.GTID; e.Kind == KindGTID {
				alters = append(alters, fmt.Sprint(g.StartAlter, g.CommitAlter, g.AlterNumber != 0 && g.AlterNumber == g.Number-1))
			}
		}
		if want := []string{"true false false", "false true true"}; !slices.Equal(alters, want) {
			s.t.Errorf("ALTER TABLE in two phases: %v", alters)
		}
		return
	}
	packets := s.capture("DROP TABLE IF EXISTS gt", "CREATE TABLE gt (id INT)", "SET gtid_next='AUTOMATIC:tag_1'", "INSERT INTO gt VALUES (1)", "INSERT INTO gt VALUES (2)", "SET gtid_next='AUTOMATIC'", "INSERT INTO gt VALUES (3)")
	_, gtids := s.seen(packets)
	uuid := s.query("SELECT @@server_uuid")[0][0]
	executed := s.query("SELECT REPLACE(@@gtid_executed,'\n','')")[0][0]
	if len(gtids) != 5 || !strings.HasPrefix(gtids[0], uuid+":") || gtids[2] != uuid+":tag_1:1" || gtids[3] != uuid+":tag_1:2" || !strings.HasSuffix(executed, ":tag_1:1-2") {
		s.t.Errorf("%v of %s, executed %s", gtids, uuid, executed)
	}
	d := NewDecoder(Options{})
	var last int64
	var start uint64
	var length uint64
	previous := ""
	for _, p := range packets {
		e, err := d.Decode(p)
		if err != nil {
			s.t.Fatal(err)
		}
		switch e.Kind {
		case KindPreviousGTIDs:
			previous = string(e.Text)
		case KindGTID:
			g := e.GTID
			if length != 0 && e.End-uint64(e.Header.Size) != start+length {
				s.t.Errorf("a transaction of %d bytes at %d, the next begins at %d", length, start, e.End-uint64(e.Header.Size))
			}
			start, length = e.End-uint64(e.Header.Size), g.Length
			if g.Committed/1e6 < uint64(e.Header.Timestamp) || g.Committed/1e6 > uint64(e.Header.Timestamp)+60 || g.Original != g.Committed || g.SequenceNumber != last+1 || g.LastCommitted >= g.SequenceNumber {
				s.t.Errorf("%+v at %d", g, e.Header.Timestamp)
			}
			last = g.SequenceNumber
		}
	}
	if !strings.HasPrefix(previous, uuid+":1") {
		s.t.Errorf("before the file: %q", previous)
	}
	// The next file begins with all of this one, tags included.
	d = NewDecoder(Options{})
	executed = s.query("SELECT REPLACE(@@gtid_executed,'\n','')")[0][0]
	for _, p := range s.capture() {
		e, err := d.Decode(p)
		if err != nil {
			s.t.Fatal(err)
		}
		if e.Kind == KindPreviousGTIDs && string(e.Text) != executed {
			s.t.Errorf("before the file %s, executed %s", e.Text, executed)
		}
	}
}

// metadata checks what a table map tells of a table, and how tables that are described otherwise agree with it.
func (s *source) metadata() {
	invisible := "INVISIBLE"
	packets := s.capture("DROP TABLE IF EXISTS md", "CREATE TABLE md (b VARCHAR(30) NOT NULL, a INT UNSIGNED NOT NULL, u BIGINT, bin VARBINARY(5), l VARCHAR(5) CHARACTER SET latin1, `ä``ö` TEXT COLLATE utf8mb4_unicode_ci, "+
		"e ENUM('x','y,z') CHARACTER SET latin1, st SET('p','q') NOT NULL, p POINT, ge GEOMETRY, d DECIMAL(12,4), f DOUBLE UNSIGNED, hid INT "+invisible+", yr YEAR, bt BIT(3), tm DATETIME(3), PRIMARY KEY (a, b(7)))",
		"INSERT INTO md (a,b,st) VALUES (1,'x','p')")
	d := NewDecoder(Options{})
	var t *Table
	for _, p := range packets {
		e, err := d.Decode(p)
		if err != nil {
			s.t.Fatal(err)
		}
		if e.Kind == KindTable {
			t = e.Table
		}
	}
	if t == nil || t.Err != nil || t.Collection() != "it.md" || !t.Named || !t.Signed || !t.Charsets {
		s.t.Fatalf("%+v", t)
	}
	if fmt.Sprint(t.PrimaryKey) != "[{1 0} {0 7}]" {
		s.t.Errorf("key %v", t.PrimaryKey)
	}
	var described []Described
	for i, row := range s.query("SELECT column_name, is_nullable, column_type, IFNULL(collation_name,''), data_type FROM information_schema.columns WHERE table_schema='it' AND table_name='md' ORDER BY ordinal_position") {
		c := t.Columns[i]
		of := s.cs[c.Collation]
		collation, _, _ := strings.Cut(row[3], "_")
		if c.Name != row[0] || c.Nullable != (row[1] == "YES") || c.Unsigned != (strings.Contains(row[2], "unsigned") || row[4] == "year" && c.Unsigned) || (row[3] != "" && of != collation) {
			s.t.Errorf("%v: %+v (%s)", row, c, of)
		}
		described = append(described, Described{Type: row[2]})
	}
	for i, c := range t.Columns {
		if c.Invisible != (c.Name == "hid") && !s.m.MariaDB() {
			s.t.Errorf("%d: %+v", i, c)
		}
	}
	if c := t.Columns; fmt.Sprint(c[6].Labels, c[7].Labels) != "[x y,z] [p q]" || c[8].Geometry != 1 || c[9].Geometry != 0 || c[3].Collation != collationBinary {
		s.t.Errorf("%+v", c)
	}
	if err := t.Agrees(described); err != nil {
		s.t.Error(err)
	}
	for i, wrong := range []string{"char(30)", "bigint", "int", "int", "text", "varchar(5)", "enum('a')", "set('1','2','3','4','5','6','7','8','9')", "text", "json", "decimal(12,5)", "float", "bigint", "int", "bit(4)", "datetime(2)"} {
		if i == 6 { // as many bytes as it has
			continue
		}
		other := slices.Clone(described)
		other[i].Type = wrong
		if t.Agrees(other) == nil {
			s.t.Errorf("column %s of type %s agrees with %s", t.Columns[i].Name, described[i].Type, strconv.Quote(wrong))
		}
	}
	if t.Agrees(described[1:]) == nil {
		s.t.Error("a table with a column less agrees")
	}
}

// vectors counts VECTOR columns where the server does, so that the charsets after one are those of their columns.
func (s *source) vectors() {
	if s.m.MariaDB() {
		return // its vectors are VARBINARY
	}
	for _, t := range []string{"a VARCHAR(3) CHARACTER SET latin1, v VECTOR(2), b VARBINARY(3), c VARCHAR(3) CHARACTER SET latin1", "v VECTOR(2), a VARCHAR(3) CHARACTER SET latin1, b VARCHAR(3) CHARACTER SET gbk",
		"b BLOB, v VECTOR(2), w VECTOR(2), a VARCHAR(3) CHARACTER SET latin1, e ENUM('x') CHARACTER SET gbk"} {
		d := NewDecoder(Options{})
		for _, p := range s.capture("DROP TABLE IF EXISTS vc", "CREATE TABLE vc ("+t+")", "INSERT INTO vc VALUES ()") {
			e, err := d.Decode(p)
			if err != nil {
				s.t.Fatal(err)
			}
			if e.Kind != KindTable {
				continue
			}
			if e.Table.Err != nil {
				s.t.Errorf("%s: %v", t, e.Table.Err)
			}
			for _, c := range e.Table.Columns {
				want := map[string]string{"a": "latin1", "b": "binary", "c": "latin1", "e": "gbk", "v": "binary", "w": "binary"}[c.Name]
				if c.Name == "b" && strings.Contains(t, "b VARCHAR") {
					want = "gbk"
				}
				if s.cs[c.Collation] != want {
					s.t.Errorf("%s: %s has %s", t, c.Name, s.cs[c.Collation])
				}
			}
		}
	}
}

// files reads on over the end of a file: positions begin anew, and table maps do not outlive it.
func (s *source) files() {
	packets := s.capture("DROP TABLE IF EXISTS fl", "CREATE TABLE fl (id INT)", "INSERT INTO fl VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO fl VALUES (2)")
	d := NewDecoder(Options{})
	var files []string
	rows := 0
	for _, p := range packets {
		e, err := d.Decode(p)
		if err != nil {
			s.t.Fatal(err)
		}
		switch e.Kind {
		case KindRotate:
			if name := string(e.Rotate.File); !slices.Contains(files, name) {
				files = append(files, name)
			}
			if e.End != 4 {
				s.t.Errorf("%+v ends at %d", e.Rotate, e.End)
			}
		case KindRows:
			rows++
			if uint32(e.End) != e.Header.LogPos && e.Header.LogPos != 0 {
				s.t.Errorf("rows end at %d, %d", e.End, e.Header.LogPos)
			}
		}
	}
	if len(files) != 3 || rows != 2 {
		s.t.Errorf("files %v, %d rows", files, rows)
	}
}

// hidden has columns that only an index has: no binlog has them.
func (s *source) hidden() {
	if s.m.MariaDB() {
		return
	}
	rows, _ := s.decodeAll(s.capture("DROP TABLE IF EXISTS mv", "CREATE TABLE mv (id INT PRIMARY KEY, j JSON, a INT, INDEX m ((CAST(j->'$.a' AS UNSIGNED ARRAY))), INDEX f ((a+1)))",
		`INSERT INTO mv VALUES (1, '{"a":[1,2]}', 7)`, "UPDATE mv SET a=8", "ALTER TABLE mv ADD COLUMN z INT FIRST, ALGORITHM=INSTANT", "UPDATE mv SET a=9", "CREATE TABLE IF NOT EXISTS gipk (a INT)",
		"SET SESSION sql_generate_invisible_primary_key=ON", "DROP TABLE gipk", "CREATE TABLE gipk (a INT)", "INSERT INTO gipk VALUES (5)"), nil)
	var got []string
	for _, r := range rows {
		got = append(got, strings.Join(r.after, ","))
	}
	if want := []string{`1,{"a": [1, 2]},7`, `1,{"a": [1, 2]},8`, `NULL,1,{"a": [1, 2]},9`, "1,5"}; !slices.Equal(got, want) {
		s.t.Errorf("%q", got)
	}
}

// byGTID dumps from a GTID in the middle: the server begins with events of its own making, and leaves transactions out.
func (s *source) byGTID() {
	s.exec("", "FLUSH BINARY LOGS")
	s.exec(testDatabase, "DROP TABLE IF EXISTS bg", "CREATE TABLE bg (id INT)", "INSERT INTO bg VALUES (1), (2)")
	variable := "@@global.gtid_executed"
	if s.m.MariaDB() {
		variable = "@@gtid_binlog_pos"
	}
	set := s.query("SELECT REPLACE(" + variable + ",'\n','')")[0][0]
	s.exec(testDatabase, "INSERT INTO bg VALUES (3)", "INSERT INTO bg VALUES (4)", "FLUSH BINARY LOGS")
	parsed, err := mysql.ParseGTIDSet(s.m.Flavour(), set)
	if err != nil {
		s.t.Fatal(err)
	}
	syncer := s.syncer()
	defer syncer.Close()
	stream, err := syncer.StartSyncGTID(parsed)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	var packets [][]byte
	for ends := 0; ends < 2; {
		e, err := stream.GetEvent(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		packets = append(packets, slices.Clone(e.RawData))
		if e.Header.EventType == replication.XID_EVENT {
			ends++
		}
	}
	rows, _ := s.decodeAll(packets, nil)
	if len(rows) != 2 || rows[0].after[0] != "3" || rows[1].after[0] != "4" {
		s.t.Errorf("%v", rows)
	}
	s.seen(packets)
}
