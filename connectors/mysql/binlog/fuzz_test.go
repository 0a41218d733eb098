package binlog

import (
	"bytes"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/itest/binlogs"
)

// fuzzLimit bounds what is unpacked, so that input of a few bytes cannot make a run slow.
const fuzzLimit = 1 << 20

// seeds calls back with each kind of event that real servers wrote, a few of each.
func seeds(f *testing.F, use func(mariaDB bool, typ Type, body []byte)) {
	fixtures, err := binlogs.Fixtures()
	if err != nil {
		f.Fatal(err)
	}
	count := map[Type]int{}
	for _, r := range fixtures {
		for _, step := range r.Steps {
			for _, p := range step.Events {
				if typ := Type(p[4]); count[typ] < 20 && len(p) > headerSize+checksumSize && len(p) < 4096 {
					count[typ]++
					use(r.Flavour == "mariadb", typ, p[headerSize:len(p)-checksumSize])
				}
			}
		}
	}
}

// drain decodes an event and, of rows, all values, of payloads, all events. Only errors are allowed to come of it.
func drain(t *testing.T, d *Decoder, p []byte) {
	e, err := d.Decode(p)
	for n := 0; err == nil && e != nil; n++ {
		if e.Kind == KindRows && e.Rows.Table.Err == nil {
			drainRows(t, &e.Rows)
		}
		if e.Kind == KindGTID {
			e.GTID.Append(nil)
		}
		if n > fuzzLimit {
			t.Fatal("it does not end")
		}
		e, err = d.Next()
	}
}

func drainRows(t *testing.T, r *Rows) {
	columns := make([]Column, len(r.Table.Columns))
	for i := range columns {
		columns[i] = Column{Index: i, Unsigned: i%2 == 0, Form: Form(i % 2), Labels: []string{"a", "b", "c"}, Fraction: i % 7}
	}
	l, err := NewLayout(r.Table, columns)
	if err != nil {
		return
	}
	size := len(r.rest)
	before, after := make(event.Row, len(columns)), make(event.Row, len(columns))
	for n := 0; ; n++ {
		more, err := r.Next(l, before, after)
		if err != nil || !more {
			return
		}
		if n > size {
			t.Fatalf("more rows than the %d bytes", size)
		}
	}
}

func version(mariaDB bool) string {
	if mariaDB {
		return "11.8.2-MariaDB"
	}
	return "9.7.0"
}

// FuzzEvent decodes one event after a table map.
func FuzzEvent(f *testing.F) {
	seeds(f, func(mariaDB bool, typ Type, body []byte) { f.Add(mariaDB, byte(typ), uint16(0), body) })
	f.Fuzz(func(t *testing.T, mariaDB bool, typ byte, flags uint16, body []byte) {
		d := NewDecoder(Options{MaxUnpacked: fuzzLimit})
		drain(t, d, body)
		d = NewDecoder(Options{MaxUnpacked: fuzzLimit})
		if _, err := d.Decode(formatPacket(version(mariaDB), false)); err != nil {
			t.Fatal(err)
		}
		drain(t, d, packet(Type(typ), flags, 200, body, false))
	})
}

// FuzzRows decodes rows by a table map, of which either may be damaged.
func FuzzRows(f *testing.F) {
	var mapped []byte
	seeds(f, func(mariaDB bool, typ Type, body []byte) {
		switch {
		case typ == typeTableMap:
			mapped = body
		case mapped != nil:
			f.Add(mariaDB, byte(typ), mapped, body)
		}
	})
	f.Add(false, byte(typeWriteRows2), tableMap([]WireType{WireJSON, WireDecimal, WireBit}, []byte{4, 10, 3, 1, 1}), append(rowsBody(3, 1), 0, 1, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, mariaDB bool, typ byte, table, rows []byte) {
		d := NewDecoder(Options{MaxUnpacked: fuzzLimit})
		if _, err := d.Decode(formatPacket(version(mariaDB), false)); err != nil {
			t.Fatal(err)
		}
		if len(table) >= 6 && len(rows) >= 6 {
			rows = bytes.Clone(rows)
			copy(rows[:6], table)
		}
		if _, err := d.Decode(packet(typeTableMap, 0, 100, table, false)); err != nil {
			return
		}
		drain(t, d, packet(Type(typ), 0, 200, rows, false))
	})
}

// FuzzJSON renders a document and applies a change to it. What is rendered must be readable again and print the same.
func FuzzJSON(f *testing.F) {
	f.Add([]byte{0, 1, 0, 12, 0, 11, 0, 1, 0, 5, 1, 0, 'a'}, []byte{0, 3, '$', '.', 'a', 3, 5, 1, 0})
	f.Add([]byte{2, 2, 0, 10, 0, 4, 0, 0, 5, 1, 0}, []byte{2, 4, '$', '[', '0', ']'})
	f.Add([]byte{12, 1, 'x'}, []byte{1, 1, '$', 2, 4, 0})
	f.Add([]byte{15, 246, 4, 3, 1, 0x80, 0x12}, []byte{})
	f.Fuzz(func(t *testing.T, doc, change []byte) {
		text, err := AppendJSON(nil, doc)
		if err != nil {
			return
		}
		if len(text) > jsonGrowth*len(doc)+128+len(doc) {
			t.Fatalf("%d bytes of text from %d", len(text), len(doc))
		}
		p := jsonParser{b: text}
		n, err := p.document()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if again := n.append(nil); !bytes.Equal(again, text) {
			t.Fatalf("%q printed again is %q", text, again)
		}
		_, _ = ApplyDiff(nil, text, change)
		_, _ = ApplyDiff(nil, change, doc)
	})
}

// FuzzPayload decodes a transaction payload, whole or what is inside of one.
func FuzzPayload(f *testing.F) {
	seeds(f, func(_ bool, typ Type, body []byte) {
		if typ == typePayload {
			f.Add(body, false)
		}
		f.Add(packet(typ, 0, 0, body, false), true)
	})
	f.Fuzz(func(t *testing.T, body []byte, inside bool) {
		d := NewDecoder(Options{MaxUnpacked: fuzzLimit})
		if _, err := d.Decode(formatPacket("9.7.0", false)); err != nil {
			t.Fatal(err)
		}
		if inside {
			if len(body) >= 1<<23 {
				return
			}
			body = payloadBody(body, len(body)%2 == 0)
		}
		drain(t, d, packet(typePayload, 0, 1000, body, false))
	})
}
