package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const (
	sampleKey   = `{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"optional":false,"name":"p.public.t.Key"},"payload":{"id":1}}`
	sampleValue = `{"schema":{"type":"struct","fields":[{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"},{"type":"string","optional":true,"field":"v"}],"optional":true,"name":"p.public.t.Value","field":"after"},{"type":"string","optional":false,"field":"op"}],"optional":false,"name":"p.public.t.Envelope","version":2},` +
		`"payload":{"before":null,"after":{"id":1,"v":"text","n":1.50},"source":{"version":"1","name":"p","snapshot":"false","ts_ms":17,"lsn":5,"sequence":"[null,\"5\"]"},"transaction":{"id":"12:34","total_order":1,"data_collection_order":1},"op":"c","ts_ms":99}}`
)

// sample is a record as the side with that prefix writes it, with texts replaced.
func sample(t *testing.T, prefix string, oldnew ...string) *record {
	t.Helper()
	replace := func(s string) json.RawMessage {
		return json.RawMessage(strings.NewReplacer(append(slices.Clone(oldnew), `"p.`, `"`+prefix+`.`, `"name":"p"`, `"name":"`+prefix+`"`)...).Replace(s))
	}
	raw := engineRecord{Key: replace(sampleKey), Value: replace(sampleValue), Headers: map[string]json.RawMessage{"__debezium.oldkey": replace(sampleKey)}}
	if slices.Contains(oldnew, "no headers") {
		raw.Headers = nil
	}
	r, err := parseRecord(prefix+".public.t", raw, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

func pathsOf(p pair) (list []string) {
	differ(p, func(path string, _, _ any) { list = append(list, path) })
	return list
}

// TestEveryDifferenceIsSeen changes one thing at a time, and what is set aside.
func TestEveryDifferenceIsSeen(t *testing.T) {
	for _, c := range []struct {
		name   string
		oldnew []string
		want   []string
	}{
		{"nothing", nil, nil},
		{"a number's digits", []string{"1.50", "1.5"}, nil},
		{"times of processing", []string{`"ts_ms":99`, `"ts_ms":100`}, nil},
		{"version", []string{`"version":"1"`, `"version":"2"`}, nil},
		{"a transaction's id", []string{"12:34", "13:99"}, nil},
		{"the form of a transaction's id", []string{"12:34", "12"}, []string{"value.payload.transaction.id"}},
		{"a number", []string{"1.50", "1.51"}, []string{"value.payload.after.n"}},
		{"a number as text", []string{"1.50", `"1.50"`}, []string{"value.payload.after.n"}},
		{"a value", []string{`"text"`, `"test"`}, []string{"value.payload.after.v"}},
		{"null", []string{`"text"`, `null`}, []string{"value.payload.after.v"}},
		{"a field less", []string{`"v":"text",`, ""}, []string{"value.payload.after.v"}},
		{"a field more", []string{`"v":"text",`, `"v":"text","w":null,`}, []string{"value.payload.after.w"}},
		{"the source's time", []string{`"ts_ms":17`, `"ts_ms":18`}, []string{"value.payload.source.ts_ms"}},
		{"the place in the source", []string{`"lsn":5`, `"lsn":6`}, []string{"value.payload.source.lsn"}},
		{"the snapshot marker", []string{`"snapshot":"false"`, `"snapshot":"false "`}, []string{"value.payload.source.lsn", "value.payload.source.sequence", "value.payload.source.snapshot", "value.payload.source.ts_ms"}},
		{"the operation", []string{`"op":"c"`, `"op":"u"`}, []string{"value.payload.op"}},
		{"a type", []string{`"type":"string","optional":true,"field":"v"`, `"type":"bytes","optional":true,"field":"v"`}, []string{"value.schema/after/v.type"}},
		{"what is optional", []string{`"optional":true,"field":"v"`, `"optional":false,"field":"v"`}, []string{"value.schema/after/v.optional"}},
		{"the order of fields", []string{`{"type":"int32","optional":false,"field":"id"},{"type":"string","optional":true,"field":"v"}`, `{"type":"string","optional":true,"field":"v"},{"type":"int32","optional":false,"field":"id"}`}, []string{"value.schema/after.fields (order)"}},
		{"a schema's name", []string{"t.Envelope", "t.Event"}, []string{"value.schema.name"}},
		{"headers", []string{"no headers", ""}, []string{"headers.__debezium.oldkey"}},
		{"the key", []string{`"payload":{"id":1}}`, `"payload":{"id":2}}`}, []string{"key.payload.id", "headers.__debezium.oldkey.payload.id"}},
	} {
		got := pathsOf(pair{ours: sample(t, "ours"), theirs: sample(t, "theirs", c.oldnew...)})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: differs in %q, want %q", c.name, got, c.want)
		}
	}
}

// TestMissingRecordsAndOrderAreSeen takes records away from either side and changes their order.
func TestMissingRecordsAndOrderAreSeen(t *testing.T) {
	one, two := `"payload":{"id":1}}`, `"payload":{"id":2}}`
	list := func(keys ...string) []record {
		var out []record
		for _, k := range keys {
			out = append(out, *sample(t, "p", one, k))
		}
		return out
	}
	for _, c := range []struct {
		name         string
		ours, theirs []record
		want         []string
	}{
		{"equal", list(one, two, one), list(one, two, one), nil},
		{"one less here", list(one, two), list(one, two, one), []string{"record"}},
		{"one less there", list(one, two, one), list(one, two), []string{"record"}},
		{"another order", list(one, two), list(two, one), []string{"order"}},
		{"nothing there", list(one), nil, []string{"topic"}},
	} {
		m := newMatrix()
		m.compare("s", &mode{name: "m"}, true, []tableCase{{name: "t", table: "t"}}, &postgres{}, c.ours, c.theirs, nil)
		var got []string
		for _, r := range m.cells {
			for _, d := range r.unexplained {
				got = append(got, d.path)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if (m.unexplained() == 0) != (len(c.want) == 0) {
			t.Errorf("%s: %d unexplained", c.name, m.unexplained())
		}
	}
}

// TestRecordsHaveTheirColumns follows a row through its life.
func TestRecordsHaveTheirColumns(t *testing.T) {
	make := func(op, key string, headers ...string) *record {
		r := &record{topic: "public.t", key: object{"id": key}, headers: object{}}
		for _, h := range headers {
			r.headers[h] = "x"
		}
		if op != "" {
			r.value = object{"op": op}
		}
		return r
	}
	life := []*record{
		make("r", "1"), make("c", "1"), make("u", "1"), make("d", "1", "__debezium.newkey"), make("", "1"), make("c", "2", "__debezium.oldkey"), make("d", "2"), make("", "2"), make("t", ""),
	}
	want := []string{opLoad, opInsert, opUpdate, opRekey, opRekey, opRekey, opDelete, opDelete, opTruncate}
	tag := tagger{}
	for i, r := range life {
		if got := tag.op(r); got != want[i] {
			t.Errorf("record %d: %s, want %s", i, got, want[i])
		}
	}
}

// TestEntriesExplainAndGoStale: an entry takes its differences on its servers, and is reported when it has none.
func TestEntriesExplainAndGoStale(t *testing.T) {
	list := []entry{{id: "e", servers: []string{"s"}, match: func(d *difference) bool { return d.path == "value.v" }}}
	m := newMatrix()
	at := cell{server: "s"}
	if got := m.stale(list, []string{"s"}); len(got) != 1 {
		t.Errorf("stale: %q", got)
	}
	m.add(at, &difference{server: "s", path: "value.v"}, list)
	if m.unexplained() != 0 || len(m.stale(list, []string{"s"})) != 0 {
		t.Error("an explained difference counts as unexplained")
	}
	m.add(at, &difference{server: "s", path: "value.w"}, list)
	m.add(at, &difference{server: "other", path: "value.v"}, list)
	if m.unexplained() != 2 {
		t.Errorf("%d unexplained, want 2", m.unexplained())
	}
}

// TestPageListsTheEntries compares docs/debezium.md with the list of explained differences.
func TestPageListsTheEntries(t *testing.T) {
	current, err := pageIsCurrent("../..")
	if err != nil {
		t.Fatal(err)
	}
	if !current {
		t.Error("docs/debezium.md is not what the entries say: run `make debezium-page`")
	}
	seen := map[string]bool{}
	for _, e := range entries() {
		if seen[e.id] || e.id == "" || e.by == "" || e.reason == "" || len(e.servers) == 0 {
			t.Errorf("entry %q has no id of its own, no reason or no server", e.id)
		}
		seen[e.id] = true
	}
}

// TestModesChangeOneSetting: the base first, and every other value of every setting once.
func TestModesChangeOneSetting(t *testing.T) {
	for _, server := range []string{serverPostgres, serverMySQL, serverMariaDB} {
		list := modes(server)
		want := 1
		for _, s := range settings(server) {
			want += len(s.values) - 1
		}
		names := map[string]bool{}
		for _, m := range list {
			changed := 0
			for prop, v := range m.props {
				if list[0].props[prop] != v {
					changed++
				}
			}
			if names[m.name] || changed > 1 || len(m.props) != len(list[0].props) {
				t.Errorf("%s %s: %d changed of %v", server, m.name, changed, m.props)
			}
			names[m.name] = true
		}
		if len(list) != want {
			t.Errorf("%s: %d modes, want %d", server, len(list), want)
		}
	}
}
