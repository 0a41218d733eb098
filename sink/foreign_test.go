package sink

import (
	"testing"
)

// TestForeignRecordsThatAreNoRows: what Debezium's connectors write beside rows changes no table, and rows that look a little like it do.
func TestForeignRecordsThatAreNoRows(t *testing.T) {
	for _, c := range []struct {
		topic, key, value string
		row               bool
	}{
		{"hb.shop", `{"serverName":"shop"}`, `{"ts_ms":1}`, false},
		{"hb.shop", `{"schema":{},"payload":{"serverName":"shop"}}`, `{"schema":{},"payload":{"ts_ms":1}}`, false},
		{"hb.shop", `{"serverName":"other"}`, `{"ts_ms":1}`, true},
		{"hb.shop", `{"serverName":"shop"}`, `{"ts_ms":1,"load":3}`, true},
		{"shop", `{"databaseName":"db"}`, `{"source":{},"ts_ms":1,"databaseName":"db","schemaName":null,"ddl":"DROP TABLE t","tableChanges":[]}`, false},
		{"shop", `{"databaseName":"db"}`, `{"databaseName":"db","ddl":"DROP TABLE t"}`, true},
		{"shop", `{"id":1}`, `{"source":{},"databaseName":"db","ddl":"","tableChanges":[]}`, true},
	} {
		var f Foreign
		schema, _, _, err := f.Read(&Event{Topic: c.topic, RawKey: []byte(c.key), RawValue: []byte(c.value)})
		if err != nil || (schema != nil) != c.row {
			t.Errorf("%s %s: a row %v, %v; want %v", c.key, c.value, schema != nil, err, c.row)
		}
	}
}
