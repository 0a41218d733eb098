package admin

import (
	"net/url"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/snapshot"
)

// shopNode has a data topic and the schema topic that goes with it.
type shopNode struct{ fakeNode }

func (shopNode) Topic(name string) (Topic, bool) {
	return Topic{Name: name, Partitions: []Partition{{End: 100}}}, name == "shop.public.prices" || name == "shop.schema"
}

// TestKeyAsTheSourceWritesIt: values in the source's text find a row whose key has them in another form.
func TestKeyAsTheSourceWritesIt(t *testing.T) {
	for _, opts := range []event.Options{
		{Name: "shop", Database: "shop"},
		{Name: "shop", Database: "shop", SchemasEnable: true, TimePrecision: event.TimeConnect, DecimalHandling: event.DecimalString},
	} {
		col := func(name, typ string, kind event.Kind, modifier int32, key int) event.Column {
			return event.Column{Name: name, Type: typ, Kind: kind, Modifier: modifier, Key: key, NotNull: key > 0}
		}
		columns := []event.Column{
			col("d", "date", event.KindDate, -1, 1), col("n", "numeric(10,2)", event.KindNumeric, 10<<16|2+4, 2),
			col("at", "timestamp without time zone", event.KindTimestamp, -1, 3), col("ok", "boolean", event.KindBool, -1, 4),
			col("note", "text", event.KindText, -1, 0), col("b", "bit(1)", event.KindBit, 1, 5),
		}
		before, err := event.NewSchema(opts, "public", "prices", []event.Column{col("d", "date", event.KindDate, -1, 1)})
		if err != nil {
			t.Fatal(err)
		}
		now, err := event.NewSchema(opts, "public", "prices", columns)
		if err != nil {
			t.Fatal(err)
		}
		key := func(s *event.Schema, values ...string) []byte {
			e, err := event.NewEncoder(s, opts)
			if err != nil {
				t.Fatal(err)
			}
			row := make(event.Row, len(s.Columns))
			for i, v := range values {
				row[i] = event.Datum{State: event.Text, Text: []byte(v)}
			}
			k, _, err := e.AppendKey(nil, row)
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		row := func(topic string, offset int64, key, value []byte) snapshot.Row {
			return snapshot.Row{Topic: topic, Offset: offset, Key: key, Value: value}
		}
		rows := []snapshot.Row{
			row("shop.public.prices", 0, key(now, "2026-01-02", "12.50", "2026-01-02 03:04:05.5", "t", "", "0"), []byte(`{"x":1}`)),
			row("shop.public.prices", 1, key(before, "2025-12-31"), []byte(`{"x":2}`)),
		}
		for i, s := range []*event.Schema{before, now} {
			value, err := s.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row("shop.schema", int64(i), s.TopicKey(), value))
		}
		base := serve(t, Options{Node: shopNode{}, Views: fakeViews{rows: rows}})
		for written, want := range map[string]string{
			`{"d":"2026-01-02","n":"12.50","at":"2026-01-02 03:04:05.5","ok":true,"b":false}`: `"value":{"x":1}`,
			`{"ok":"t", "n":12.50,"at":"2026-01-02 03:04:05.5","d":"2026-01-02","b":"0"}`:     `"value":{"x":1}`,
			`{"d":"2025-12-31"}`:   `"value":{"x":2}`,
			`{"d":"2026-01-03"}`:   `no row with key`,
			`{"day":"2026-01-02"}`: `key has other columns than \"day\": write {\"d\": ..., \"n\": ..., \"at\": ..., \"ok\": ..., \"b\": ...}`,
		} {
			if _, body := get(t, base+"/v1/state/shop.public.prices/"+url.PathEscape(written)); !strings.Contains(body, want) {
				t.Errorf("%s: %s", written, body)
			}
		}
	}
}

// TestKeysThatAreNoObjects: each is found as it stands in the record and as an answer shows it, whatever other keys the topic has.
func TestKeysThatAreNoObjects(t *testing.T) {
	keys := []string{"tea", `"tea"`, `"milk"`, "green tea/1", "42", `"42"`, "..", "a\"b", "\xff\x01", `{"id":7}`, `{"code":"x"}`, `{not JSON`}
	only := map[string]string{ // what is written, and the record's key that it finds
		"tea": "tea", `"tea"`: `"tea"`, `"milk"`: `"milk"`, "milk": `"milk"`, "green tea/1": "green tea/1", `"green tea/1"`: "green tea/1",
		"42": "42", `"42"`: `"42"`, "..": "..", `a"b`: `a"b`, `"a\"b"`: `a"b`, `{"base64":"/wE="}`: "\xff\x01", `{"id":7}`: `{"id":7}`,
		`{ "id": 7 }`: `{"id":7}`, `{not JSON`: `{not JSON`, `"{not JSON"`: `{not JSON`,
	}
	for _, first := range keys { // the one that tells what the topic's keys look like
		var rows []snapshot.Row
		for i, key := range append([]string{first}, keys...) {
			rows = append(rows, snapshot.Row{Topic: "shop.orders", Offset: int64(i), Key: []byte(key), Value: []byte(`{}`)})
		}
		base := serve(t, Options{Views: fakeViews{rows: rows}})
		for written, key := range only {
			path := strings.ReplaceAll(url.PathEscape(written), "..", "%2E%2E")
			want := `"key":` + string(Text([]byte(key))) + `,`
			if _, body := get(t, base+"/v1/state/shop.orders/"+path); !strings.Contains(body, want) || !strings.Contains(body, `"offset":`) {
				t.Errorf("keys like %s: %s finds %s; want %s", first, written, body, want)
			}
		}
	}
	rows := []snapshot.Row{{Topic: "shop.orders", Key: []byte("tea"), Value: []byte(`{}`)}, {Topic: "shop.orders", Offset: 1, Key: []byte(`"tea"`), Value: []byte(`{}`)}}
	base := serve(t, Options{Views: fakeViews{rows: rows}})
	for written, offset := range map[string]string{"tea": `"offset":0`, `"tea"`: `"offset":1`} {
		if _, body := get(t, base+"/v1/state/shop.orders/"+url.PathEscape(written)); !strings.Contains(body, offset) {
			t.Errorf("%s finds %s; want %s", written, body, offset)
		}
	}
}
