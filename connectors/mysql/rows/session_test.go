package rows

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
)

func twoFields() []Field {
	return []Field{{Schema: "d", Table: "t", Name: "id", Type: mysql.MYSQL_TYPE_LONG}, {Schema: "d", Table: "t", Name: "v", Type: mysql.MYSQL_TYPE_VAR_STRING, Collation: 45}}
}

// TestSession reads results as servers of both protocols end them, one after another.
func TestSession(t *testing.T) {
	rows := [][]byte{{0, 0, 1, 0, 0, 0, 1, 'a'}, {0, 8, 0xff, 0xff, 0xff, 0xff}}
	for _, old := range []bool{true, false} {
		for n := range 3 {
			conn := &fakeConn{packets: append(answer(old, twoFields(), rows[:n]...), answer(old, twoFields(), rows...)...)}
			s := NewSession(conn, plain)
			for i, want := range []int{n, 2} {
				if err := s.Select("SELECT"); err != nil {
					t.Fatal(old, n, err)
				}
				row := make(event.Row, 2)
				var got []string
				for {
					more, err := s.Next(row)
					if err != nil {
						t.Fatal(err)
					}
					if !more {
						break
					}
					got = append(got, strings.Join(show(row), ","))
				}
				if all := []string{"1,a", "-1,NULL"}; !slices.Equal(got, all[:want]) || conn.closed != i+1 {
					t.Errorf("old %v: %v of %d rows, %d closed", old, got, want, conn.closed)
				}
			}
			if conn.next != len(conn.packets) {
				t.Errorf("old %v, %d rows: %d packets of %d read", old, n, conn.next, len(conn.packets))
			}
		}
	}
}

// TestSessionRaw: the last row's columns stay as they came, also those that are not decoded.
func TestSessionRaw(t *testing.T) {
	s := NewSession(&fakeConn{packets: answer(false, twoFields(), []byte{0, 0, 1, 0, 0, 0, 1, 'a'}, []byte{0, 0, 2, 0, 0, 0, 1, 'b'}, []byte{0, 8, 3, 0, 0, 0})}, plain)
	if err := s.Select("SELECT"); err != nil {
		t.Fatal(err)
	}
	row := make(event.Row, 1)
	for _, want := range []string{"a", "b", ""} {
		if more, err := s.Next(row); err != nil || !more {
			t.Fatal(more, err)
		}
		if string(s.Raw(1)) != want || (s.Raw(1) == nil) != (want == "") {
			t.Errorf("%q, want %q", s.Raw(1), want)
		}
	}
	if string(s.Raw(0)) != "\x03\x00\x00\x00" || s.Fields()[1].Name != "v" {
		t.Errorf("%q, %v", s.Raw(0), s.Fields())
	}
}

// TestSessionErrors: errors of the server, of the user and of bytes that are cut; where the connection is still good, the next
// statement works.
func TestSessionErrors(t *testing.T) {
	failed := append([]byte{mysql.ERR_HEADER, 0x71, 0x04, '#', '4', '2', '0', '0', '0'}, "no such column"...)
	good := answer(false, twoFields(), []byte{0, 0, 1, 0, 0, 0, 1, 'a'})
	after := func(s *Session) error {
		if err := s.Select("SELECT"); err != nil {
			return err
		}
		row := make(event.Row, 2)
		if more, err := s.Next(row); err != nil || !more || show(row)[1] != "a" {
			return errors.Join(errors.New("the next statement"), err)
		}
		return s.Skip()
	}
	t.Run("at once", func(t *testing.T) {
		s := NewSession(&fakeConn{packets: append([][]byte{failed}, good...)}, plain)
		var e *mysql.MyError
		if err := s.Select("SELECT x"); !errors.As(err, &e) || e.Code != 1137 || !strings.Contains(err.Error(), "SELECT x") {
			t.Errorf("%v", err)
		}
		if err := after(s); err != nil {
			t.Error(err)
		}
	})
	t.Run("between rows", func(t *testing.T) {
		broken := answer(false, twoFields(), []byte{0, 0, 1, 0, 0, 0, 1, 'a'}, failed)
		s := NewSession(&fakeConn{packets: append(broken[:len(broken)-1], good...)}, plain)
		if err := s.Select("SELECT x"); err != nil {
			t.Fatal(err)
		}
		row := make(event.Row, 2)
		if more, err := s.Next(row); err != nil || !more {
			t.Fatal(more, err)
		}
		if more, err := s.Next(row); err == nil || more {
			t.Error("the error is passed over")
		}
		if err := after(s); err != nil {
			t.Error(err)
		}
	})
	t.Run("parameter", func(t *testing.T) {
		conn := &fakeConn{params: 1}
		if err := NewSession(conn, plain).Select("SELECT ?"); !errors.Is(err, ErrParameter) || conn.closed != 1 {
			t.Errorf("%v", err)
		}
	})
	t.Run("charset", func(t *testing.T) {
		no := errors.New("no such charset")
		for _, old := range []bool{true, false} {
			first := true
			s := NewSession(&fakeConn{packets: append(answer(old, twoFields(), []byte{0, 0, 1, 0, 0, 0, 1, 'a'}), answer(old, twoFields(), []byte{0, 0, 1, 0, 0, 0, 1, 'a'})...)},
				func(uint32) (binlog.Charset, error) {
					if first {
						first = false
						return nil, no
					}
					return nil, nil
				})
			var c *binlog.ColumnError
			if err := s.Select("SELECT"); !errors.Is(err, no) || !errors.As(err, &c) || c.Name != "v" || c.Table != "d.t" {
				t.Errorf("%v", err)
			}
			if err := after(s); err != nil {
				t.Errorf("old %v: %v", old, err)
			}
		}
	})
	t.Run("one before the end", func(t *testing.T) {
		s := NewSession(&fakeConn{packets: good}, plain)
		if err := s.Select("SELECT"); err != nil {
			t.Fatal(err)
		}
		if err := s.Select("SELECT"); err == nil {
			t.Error("two at a time")
		}
	})
}

// wideFields has a column of every form, with a row of it.
func wideFields() ([]Field, []byte, []string) {
	var fields []Field
	row := []byte{0}
	var values []byte
	var want []string
	add := func(f Field, value []byte, text string) {
		f.Name = text
		fields = append(fields, f)
		values = append(values, value...)
		want = append(want, text)
	}
	unsigned := uint16(mysql.UNSIGNED_FLAG)
	add(Field{Type: mysql.MYSQL_TYPE_TINY}, []byte{0x80}, "-128")
	add(Field{Type: mysql.MYSQL_TYPE_TINY, Flags: unsigned}, []byte{0x80}, "128")
	add(Field{Type: mysql.MYSQL_TYPE_SHORT}, []byte{0xff, 0xff}, "-1")
	add(Field{Type: mysql.MYSQL_TYPE_INT24}, []byte{0xff, 0xff, 0xff, 0xff}, "-1")
	add(Field{Type: mysql.MYSQL_TYPE_INT24, Flags: unsigned}, []byte{0xff, 0xff, 0xff, 0}, "16777215")
	add(Field{Type: mysql.MYSQL_TYPE_LONGLONG, Flags: unsigned}, slices.Repeat([]byte{0xff}, 8), "18446744073709551615")
	add(Field{Type: mysql.MYSQL_TYPE_FLOAT}, []byte{0xcd, 0xcc, 0xcc, 0x3d}, "0.1")
	add(Field{Type: mysql.MYSQL_TYPE_DOUBLE}, []byte{0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f}, "0.1")
	add(Field{Type: mysql.MYSQL_TYPE_YEAR, Flags: unsigned}, []byte{0, 0}, "0000")
	add(Field{Type: mysql.MYSQL_TYPE_YEAR, Flags: unsigned}, []byte{0x6b, 8}, "2155")
	add(Field{Type: mysql.MYSQL_TYPE_NEWDECIMAL, Collation: 63}, str(nil, "-12.340"), "-12.340")
	add(Field{Type: mysql.MYSQL_TYPE_NEWDECIMAL, Collation: 63, Flags: mysql.ZEROFILL_FLAG | unsigned}, str(nil, "00.50"), "0.50")
	add(Field{Type: mysql.MYSQL_TYPE_DATE}, []byte{0}, "0000-00-00")
	add(Field{Type: mysql.MYSQL_TYPE_DATE}, []byte{4, 0xe7, 7, 0, 15}, "2023-00-15")
	add(Field{Type: mysql.MYSQL_TYPE_DATETIME, Decimals: 3}, []byte{0}, "0000-00-00 00:00:00.000")
	add(Field{Type: mysql.MYSQL_TYPE_DATETIME}, []byte{4, 0xe8, 7, 2, 29}, "2024-02-29 00:00:00")
	add(Field{Type: mysql.MYSQL_TYPE_TIMESTAMP, Decimals: 1}, []byte{7, 0xe8, 7, 2, 29, 1, 2, 3}, "2024-02-29 01:02:03.0")
	add(Field{Type: mysql.MYSQL_TYPE_TIMESTAMP, Decimals: 4}, []byte{11, 0xe8, 7, 2, 29, 1, 2, 3, 0x3f, 0x42, 0x0f, 0}, "2024-02-29 01:02:03.9999")
	add(Field{Type: mysql.MYSQL_TYPE_TIME, Decimals: 2}, []byte{0}, "00:00:00.00")
	add(Field{Type: mysql.MYSQL_TYPE_TIME}, []byte{8, 1, 34, 0, 0, 0, 22, 59, 59}, "-838:59:59")
	add(Field{Type: mysql.MYSQL_TYPE_TIME, Decimals: 6}, []byte{12, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}, "-00:00:00.000001")
	add(Field{Type: mysql.MYSQL_TYPE_BIT, Length: 9}, []byte{2, 1, 5}, "100000101")
	add(Field{Type: mysql.MYSQL_TYPE_STRING, Collation: 45}, str(nil, "é  "), "é")
	add(Field{Type: mysql.MYSQL_TYPE_VAR_STRING, Collation: 45}, str(nil, "a  "), "a  ")
	add(Field{Type: mysql.MYSQL_TYPE_STRING, Collation: 45, Flags: mysql.ENUM_FLAG}, str(nil, "z "), "z ")
	add(Field{Type: mysql.MYSQL_TYPE_STRING, Collation: 63, Flags: mysql.SET_FLAG}, str(nil, "a,b"), "a,b")
	add(Field{Type: mysql.MYSQL_TYPE_STRING, Collation: 63, Length: 4}, str(nil, "\xab"), `\xab000000`)
	add(Field{Type: mysql.MYSQL_TYPE_BLOB, Collation: 63}, str(nil, ""), `\x`)
	add(Field{Type: mysql.MYSQL_TYPE_BLOB, Collation: 45}, str(nil, strings.Repeat("q", 300)), strings.Repeat("q", 300))
	add(Field{Type: mysql.MYSQL_TYPE_GEOMETRY, Collation: 63}, str(nil, "\x00\x01"), `\x0001`)
	add(Field{Type: mysql.MYSQL_TYPE_JSON, Collation: 63}, str(nil, `{"a": 1}`), `{"a": 1}`)
	row = append(row, make([]byte, (len(fields)+9)/8)...)
	return fields, append(row, values...), want
}

func TestForms(t *testing.T) {
	fields, packet, want := wideFields()
	l, err := newLayout(fields, plain)
	if err != nil {
		t.Fatal(err)
	}
	var d decoder
	d.reset(l)
	row := make(event.Row, len(fields))
	if err := d.decode(l, packet, row); err != nil {
		t.Fatal(err)
	}
	for i, got := range show(row) {
		if got != want[i] {
			t.Errorf("type %d: %q, want %q", fields[i].Type, got, want[i])
		}
	}
	// However it is cut, and whatever a byte is changed to, a row is an error or a row.
	for n := range packet {
		if d.decode(l, packet[:n], row) == nil {
			t.Errorf("%d bytes of %d are a row", n, len(packet))
		}
		for _, v := range []byte{0, 0xff, packet[n] ^ 1, 0xfb, 0xfe} {
			other := slices.Clone(packet)
			other[n] = v
			_ = d.decode(l, other, row)
		}
	}
	for _, f := range fields {
		p := definition(f)
		for n := range p {
			if n < len(p)-2 {
				if _, err := ParseField(p[:n]); err == nil {
					t.Errorf("%d bytes of %d are a definition", n, len(p))
				}
			}
		}
	}
}

func benchSession(t testing.TB, rows int) (*Session, *fakeConn, event.Row) {
	fields := []Field{{Type: mysql.MYSQL_TYPE_LONG}, {Type: mysql.MYSQL_TYPE_LONGLONG}, {Type: mysql.MYSQL_TYPE_VAR_STRING, Collation: 45},
		{Type: mysql.MYSQL_TYPE_NEWDECIMAL, Collation: 63}, {Type: mysql.MYSQL_TYPE_DATETIME}}
	packet := append([]byte{0, 0, 1, 2, 3, 4, 1, 2, 3, 4, 5, 0, 0, 0}, str(str(nil, "customer one"), "123456.25")...)
	packet = append(packet, 7, 0xe8, 7, 2, 29, 12, 34, 56)
	conn := &fakeConn{packets: answer(false, fields, packet), repeat: rows - 1, rowAt: 1 + len(fields)}
	s := NewSession(conn, plain)
	if err := s.Select("SELECT"); err != nil {
		t.Fatal(err)
	}
	return s, conn, make(event.Row, len(fields))
}

// BenchmarkRows is a row of INT, BIGINT, VARCHAR(20), DECIMAL(10,2) and DATETIME, from its packet.
func BenchmarkRows(b *testing.B) {
	s, conn, row := benchSession(b, 1<<40)
	b.ReportAllocs()
	b.SetBytes(int64(len(conn.packets[conn.rowAt])))
	for b.Loop() {
		if more, err := s.Next(row); err != nil || !more {
			b.Fatal(more, err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func TestRowsAllocateNothing(t *testing.T) {
	s, _, row := benchSession(t, 1<<20)
	if allocs := testing.AllocsPerRun(1000, func() {
		if more, err := s.Next(row); err != nil || !more {
			t.Fatal(more, err)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations a row", allocs)
	}
}
