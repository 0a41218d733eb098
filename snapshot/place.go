package snapshot

import (
	"bytes"
	"encoding/json"

	"github.com/rowtrail/rowtrail/log/fields"
	"github.com/rowtrail/rowtrail/log/record"
)

// The position header's name and the version that is read here. Its form is part of the contract between the planes:
// version, uvarint commit position, uvarint order, uvarint order in the table, varint commit time in microseconds, and more
// that a view does not need.
const (
	positionHeader  = "rowtrail.position"
	positionVersion = 1

	// truncateKey is the key of a truncate in a compacted topic, which takes no record without one.
	truncateKey = `{"__rowtrail.truncate":true}`

	// oldKeyHeader is Debezium's, on the create that a key change ends with.
	oldKeyHeader = "__debezium.oldkey"
)

// isTruncate recognises a truncate, which has no row's key and goes to every partition of its topic. No image of a row can pass for its
// envelope, whose images are both null.
func isTruncate(key, value []byte) bool {
	if !keyOfNoRow(key) {
		return false
	}
	// Most values of topics without keys are no envelopes, and need not be searched.
	return isObject(value) && bytes.Contains(value, []byte(`"op":"t"`)) && bytes.Contains(value, []byte(`"before":null,"after":null,`))
}

// keyOfNoRow tells that a record is of no row: it has no key, or that of a truncate.
func keyOfNoRow(key []byte) bool { return key == nil || string(key) == truncateKey }

func isObject(value []byte) bool {
	value = bytes.TrimLeft(value, " \t\r\n")
	return len(value) > 0 && value[0] == '{'
}

// isDelete recognises the envelope of a delete, with or without the converter's schema around it. Columns may be named as the
// envelope's fields are, so what looks like one is read.
func isDelete(value []byte) bool {
	if !isObject(value) || !bytes.Contains(value, []byte(`"op":"d"`)) || !bytes.Contains(value, []byte(`"after":null`)) {
		return false
	}
	type envelope struct {
		Op    string          `json:"op"`
		After json.RawMessage `json:"after"`
	}
	var e struct {
		envelope
		Payload *envelope `json:"payload"`
	}
	if json.Unmarshal(value, &e) != nil {
		return false
	}
	if e.Payload != nil {
		e.envelope = *e.Payload
	}
	return e.Op == "d" && (e.After == nil || string(e.After) == "null")
}

// readPlace finds a record's place in its source.
func readPlace(e *entry, r *record.Record) {
	if r.HeaderCount() == 0 {
		return
	}
	b, ok := r.Header(positionHeader)
	if !ok {
		return
	}
	e.place = placeUnknown
	if len(b) == 0 || b[0] != positionVersion {
		return
	}
	f := fields.Read(b[1:])
	commit := f.Uvarint()
	f.Uvarint()
	f.Uvarint()
	commitTime := f.Varint()
	if f.OK() {
		e.place, e.commit, e.commitTime = placeKnown, commit, commitTime
	}
}
