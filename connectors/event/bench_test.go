package event

import (
	"errors"
	"testing"
)

func benchPair(b testing.TB) (pair, Row) {
	p := newPair(b, Options{Name: "shop", Database: "shop", Version: "1.0"},
		Column{Name: "id", Type: "bigint", Kind: KindInt64, Modifier: -1, NotNull: true, Key: 1},
		Column{Name: "customer", Type: "integer", Kind: KindInt32, Modifier: -1, NotNull: true},
		Column{Name: "status", Type: "text", Kind: KindText, Modifier: -1},
		Column{Name: "total", Type: "numeric(12,2)", Kind: KindNumeric, Modifier: 12<<16 + 2 + typmodHeader},
		Column{Name: "placed", Type: "timestamptz", Kind: KindTimestampTZ, Modifier: -1},
		Column{Name: "note", Type: "text", Kind: KindText, Modifier: -1})
	return p, Row{text("123456789"), text("4711"), text("paid"), text("1234.56"), text("2024-02-29 12:34:56.123456+00"),
		text("a note of some length that needs no escapes, as most have")}
}

func BenchmarkEncode(b *testing.B) {
	p, row := benchPair(b)
	var key, value []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if key, _, err = p.enc.AppendKey(key[:0], row); err != nil {
			b.Fatal(err)
		}
		if value, err = p.enc.AppendValue(value[:0], OpCreate, nil, row, &goldenMeta); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(key) + len(value)))
}

func BenchmarkMySQL(b *testing.B) {
	columns, row := mysqlOrders(b)
	p := newPair(b, Options{Name: "shop", Connector: SourceMySQL, Version: "1.0"}, columns...)
	meta := binlogMeta
	var value []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if value, err = p.enc.AppendValue(value[:0], OpCreate, nil, row, &meta); err != nil {
			b.Fatal(err)
		}
		if _, err = p.dec.Decode(value, Position{}); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(value)))
}

func BenchmarkDecode(b *testing.B) {
	p, row := benchPair(b)
	value, err := p.enc.AppendValue(nil, OpCreate, nil, row, &goldenMeta)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.dec.Decode(value, Position{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseTransaction(b *testing.B) {
	end := TransactionEnd{Status: TransactionEndMark, ID: "571:53195832", EventCount: 3, TsMs: 1580390884335,
		Collections: []CollectionCount{{"public.orders", 1}, {"public.items", 2}}}
	value := end.AppendValue(nil, false)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseTransaction(value); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPosition(b *testing.B) {
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = Position{Commit: 1 << 40, Order: 100, CollectionOrder: 50, CommitTime: 1709208000500123, Schema: 1 << 60}.Append(buf[:0])
		if _, err := ParsePosition(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNoAllocationPerRow holds for every kind, both ways.
func TestNoAllocationPerRow(t *testing.T) {
	columns, row := ordersColumns(), ordersRow()
	for _, extra := range []struct {
		kind     Kind
		modifier int32
		value    string
	}{
		{KindNumeric, -1, "123456789012345678901234567890.125"}, {KindMoney, -1, "-$1,234.56"}, {KindInterval, -1, "1 year 2 mons -3 days +04:05:06.7"},
		{KindTimestamp, -1, "2024-02-29 12:00:00.5"}, {KindTime, -1, "24:00:00"}, {KindTimeTZ, -1, "12:00:00+02"}, {KindBit, 13, "1000000000011"}, {KindFloat64, -1, "1e-5"},
		{KindBool, -1, "t"}, {KindJSON, -1, `{"a": "b"}`},
	} {
		columns = append(columns, Column{Name: string(extra.kind) + "2", Type: string(extra.kind), Kind: extra.kind, Modifier: extra.modifier})
		row = append(row, text(extra.value))
	}
	p := newPair(t, Options{Name: "shop"}, columns...)
	var key, value []byte
	encode := func() {
		var err error
		if key, _, err = p.enc.AppendKey(key[:0], row); err != nil {
			t.Fatal(err)
		}
		if value, err = p.enc.AppendValue(value[:0], OpUpdate, row, row, &goldenMeta); err != nil {
			t.Fatal(err)
		}
	}
	decode := func() {
		if _, err := p.dec.Decode(value, Position{}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.dec.DecodeKey(key); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, encode); n > 0 {
		t.Errorf("encoding allocates %v times per row", n)
	}
	if n := testing.AllocsPerRun(100, decode); n > 0 {
		t.Errorf("decoding allocates %v times per row", n)
	}
}

func FuzzDecode(f *testing.F) {
	var decoders []*Decoder
	for _, o := range formats() {
		columns := ordersColumns()
		for i, c := range everyColumn() {
			c.Key, c.Name = 0, c.Type+string(rune('a'+i%26))+string(rune('a'+i/26))
			columns = append(columns, c)
		}
		p := newPair(f, o, columns...)
		decoders = append(decoders, p.dec)
		row := make(Row, len(columns))
		copy(row, ordersRow())
		b, err := p.enc.AppendValue(nil, OpCreate, nil, row, &goldenMeta)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"payload":{"before":{"id":1,"x":{"y":[1,"\ud83d\ude00",{}]}},"op":"d"}}`))
	f.Add([]byte(`{"before":{"interval[]ab":["P1Y-2M3DT4H5M-6.7S",null],"numericaa":{"scale":2,"value":"AQ=="}},"op":"d"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, d := range decoders {
			_, _ = d.Decode(b, Position{Absent: []uint16{6, 12}})
			_, _ = d.DecodeKey(b)
		}
	})
}

func FuzzRefusedOrExact(f *testing.F) {
	var pairs []pair
	for _, c := range everyColumn() {
		pairs = append(pairs, newPair(f, Options{}, c), newPair(f, Options{TimePrecision: TimeISOString, HstoreHandling: HstoreMap, BinaryHandling: BinaryHex}, c))
	}
	for _, o := range mysqlFormats() {
		for _, c := range mysqlColumns(f) {
			if p := newPair(f, o, c.column); len(p.schema.Lossy()) == 0 {
				pairs = append(pairs, p)
			}
		}
	}
	for i, v := range append(lookalikes, mysqlLookalikes...) {
		f.Add(uint16(i), v)
	}
	f.Fuzz(func(t *testing.T, n uint16, value string) {
		for i := range 8 {
			p := pairs[(int(n)+i*31)%len(pairs)]
			back, event, err := p.trip(value)
			var refused *ValueError
			if err != nil && (!errors.As(err, &refused) || refused.Action != "encode") {
				t.Fatalf("%q: %v", value, err)
			}
			if err == nil && back != value {
				t.Fatalf("%s %q became %q by %s", p.schema.Columns[0].Type, value, back, event)
			}
		}
	})
}
