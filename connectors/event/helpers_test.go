package event

import (
	"encoding/json"
	"fmt"
	"testing"
)

func text(s string) Datum { return Datum{State: Text, Text: []byte(s)} }

// formats are all combinations that change a representation, one setting at a time, with and without Connect schemas.
func formats() []Options {
	base := Options{Name: "shop", Database: "shop", Version: "1"}
	list := []Options{base}
	add := func(change func(*Options)) {
		o := base
		change(&o)
		list = append(list, o)
	}
	add(func(o *Options) { o.SchemasEnable = true })
	for _, m := range []DecimalHandling{DecimalDouble, DecimalString} {
		add(func(o *Options) { o.DecimalHandling = m })
	}
	for _, m := range []TimePrecision{TimeAdaptiveMicroseconds, TimeMicroseconds, TimeNanoseconds, TimeISOString, TimeConnect} {
		add(func(o *Options) { o.TimePrecision = m })
	}
	for _, m := range []BinaryHandling{BinaryBase64, BinaryBase64URLSafe, BinaryHex} {
		add(func(o *Options) { o.BinaryHandling = m })
	}
	add(func(o *Options) { o.IntervalHandling = IntervalNumeric })
	add(func(o *Options) { o.HstoreHandling = HstoreMap })
	return list
}

// pair is an encoder and a decoder of one table version.
type pair struct {
	schema *Schema
	enc    *Encoder
	dec    *Decoder
}

func newPair(t testing.TB, o Options, columns ...Column) pair {
	t.Helper()
	s, err := NewSchema(o, "public", "t", columns)
	if err != nil {
		t.Fatal(err)
	}
	enc, err := NewEncoder(s, o)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := s.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	read, err := ParseSchema(stored)
	if err != nil {
		t.Fatal(err)
	}
	dec, err := NewDecoder(read)
	if err != nil {
		t.Fatal(err)
	}
	return pair{s, enc, dec}
}

// trip sends one value of the pair's single column through an insert event and its key.
func (p pair) trip(value string) (back string, event []byte, err error) {
	row := Row{text(value)}
	event, err = p.enc.AppendValue(nil, OpCreate, nil, row, &Meta{TsMs: 2, SourceTsUs: 1, TxID: 7, LSN: 9})
	if err != nil {
		return "", nil, err
	}
	if !json.Valid(event) {
		return "", event, fmt.Errorf("not JSON: %s", event)
	}
	ch, err := p.dec.Decode(event, Position{Schema: p.schema.ID})
	if err != nil {
		return "", event, fmt.Errorf("decode %s: %w", event, err)
	}
	txID, lsn := uint32(7), uint64(9)
	if fromBinlog(p.schema.Source) {
		txID, lsn = 0, 0
	}
	if ch.Op != OpCreate || ch.Before != nil || ch.TxID != txID || ch.LSN != lsn || ch.After[0].State != Text {
		return "", event, fmt.Errorf("change %+v from %s", ch, event)
	}
	back = string(ch.After[0].Text)
	key, ok, err := p.enc.AppendKey(nil, row)
	if err != nil || !ok {
		return "", event, fmt.Errorf("key: %v %w", ok, err)
	}
	keyRow, err := p.dec.DecodeKey(key)
	if err != nil {
		return "", event, fmt.Errorf("decode key %s: %w", key, err)
	}
	if string(keyRow[0].Text) != back {
		return "", event, fmt.Errorf("key %s is not the value %s", key, event)
	}
	return back, event, nil
}
