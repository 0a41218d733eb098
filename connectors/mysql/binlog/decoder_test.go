package binlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// TestM8 tells events that stop capture from those that may be passed over.
func TestM8(t *testing.T) {
	incident := append([]byte{1, 0, 4}, "LOST"...)
	for _, c := range []struct {
		name  string
		typ   Type
		flags uint16
		body  []byte
		want  error
	}{
		{"incident", typeIncident, 0, incident, ErrIncident},
		{"ignorable incident", typeIncident, FlagIgnorable, incident, ErrIncident},
		{"rows of version 0", typeWriteRows0, 0, nil, ErrUnsupported},
		{"updates of version 0", typeUpdateRows0, FlagIgnorable, nil, ErrUnsupported},
		{"unknown", 99, 0, nil, ErrUnsupported},
		{"unknown, ignorable", 99, FlagIgnorable, nil, nil},
		{"unknown to MySQL 9", 43, 0, nil, ErrUnsupported},
		{"row in parts", typePartialRowData, 0, nil, ErrUnsupported},
		{"old LOAD", 6, 0, nil, ErrUnsupported},
		{"stop", typeStop, 0, nil, nil},
		{"rows without table map", typeWriteRows2, 0, append(rowsBody(1, 1), 0, 1), ErrNoTable},
	} {
		e, err := started(t, "9.7.0", true).Decode(packet(c.typ, c.flags, 200, c.body, true))
		var typed *EventError
		switch {
		case c.want == nil && (err != nil || e.Kind != KindNothing || e.End != 200):
			t.Errorf("%s: %+v, %v", c.name, e, err)
		case c.want != nil && (!errors.Is(err, c.want) || !errors.As(err, &typed) || typed.Type != c.typ || typed.Pos != 200):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestFraming(t *testing.T) {
	good := packet(typeXID, 0, 300, []byte{1, 2, 0, 0, 0, 0, 0, 0}, true)
	if e, err := started(t, "9.7.0", true).Decode(good); err != nil || e.XID != 513 || e.Kind != KindXID {
		t.Fatal(e, err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x40
		if _, err := started(t, "9.7.0", true).Decode(bad); !errors.Is(err, ErrChecksum) && !errors.Is(err, ErrMalformed) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	for n := range good {
		if _, err := started(t, "9.7.0", true).Decode(good[:n]); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d bytes of it: %v", n, err)
		}
	}
	if _, err := NewDecoder(Options{}).Decode(good); !errors.Is(err, ErrMalformed) {
		t.Errorf("before the format: %v", err)
	}
	if _, err := NewDecoder(Options{}).Decode(formatPacket("5.0.1", false)); err != nil {
		t.Error(err)
	}
	rotate := append([]byte{4, 0, 0, 0, 1, 0, 0, 0}, "mysql-bin.000009"...)
	for _, sum := range []bool{false, true} {
		e, err := NewDecoder(Options{}).Decode(packet(typeRotate, FlagArtificial, 0, rotate, sum))
		if err != nil || string(e.Rotate.File) != "mysql-bin.000009" || e.Rotate.Position != 1<<32+4 || e.End != 1<<32+4 {
			t.Errorf("%+v, %v", e, err)
		}
	}
}

// TestM11 keeps positions beyond 4 GiB, and those that headers leave out.
func TestM11(t *testing.T) {
	d := started(t, "11.8.2-MariaDB", false)
	at := func(pos uint32, want uint64) {
		t.Helper()
		e, err := d.Decode(packet(typeXID, 0, pos, make([]byte, 8), false))
		if err != nil || e.End != want {
			t.Errorf("%d is %d, want %d (%v)", pos, e.End, want, err)
		}
	}
	at(200, 200)
	at(0xffffffe0, 0xffffffe0)
	at(0, 0xfffffffb)
	at(50, 1<<32+50)
	at(0, 1<<32+77)
	at(77+27, 1<<32+77+27)
	beat := []byte{1, 3, 'b', '.', '1', 2, 9, 0xfe, 0, 0, 0, 0, 3, 0, 0, 0, 0}
	if e, err := d.Decode(packet(typeHeartbeat2, 0, 0, beat, false)); err != nil || e.Rotate.Position != 3<<32 || string(e.Rotate.File) != "b.1" || e.End != 3<<32 {
		t.Errorf("%+v, %v", e, err)
	}
	at(60, 3<<32+60)
	if e, err := d.Decode(packet(typeHeartbeat, 0, 90, []byte("b.1"), false)); err != nil || e.Rotate.Position != 3<<32+90 || string(e.Rotate.File) != "b.1" {
		t.Errorf("%+v, %v", e, err)
	}
}

func payloadBody(inner []byte, compressed bool) []byte {
	method, data := byte(255), inner
	if compressed {
		w, _ := zstd.NewWriter(nil)
		method, data = 0, w.EncodeAll(inner, nil)
	}
	b := []byte{payloadCompression, 1, method}
	if method == 255 {
		b = []byte{payloadCompression, 3, 0xfc, 255, 0}
	}
	size := func(n int) []byte { return []byte{5, 0xfd, byte(n), byte(n >> 8), byte(n >> 16), 0}[:5] }
	b = append(append(b, payloadSize, 4), size(len(data))[1:]...)
	b = append(append(b, payloadUncompressed, 4), size(len(inner))[1:]...)
	return append(append(b, 0), data...)
}

// TestM7 takes transactions out of their payload one event at a time, and finds one that lies about itself.
func TestM7(t *testing.T) {
	var inner []byte
	inner = append(inner, packet(typeTableMap, 0, 0, tableMap([]WireType{WireLong}, nil), false)...)
	inner = append(inner, packet(typeWriteRows2, 0, 0, append(rowsBody(1, 1), 0, 5, 0, 0, 0), false)...)
	inner = append(inner, packet(typeXID, 0, 0, make([]byte, 8), false)...)
	for _, compressed := range []bool{false, true} {
		d := started(t, "9.7.0", true)
		body := payloadBody(inner, compressed)
		e, err := d.Decode(packet(typePayload, 0, 1000, body, true))
		if err != nil || e.Kind != KindPayload || e.Payload.Uncompressed != uint64(len(inner)) {
			t.Fatalf("%+v, %v", e, err)
		}
		for _, want := range []Kind{KindTable, KindRows, KindXID} {
			if e, err = d.Next(); err != nil || e.Kind != want || !e.Inner || e.End != 1000 || e.Header.LogPos != 1000 {
				t.Fatalf("want kind %d: %+v, %v", want, e, err)
			}
		}
		if e, err = d.Next(); e != nil || err != nil {
			t.Fatal(e, err)
		}
		if _, err := d.Decode(packet(typePayload, 0, 2000, body, true)); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Decode(packet(typeXID, 0, 2100, make([]byte, 8), true)); !errors.Is(err, ErrMalformed) {
			t.Errorf("a payload that is not read to its end: %v", err)
		}
	}
	for name, body := range map[string][]byte{
		"cut":            payloadBody(inner[:len(inner)-1], true),
		"format inside":  payloadBody(formatPacket("9.7.0", false), true),
		"payload inside": payloadBody(packet(typePayload, 0, 0, payloadBody(inner, false), false), true),
		"bytes missing":  payloadBody(inner, true)[:40],
		"size is wrong":  bytes.Replace(payloadBody(inner, true), []byte{payloadUncompressed, 4, 0xfd, byte(len(inner))}, []byte{payloadUncompressed, 4, 0xfd, byte(len(inner) + 1)}, 1),
		"more than told": bytes.Replace(payloadBody(inner, true), []byte{payloadUncompressed, 4, 0xfd, byte(len(inner))}, []byte{payloadUncompressed, 4, 0xfd, byte(len(inner) - 27)}, 1),
		"huge event":     payloadBody(append(bytes.Clone(inner), 0, 0, 0, 0, 16, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0), true),
		"other method":   {payloadCompression, 1, 7, payloadSize, 1, 0, 0},
	} {
		d := started(t, "9.7.0", true)
		_, err := d.Decode(packet(typePayload, 0, 1000, body, true))
		for err == nil {
			var e *Event
			if e, err = d.Next(); e == nil && err == nil {
				t.Errorf("%s: taken as right", name)
				break
			}
		}
		var typed *EventError
		if err != nil && !errors.As(err, &typed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func decodeOne(t *testing.T, types []WireType, meta []byte, columns []Column, row string) (event.Row, error) {
	t.Helper()
	d := started(t, "9.7.0", false)
	if _, err := d.Decode(packet(typeTableMap, 0, 0, tableMap(types, meta), false)); err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(row)
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Decode(packet(typeWriteRows2, 0, 0, append(rowsBody(len(types), 1), raw...), false))
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLayout(e.Rows.Table, columns)
	if err != nil {
		return nil, err
	}
	out := make(event.Row, len(types))
	_, err = e.Rows.Next(l, nil, out)
	return out, err
}

// TestDamagedValues are rows that no server writes, and descriptions that do not fit.
func TestDamagedValues(t *testing.T) {
	c := []Column{{}}
	labels := []Column{{Labels: []string{"a"}}}
	for _, bad := range []struct {
		types   []WireType
		meta    []byte
		columns []Column
		row     string
	}{
		{[]WireType{WireLong}, nil, c, "000102"},
		{[]WireType{WireVarchar}, []byte{10, 0}, c, "000561"},
		{[]WireType{WireBlob}, []byte{4}, c, "00ffffffff61"},
		{[]WireType{WireString}, []byte{247, 1}, labels, "0002"},
		{[]WireType{WireString}, []byte{248, 1}, labels, "0002"},
		{[]WireType{WireString}, []byte{248, 1}, c, "0001"},
		{[]WireType{WireDecimal}, []byte{4, 2}, c, "00e480"},
		{[]WireType{WireJSON}, []byte{4}, c, "000200000000ff"},
		{[]WireType{WireDatetimeOld}, nil, c, "00ffffffffffffffff"},
		{[]WireType{WireBlobCompressed}, []byte{4}, c, "000700000089ff4b4c4a0100"},
		{[]WireType{WireVarcharCompressed}, []byte{10, 0}, c, "00026161"},
		{[]WireType{WireString}, []byte{254, 16}, []Column{{Form: FormInet4}}, "0000"},
		{[]WireType{WireLong}, nil, nil, "0001020304"},
	} {
		if row, err := decodeOne(t, bad.types, bad.meta, bad.columns, bad.row); err == nil {
			t.Errorf("%d %x: %s", bad.types, bad.row, texts(row))
		}
	}
	if row, err := decodeOne(t, []WireType{WireLong}, nil, c, "00ffffffff"); err != nil || string(row[0].Text) != "-1" {
		t.Error(row, err)
	}
}

// TestTableErrors concern the one table: the stream goes on.
func TestTableErrors(t *testing.T) {
	for name, body := range map[string][]byte{
		"unknown type":    tableMap([]WireType{20}, []byte{1}),
		"bad metadata":    tableMap([]WireType{WireLong}, nil, metaNames, 3, 9, 'a', 'b'),
		"meta left over":  tableMap([]WireType{WireLong}, []byte{1}),
		"precision":       tableMap([]WireType{WireDecimal}, []byte{5, 9}),
		"many labels":     tableMap([]WireType{WireString}, []byte{247, 1}, metaEnumLabels, 9, 0xfe, 0, 0, 0, 0, 0, 0, 0, 1),
		"key of column 9": tableMap([]WireType{WireLong}, nil, metaSimpleKey, 1, 9),
	} {
		d := started(t, "9.7.0", false)
		e, err := d.Decode(packet(typeTableMap, 0, 0, body, false))
		if err != nil || e.Table.Err == nil || e.Table.Collection() != "it.t" {
			t.Errorf("%s: %+v, %v", name, e, err)
			continue
		}
		e, err = d.Decode(packet(typeWriteRows2, 0, 0, append(rowsBody(1, 1), 0, 1, 2, 3, 4), false))
		if err != nil || e.Kind != KindRows {
			t.Errorf("%s: %+v, %v", name, e, err)
			continue
		}
		if _, err := e.Rows.Next(&Layout{}, nil, nil); err == nil || !errors.Is(err, e.Rows.Table.Err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTablesAreKnownAgain: the same map is the same Table, another one of the same id is another, and a statement's end forgets.
func TestTablesAreKnownAgain(t *testing.T) {
	d := started(t, "9.7.0", false)
	mapped := func(body []byte) *Table {
		e, err := d.Decode(packet(typeTableMap, 0, 0, body, false))
		if err != nil {
			t.Fatal(err)
		}
		return e.Table
	}
	rows := packet(typeWriteRows2, 0, 0, append(rowsBody(1, 1), 0, 1, 2, 3, 4), false)
	first := mapped(tableMap([]WireType{WireLong}, nil))
	if e, err := d.Decode(rows); err != nil || e.Rows.Table != first || !e.Rows.StatementEnd {
		t.Fatal(e, err)
	}
	if _, err := d.Decode(rows); !errors.Is(err, ErrNoTable) {
		t.Errorf("after the statement: %v", err)
	}
	if mapped(tableMap([]WireType{WireLong}, nil)) != first {
		t.Error("the same map is another Table")
	}
	if mapped(tableMap([]WireType{WireTiny}, nil)) == first {
		t.Error("another map is the same Table")
	}
	l, err := NewLayout(first, []Column{{}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Decode(packet(typeWriteRows2, 0, 0, append(rowsBody(1, 1), 0, 1), false))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Rows.Next(l, nil, make(event.Row, 1)); !errors.Is(err, ErrLayout) {
		t.Error(err)
	}
	for i := range maxTables * 3 {
		body := tableMap([]WireType{WireLong}, nil)
		body[0], body[1], body[2] = byte(i), byte(i>>8), 1
		mapped(body)
		d.tables.end()
	}
	if len(d.tables.byID) > maxTables {
		t.Errorf("%d table maps are kept", len(d.tables.byID))
	}
}

func TestStatements(t *testing.T) {
	for text, want := range map[string]Kind{
		"BEGIN": KindBegin, "begin ": KindBegin, "COMMIT": KindCommit, "ROLLBACK": KindRollback, "ROLLBACK TO `a`": KindSavepoint, "/* x */ savepoint a": KindSavepoint,
		"-- c\nRELEASE SAVEPOINT a": KindSavepoint, "XA END X'',X'',1": KindXA, "BEGINNING": KindQuery, "commit_it": KindQuery, "DROP TABLE a\x00": KindQuery,
		"/*!50000 COMMIT */": KindQuery, "/* never ends": KindQuery, "": KindQuery, "BEGIN NOT ATOMIC SELECT 1; END": KindQuery, "ROLLBACK\x00": KindRollback,
	} {
		if got := (&Query{Text: []byte(text)}).kind(); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func TestJSONDouble(t *testing.T) {
	for f, want := range map[float64]string{0: "0.0", 1: "1.0", -1.5: "-1.5", 1e15: "1e15", 1e14: "100000000000000.0", 1e-15: "0.000000000000001", 1e-16: "1e-16", 1234567890123456.8: "1234567890123456.8", 6.173168665811165e15: "6.173168665811165e15", 5e-324: "5e-324"} {
		if got := string(event.AppendMySQLJSONDouble(nil, f)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for f, want := range map[float64]string{1e21: "1e+21", 1e20: "100000000000000000000", 1e-6: "0.000001", 1e-7: "1e-7", float64(float32(1e-6)): "0.000001", 1.5e300: "1.5e+300"} {
		size := 64
		if f == float64(float32(1e-6)) {
			size = 32
		}
		if got := string(AppendFloat(nil, f, size)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestStatementsAlone: a reader of statements may begin anywhere, and meets no rows.
func TestStatementsAlone(t *testing.T) {
	d := NewDecoder(Options{Statements: true})
	query := append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 'i', 't', 0}, "ALTER TABLE t ADD a INT"...)
	for i, p := range [][]byte{
		formatPacket("9.7.0", false),
		packet(typeWriteRows2, 0, 200, append(rowsBody(1, 1), 0, 1, 2, 3, 4), false),
		packet(typeWriteRows0, 0, 210, nil, false),
		packet(typeTableMap, 0, 220, []byte{1}, false),
		packet(typePartialRowData, 0, 230, nil, false),
		packet(typeQuery, 0, 300, query, false),
	} {
		e, err := d.Decode(p)
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if want := map[int]Kind{0: KindFormat, 5: KindQuery}[i]; e.Kind != want {
			t.Errorf("event %d is of kind %d, want %d", i, e.Kind, want)
		}
		if i == 5 && (string(e.Query.Text) != "ALTER TABLE t ADD a INT" || e.End != 300) {
			t.Errorf("%q ends at %d", e.Query.Text, e.End)
		}
	}
}
