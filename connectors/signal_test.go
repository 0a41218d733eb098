package connectors

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSignalParse(t *testing.T) {
	for _, c := range []struct{ typ, data, want string }{
		{"execute-snapshot", `{"data-collections": ["db.orders", "db.c.*"], "type": "INCREMENTAL", "additional-conditions": [{"data-collection": "db.orders", "filter": "id > 5"}], "truncate": true}`, ""},
		{"execute-snapshot", `{"data-collections": ["db.orders"], "additional-condition": "id > 5"}`, ""},
		{"stop-snapshot", ``, ""},
		{"stop-snapshot", `{"type": "incremental", "data-collections": ["db.orders"]}`, ""},
		{"pause-snapshot", `{"type": "incremental"}`, ""},
		{"resume-snapshot", ` `, ""},
		{"log", `{"message": "hello"}`, ""},
		{"execute-snapshot", ``, "data-collections is empty"},
		{"execute-snapshot", `{"data-collections": ["("]}`, "RE2"},
		{"execute-snapshot", `{"data-collections": [" "]}`, "is empty"},
		{"execute-snapshot", `{"data-collections": ["a.b"], "type": "blocking"}`, "use type incremental"},
		{"execute-snapshot", `{"data-collections": ["a.b"], "type": "big"}`, `"big"`},
		{"execute-snapshot", `{"data-collections": ["a.b"], "surrogate-key": "x"}`, "surrogate-key"},
		{"execute-snapshot", `{"data-collections": ["a.b"], "filters": "x"}`, "filters"},
		{"execute-snapshot", `{"data-collections": ["a.b"]} {}`, "follows"},
		{"execute-snapshot", `{"data-collections": ["a.b"], "additional-conditions": [{"data-collection": "a.b"}]}`, "has no filter"},
		{"execute-snapshot", `["a.b"]`, "not as expected"},
		{"pause-snapshot", `{"data-collections": ["a.b"]}`, "leave data-collections out"},
		{"stop-snapshot", `{"truncate": true}`, "takes no truncate"},
		{"schema-changes", ``, "schema-changes"},
		{"snapshot-window-open", ``, "need no marks"},
		{"explode", ``, "execute-snapshot, stop-snapshot"},
	} {
		s := Signal{ID: "1", Type: c.typ, Data: json.RawMessage(c.data)}
		r, err := s.Parse()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %s: %v", c.typ, c.data, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %s: %v, want %q", c.typ, c.data, err, c.want)
		case c.want == "" && r == nil:
			t.Errorf("%s %s: nothing", c.typ, c.data)
		}
	}
	s := Signal{Type: SignalExecute, Data: json.RawMessage(`{"data-collections": ["db.orders", "db.c.*"], "additional-conditions": [{"data-collection": "db\\.o.*", "filter": "id > 5"}]}`)}
	r, err := s.Parse()
	if err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]string{"db.orders": "true id > 5", "db.customers": "true ", "DB.C": "true ", "db.orders2": "false id > 5", "xdb.orders": "false "} {
		if got := map[bool]string{true: "true ", false: "false "}[r.Matches(table)] + r.Filter(table); got != want {
			t.Errorf("%s: %s, want %s", table, got, want)
		}
	}
}
