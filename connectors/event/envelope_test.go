package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

func ordersColumns() []Column {
	return []Column{
		{Name: "id", Type: "bigint", Kind: KindInt64, OID: 20, Modifier: -1, NotNull: true, Key: 1},
		{Name: "status", Type: "public.status", Kind: KindEnum, OID: 16400, Modifier: -1, Enum: []string{"new", "paid"}, NotNull: true},
		{Name: "total", Type: "numeric(10,2)", Kind: KindNumeric, OID: 1700, Modifier: 10<<16 + 2 + typmodHeader},
		{Name: "rate", Type: "numeric", Kind: KindNumeric, OID: 1700, Modifier: -1},
		{Name: "placed", Type: "timestamp with time zone", Kind: KindTimestampTZ, OID: 1184, Modifier: -1},
		{Name: "due", Type: "date", Kind: KindDate, OID: 1082, Modifier: -1},
		{Name: "note", Type: "text", Kind: KindText, OID: 25, Modifier: -1},
		{Name: "scan", Type: "bytea", Kind: KindBytes, OID: 17, Modifier: -1},
		{Name: "tags", Type: "text[]", Kind: KindArray, OID: 1009, Modifier: -1, Elem: KindText, ElemOID: 25},
		{Name: "sizes", Type: "integer[]", Kind: KindArray, OID: 1007, Modifier: -1, Elem: KindInt32, ElemOID: 23},
		{Name: "extra", Type: "public.hstore", Kind: KindHstore, OID: 16500, Modifier: -1},
	}
}

func ordersRow() Row {
	return Row{text("42"), text("paid"), text("12.50"), text("0.125"), text("2024-02-29 12:00:00.5+00"), text("2024-03-01"),
		text("say \"hi\"\n€"), text(`\x00ff`), text(`{a,NULL,"b c"}`), text("{{1,2},{3,4}}"), text(`"k"=>"v", "n"=>NULL`)}
}

var goldenMeta = Meta{TsMs: 1709208000700, SourceTsUs: 1709208000500123, TxID: 571, LSN: 24023128, LastCommit: 24023000}

// TestGoldenEnvelopes pins the JSON of every operation, with and without Connect schemas.
func TestGoldenEnvelopes(t *testing.T) {
	absent := ordersRow()
	for i := 2; i < len(absent); i++ {
		absent[i] = Datum{}
	}
	keyOnly := make(Row, len(absent))
	keyOnly[0] = text("42")
	nulls := make(Row, len(absent))
	copy(nulls, ordersRow()[:2])
	for i := 2; i < len(nulls); i++ {
		nulls[i] = Datum{State: Null}
	}
	inTransaction, load := goldenMeta, goldenMeta
	inTransaction.Transaction = &Transaction{ID: "571:24023128", TotalOrder: 3, CollectionOrder: 1}
	inTransaction.Origin, inTransaction.OriginLSN = "west", 99
	load.Snapshot, load.TxID, load.LastCommit = "first", 0, 0
	for _, schemas := range []bool{false, true} {
		o := Options{Name: "shop", Database: "shopdb", Version: "1.2.3", SchemasEnable: schemas}
		s, err := NewSchema(o, "public", "orders", ordersColumns())
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewEncoder(s, o)
		if err != nil {
			t.Fatal(err)
		}
		messages, err := NewMessageEncoder(o)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		line := func(name string, b []byte, err error) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !json.Valid(b) {
				t.Fatalf("%s is not JSON: %s", name, b)
			}
			out.WriteString(name + "\t" + string(b) + "\n")
		}
		key, _, err := e.AppendKey(nil, ordersRow())
		line("key", key, err)
		for _, c := range []struct {
			name          string
			op            Op
			before, after Row
			meta          Meta
		}{
			{"create", OpCreate, nil, ordersRow(), goldenMeta},
			{"read", OpRead, nil, nulls, load},
			{"update in a transaction", OpUpdate, ordersRow(), nulls, inTransaction},
			{"P6 update with unchanged TOAST", OpUpdate, nil, absent, goldenMeta},
			{"P8 delete by key", OpDelete, keyOnly, nil, goldenMeta},
			{"P25 truncate", OpTruncate, nil, nil, goldenMeta},
		} {
			b, err := e.AppendValue(nil, c.op, c.before, c.after, &c.meta)
			line(c.name, b, err)
		}
		line("P24 message key", messages.AppendKey(nil, "audit"), nil)
		line("P24 message", messages.AppendValue(nil, "audit", []byte("x\x00"), &goldenMeta), nil)
		begin := TransactionEnd{Status: TransactionBegin, ID: "571:24023000", TsMs: 1}
		end := TransactionEnd{Status: TransactionEndMark, ID: "571:24023128", EventCount: 3, TsMs: 2,
			Collections: []CollectionCount{{"public.orders", 2}, {"public.lines", 1}}}
		line("transaction key", end.AppendKey(nil, schemas), nil)
		line("transaction BEGIN", begin.AppendValue(nil, schemas), nil)
		line("transaction END", end.AppendValue(nil, schemas), nil)
		stored, err := s.MarshalJSON()
		line("schema", stored, err)
		line("schema key", s.TopicKey(), nil)
		name := "envelopes.golden"
		if schemas {
			name = "envelopes-schemas.golden"
		}
		golden(t, name, out.Bytes())
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -run Golden -update ./connectors/event writes it anew); got:\n%s", path, got)
	}
}

// TestP6AbsentIsNotNull: an unchanged TOAST value, a NULL and the placeholder as a real value stay three things.
func TestP6AbsentIsNotNull(t *testing.T) {
	for _, o := range formats() {
		p := newPair(t, o, ordersColumns()...)
		after := ordersRow()
		after[6], after[7], after[8], after[9], after[10] = Datum{}, Datum{}, Datum{State: Null}, Datum{}, Datum{}
		b, err := p.enc.AppendValue(nil, OpUpdate, nil, after, &goldenMeta)
		if err != nil {
			t.Fatal(err)
		}
		ch, err := p.dec.Decode(b, Position{Absent: []uint16{6, 7, 9, 10}})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range after {
			if got := ch.After[i]; got.State != want.State || !bytes.Equal(got.Text, want.Text) {
				t.Errorf("%s: %v %q, want %v %q", p.schema.Columns[i].Name, got.State, got.Text, want.State, want.Text)
			}
		}
		after = ordersRow()
		after[6] = text(DefaultUnavailableValue)
		b, err = p.enc.AppendValue(nil, OpUpdate, nil, after, &goldenMeta)
		if err != nil {
			t.Fatal(err)
		}
		if ch, err = p.dec.Decode(b, Position{}); err != nil || string(ch.After[6].Text) != DefaultUnavailableValue {
			t.Errorf("the placeholder as a real value: %+v, %v", ch.After, err)
		}
	}
}

// TestP6MissingColumn: a column that is in neither the event nor its position's absent list stops the reader.
func TestP6MissingColumn(t *testing.T) {
	p := newPair(t, Options{}, Column{Name: "a", Type: "integer", Kind: KindInt32, Modifier: -1, Key: 1},
		Column{Name: "b", Type: "integer", Kind: KindInt32, Modifier: -1})
	value := []byte(`{"after":{"a":1},"op":"c"}`)
	var refused *ValueError
	if _, err := p.dec.Decode(value, Position{}); !errors.As(err, &refused) || refused.Column != "b" || refused.Table != "public.t" {
		t.Errorf("got %v", err)
	}
	if ch, err := p.dec.Decode(value, Position{Absent: []uint16{1}}); err != nil || ch.After[1].State != Absent {
		t.Errorf("absent by position: %+v, %v", ch, err)
	}
	for _, bad := range []string{
		`{"after":{"a":1,"b":2,"c":3},"op":"c"}`, `{"after":{"a":1,"a":2,"b":2},"op":"c"}`, `{"after":{"a":"x","b":2},"op":"c"}`,
		`{"after":{"a":1.5,"b":2},"op":"c"}`, `{"after":{"a":1,"b":2}}`, `{"after":null,"op":"c"}`, `{"before":{"a":1},"after":{"a":1,"b":2},"op":"d"}`,
		`{"after":{"a":1,"b":2},"op":"c"}x`, `{"after":{"a":1,"b":2},"op":"c"`, `[]`, ``, `{"after":{"a":1,"b":2},"op":"m"}`,
	} {
		if _, err := p.dec.Decode([]byte(bad), Position{}); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
	if _, err := p.dec.Decode(value, Position{Schema: 1}); err == nil {
		t.Error("an event of another schema version was read")
	}
	if _, err := p.dec.Decode(value, Position{Absent: []uint16{2}}); err == nil {
		t.Error("an absent column beyond the table was taken")
	}
}

// TestP8KeyOnlyBefore: what the old key tuple does not hold is neither null nor a default.
func TestP8KeyOnlyBefore(t *testing.T) {
	p := newPair(t, Options{}, ordersColumns()...)
	before := make(Row, len(ordersColumns()))
	before[0] = text("42")
	b, err := p.enc.AppendValue(nil, OpDelete, before, nil, &goldenMeta)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(b), `{"before":{"id":42},"after":null,`) {
		t.Errorf("event %s", b)
	}
	ch, err := p.dec.Decode(b, Position{})
	if err != nil || ch.Before[0].State != Text || ch.Before[1].State != Absent || ch.After != nil {
		t.Errorf("%+v, %v", ch, err)
	}
	if _, _, err := p.enc.AppendKey(nil, make(Row, len(before))); err == nil {
		t.Error("a key without its column was written")
	}
}

// TestP23Refusals: what cannot be carried is refused by place and class, and nothing is appended.
func TestP23Refusals(t *testing.T) {
	column := func(kind Kind, typ string) Column { return Column{Name: "v", Type: typ, Kind: kind, Modifier: -1} }
	for _, c := range []struct {
		column Column
		value  string
		o      Options
		want   error
	}{
		{column(KindTimestamp, "timestamp"), "294276-12-31 23:59:59.999999", Options{}, errTimeRange},
		{column(KindTimestamp, "timestamp"), "294247-01-10 04:00:25.2", Options{}, errTimeRange}, // infinity's sentinel
		{column(KindTimestamp, "timestamp"), "2262-04-11 23:47:16.854776", Options{TimePrecision: TimeNanoseconds}, errTimeRange},
		{column(KindTimestamp, "timestamp"), "1677-09-21 00:12:43.145224", Options{TimePrecision: TimeNanoseconds}, errTimeRange},
		{column(KindTimestampTZ, "timestamptz"), "2024-01-01 00:00:00+02", Options{}, errNotCanonical},
		{column(KindTimestamp, "timestamp"), "01/02/2024 00:00:00", Options{}, errNotCanonical},
		{column(KindInterval, "interval"), "P1D", Options{}, errNotCanonical},
		{column(KindInterval, "interval"), "infinity", Options{IntervalHandling: IntervalNumeric}, errIntervalRange},
		{column(KindMoney, "money"), "1.234,56 €", Options{}, errNotCanonical},
		{column(KindBytes, "bytea"), `abc\000`, Options{}, errNotCanonical},
		{column(KindText, "text"), "caf\xe9", Options{}, errInvalidUTF8},
		{column(KindText, "text"), "\xed\xa0\x80", Options{}, errInvalidUTF8},
		{column(KindInt32, "integer"), "1.5", Options{}, errNotCanonical},
	} {
		p := newPair(t, c.o, c.column)
		dst, err := p.enc.AppendValue([]byte("kept"), OpCreate, nil, Row{text(c.value)}, &goldenMeta)
		var refused *ValueError
		if !errors.Is(err, c.want) || !errors.As(err, &refused) || refused.Column != "v" || refused.Table != "public.t" {
			t.Errorf("%s %q: %v, want %v", c.column.Type, c.value, err, c.want)
		}
		if string(dst) != "kept" {
			t.Errorf("%s %q left %q", c.column.Type, c.value, dst)
		}
		if err != nil && strings.Contains(err.Error(), c.value) {
			t.Errorf("the error shows the value: %v", err)
		}
	}
}

// TestP18SchemaVersions: the fingerprint is the same for the same table and differs for every other.
func TestP18SchemaVersions(t *testing.T) {
	base := func() (Options, []Column) { return Options{Name: "shop", Database: "db"}, ordersColumns() }
	o, c := base()
	first, err := NewSchema(o, "public", "orders", c)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]string{first.ID: "first"}
	for name, change := range map[string]func(*Options, *[]Column){
		"order":    func(_ *Options, c *[]Column) { (*c)[0], (*c)[1] = (*c)[1], (*c)[0] },
		"drop":     func(_ *Options, c *[]Column) { *c = (*c)[:5] },
		"rename":   func(_ *Options, c *[]Column) { (*c)[3].Name = "ratio" },
		"type":     func(_ *Options, c *[]Column) { (*c)[3].Type = "numeric(5)" },
		"modifier": func(_ *Options, c *[]Column) { (*c)[2].Modifier++ },
		"label":    func(_ *Options, c *[]Column) { (*c)[1].Enum = []string{"new", "paid", "gone"} },
		"notnull":  func(_ *Options, c *[]Column) { (*c)[2].NotNull = true },
		"key":      func(_ *Options, c *[]Column) { (*c)[0].Key, (*c)[1].Key = 2, 1 },
		"format":   func(o *Options, _ *[]Column) { o.DecimalHandling = DecimalString },
		"schemas":  func(o *Options, _ *[]Column) { o.SchemasEnable = true },
		"database": func(o *Options, _ *[]Column) { o.Database = "other" },
	} {
		o, c := base()
		change(&o, &c)
		s, err := NewSchema(o, "public", "orders", c)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[s.ID]; ok {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		seen[s.ID] = name
	}
	o, c = base()
	o.Version, o.UnavailableValue = "other", "?"
	if again, err := NewSchema(o, "public", "orders", c); err != nil || again.ID != first.ID {
		t.Errorf("what does not change the reading changed the fingerprint: %v", err)
	}
	stored, _ := first.MarshalJSON()
	if _, err := ParseSchema(bytes.Replace(stored, []byte("numeric(10,2)"), []byte("numeric(10,3)"), 1)); !errors.Is(err, ErrSchema) {
		t.Errorf("a changed schema was read: %v", err)
	}
	collection, id, err := ParseSchemaKey(first.TopicKey())
	if err != nil || collection != "public.orders" || id != first.ID {
		t.Errorf("schema key %s: %s %x %v", first.TopicKey(), collection, id, err)
	}
}

func TestSchemaRefusals(t *testing.T) {
	two := []Column{{Name: "a", Kind: KindText}, {Name: "a", Kind: KindText}}
	gap := []Column{{Name: "a", Kind: KindText, Key: 2}}
	for name, columns := range map[string][]Column{"twice": two, "gap": gap} {
		if _, err := NewSchema(Options{}, "public", "t", columns); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	s, err := NewSchema(Options{}, "public", "t", []Column{{Name: "a", Kind: "cube"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewEncoder(s, Options{}); err == nil {
		t.Error("an unknown kind was taken")
	}
	for _, o := range []Options{{DecimalHandling: "exact"}, {TimePrecision: "picoseconds"}, {BinaryHandling: "raw"}, {UnavailableValue: "hex:zz"},
		{ZeroDate: ZeroDateFail}, {BigintUnsigned: BigintUnsignedLong}, {Connector: SourceMySQL, ZeroDate: "null"}, {Connector: SourceMySQL, BigintUnsigned: "wrap"}} {
		if err := o.Validate(); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestTransactionRecords(t *testing.T) {
	for _, schemas := range []bool{false, true} {
		end := TransactionEnd{Status: TransactionEndMark, ID: string(AppendTransactionID(nil, 571, 24023128)), EventCount: 3, TsMs: 2,
			Collections: []CollectionCount{{`public.o"rders`, 2}, {"public.lines", 1}}}
		got, err := ParseTransaction(end.AppendValue(nil, schemas))
		if err != nil || got.ID != "571:24023128" || got.EventCount != 3 || len(got.Collections) != 2 || got.Collections[0] != end.Collections[0] {
			t.Errorf("%+v, %v", got, err)
		}
		begin := TransactionEnd{Status: TransactionBegin, ID: "571:1", TsMs: 2}
		if got, err := ParseTransaction(begin.AppendValue(nil, schemas)); err != nil || got.Status != TransactionBegin {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, bad := range []string{"", "{}", `{"status":"END","id":"1:2","event_count":3,"data_collections":[],"ts_ms":1}`, `{"status":"OPEN","id":"1","ts_ms":1}`} {
		if _, err := ParseTransaction([]byte(bad)); !errors.Is(err, ErrTransaction) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
