package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// object is a decoded JSON object.
type object = map[string]any

// record is a record of either side, without what always differs.
type record struct {
	topic      string // without the prefix
	key, value any    // decoded, numbers as json.Number; nil: none
	headers    object
}

// parseRecord decodes a record and takes the names of the side out of it.
func parseRecord(topic string, raw engineRecord, prefix string) (record, error) {
	r := record{topic: strings.TrimPrefix(topic, prefix+"."), headers: object{}}
	switch topic {
	case prefix:
		r.topic = topicSchemaChanges
	case heartbeats + prefix:
		r.topic = topicHeartbeats
	}
	var err error
	if r.key, err = decode(raw.Key); err != nil {
		return r, fmt.Errorf("key in %s: %w", topic, err)
	}
	if r.value, err = decode(raw.Value); err != nil {
		return r, fmt.Errorf("value in %s: %w", topic, err)
	}
	for name, v := range raw.Headers {
		if r.headers[name], err = decode(v); err != nil {
			return r, fmt.Errorf("header %s in %s: %w", name, topic, err)
		}
		withoutNames(r.headers[name], prefix)
	}
	withoutNames(r.key, prefix)
	withoutNames(r.value, prefix)
	if r.topic == topicHeartbeats {
		if key, ok := payload(r.key).(object); ok {
			setAside(key, "(a name)", "serverName")
		}
	}
	r.withoutTimes()
	return r, nil
}

func decode(b []byte) (any, error) {
	if len(b) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%w: %.200s", err, b)
	}
	return v, nil
}

// withoutNames takes the prefix out of the names of Connect schemas.
func withoutNames(v any, prefix string) {
	wrapped, ok := v.(object)
	if !ok {
		return
	}
	schema, ok := wrapped["schema"].(object)
	if _, two := wrapped["payload"]; !ok || !two {
		return
	}
	var walk func(schema object)
	walk = func(schema object) {
		if name, ok := schema["name"].(string); ok {
			schema["name"] = strings.TrimPrefix(name, prefix+".")
		}
		for _, part := range []string{"items", "keys", "values"} {
			if inner, ok := schema[part].(object); ok {
				walk(inner)
			}
		}
		fields, _ := schema["fields"].([]any)
		for _, f := range fields {
			if inner, ok := f.(object); ok {
				walk(inner)
			}
		}
	}
	walk(schema)
}

// payload is the value without its schema.
func payload(v any) any {
	if o, ok := v.(object); ok {
		if _, ok := o["schema"]; ok {
			if p, ok := o["payload"]; ok {
				return p
			}
		}
	}
	return v
}

// Placeholders of what is set aside.
const (
	someTime = "(a time)"
	someID   = "(an id)"
	someLSN  = "(a position)"
)

// transactionID is the form of Postgres' <txid>:<lsn> and of GTIDs.
var transactionID = regexp.MustCompile(`^(\d+:\d+|[0-9a-f-]{36}(:\w+)?:\d+|\d+-\d+-\d+)$`)

// withoutTimes sets aside what the comparison does not compare: the time of processing, the connector's name and version, ids of
// transactions but for their form, the order of their tables, and in the initial load, of which each side has its own, also the place
// in the source.
func (r *record) withoutTimes() {
	top, ok := payload(r.value).(object)
	if !ok {
		return
	}
	setAside(top, someTime, "ts_ms", "ts_us", "ts_ns")
	if source, ok := top["source"].(object); ok {
		setAside(source, "(a version)", "version")
		setAside(source, "(a name)", "name")
		if source["snapshot"] != "false" {
			setAside(source, someTime, "ts_ms", "ts_us", "ts_ns")
			setAside(source, someLSN, "lsn", "txId", "sequence", "file", "pos", "gtid")
		}
	}
	if list, ok := top["data_collections"].([]any); ok && r.topic == topicTransaction { // a set
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	holders := []any{top["transaction"]}
	if r.topic == topicTransaction {
		holders = []any{top, payload(r.key)}
	}
	for _, h := range holders {
		if o, ok := h.(object); ok {
			if id, ok := o["id"].(string); ok && transactionID.MatchString(id) {
				o["id"] = someID
			}
		}
	}
}

// setAside puts a placeholder in the place of what is there and not null.
func setAside(o object, placeholder string, names ...string) {
	for _, name := range names {
		if v, ok := o[name]; ok && v != nil {
			o[name] = placeholder
		}
	}
}

// field walks down objects.
func field(v any, names ...string) any {
	for _, name := range names {
		o, ok := v.(object)
		if !ok {
			return nil
		}
		v = o[name]
	}
	return v
}

// op is the operation, "" of a tombstone, and of what is no event of a row.
func (r *record) op() string {
	op, _ := field(payload(r.value), "op").(string)
	return op
}

// Topics that are no table's.
const (
	topicTransaction   = "transaction"
	topicMessage       = "message"
	topicSchemaChanges = "schema changes" // of MySQL and MariaDB, whose topic is named as the prefix
	topicHeartbeats    = "heartbeats"

	// heartbeats begins the name of a heartbeat topic.
	heartbeats = "__debezium-heartbeat."
)

// identity is what records are matched by: their key's text, with numbers by their value; a statement's, whose key is the database, also by
// its text.
func (r *record) identity() string {
	key := canonical(payload(r.key))
	if r.topic == topicSchemaChanges {
		key = []any{key, r.ddl()}
	}
	b, err := json.Marshal(key)
	if err != nil {
		return fmt.Sprint(r.key)
	}
	return string(b)
}

// canonical writes equal numbers alike, also those of variable scale.
func canonical(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(string(v), ".eE") {
			return f
		}
	case object:
		if scaled, ok := variableDecimal(v); ok {
			return scaled.RatString()
		}
		out := object{}
		for name, member := range v {
			out[name] = canonical(member)
		}
		return out
	}
	return v
}

// variableDecimal is the number that a VariableScaleDecimal says.
func variableDecimal(v any) (*big.Rat, bool) {
	o, ok := v.(object)
	if !ok || len(o) != 2 {
		return nil, false
	}
	scale, ok1 := o["scale"].(json.Number)
	text, ok2 := o["value"].(string)
	places, err := scale.Int64()
	raw, err2 := base64.StdEncoding.DecodeString(text)
	if !ok1 || !ok2 || err != nil || err2 != nil || len(raw) == 0 || places < 0 {
		return nil, false
	}
	n := new(big.Int).SetBytes(raw)
	if raw[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	return new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(places), nil)), true
}
