package binlog

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// twinColumn is a column with random values: their bytes for us and go-mysql to decode.
type twinColumn struct {
	typ   WireType
	meta  []byte
	value func(*rand.Rand) []byte
	form  Form
}

func randomBytes(n int) func(*rand.Rand) []byte {
	return func(r *rand.Rand) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		if r.IntN(4) == 0 {
			for i := range b {
				b[i] = []byte{0, 0xff, 0x80, 0x7f}[r.IntN(4)]
			}
		}
		return b
	}
}

func randomDecimal(precision, scale int) func(*rand.Rand) []byte {
	return func(r *rand.Rand) []byte {
		var b []byte
		group := func(digits int) {
			n := 4
			if digits < digitsPerWord {
				n = decimalBytes(digits)
			}
			v := r.Uint32N(pow10(digits))
			if r.IntN(3) == 0 {
				v = 0
			}
			for i := n - 1; i >= 0; i-- {
				b = append(b, byte(v>>(8*i)))
			}
		}
		whole := precision - scale
		if whole%digitsPerWord > 0 {
			group(whole % digitsPerWord)
		}
		for range whole / digitsPerWord {
			group(digitsPerWord)
		}
		for range scale / digitsPerWord {
			group(digitsPerWord)
		}
		if scale%digitsPerWord > 0 {
			group(scale % digitsPerWord)
		}
		if r.IntN(2) == 0 {
			for i := range b {
				b[i] ^= 0xff
			}
		}
		b[0] ^= 0x80
		return b
	}
}

func randomText(prefix, limit int) func(*rand.Rand) []byte {
	return func(r *rand.Rand) []byte {
		n := r.IntN(limit + 1)
		b := make([]byte, 0, n+prefix)
		for i := range prefix {
			b = append(b, byte(n>>(8*i)))
		}
		for range n {
			b = append(b, 'a'+byte(r.IntN(26)))
		}
		return b
	}
}

// packedBits joins parts of a number, each of so many bits, to size bytes, big-endian.
func packedBits(r *rand.Rand, size int, parts ...[2]int) []byte {
	var v uint64
	for _, p := range parts {
		v = v<<p[0] | uint64(r.IntN(p[1]))
	}
	b := make([]byte, size)
	for i := range b {
		b[size-1-i] = byte(v >> (8 * i))
	}
	return b
}

func fraction(r *rand.Rand, digits int) []byte {
	switch (digits + 1) / 2 {
	case 0:
		return nil
	case 1:
		return []byte{byte(r.IntN(100))}
	case 2:
		v := r.IntN(10000)
		return []byte{byte(v >> 8), byte(v)}
	}
	v := r.IntN(1000000)
	return []byte{byte(v >> 16), byte(v >> 8), byte(v)}
}

func twinColumns(r *rand.Rand) []twinColumn {
	all := []func() twinColumn{
		func() twinColumn { return twinColumn{typ: WireTiny, value: randomBytes(1)} },
		func() twinColumn { return twinColumn{typ: WireShort, value: randomBytes(2)} },
		func() twinColumn { return twinColumn{typ: WireInt24, value: randomBytes(3)} },
		func() twinColumn { return twinColumn{typ: WireLong, value: randomBytes(4)} },
		func() twinColumn { return twinColumn{typ: WireLongLong, value: randomBytes(8)} },
		func() twinColumn { return twinColumn{typ: WireYear, value: randomBytes(1)} },
		func() twinColumn {
			p := 1 + r.IntN(65)
			s := r.IntN(min(p, 30) + 1)
			return twinColumn{typ: WireDecimal, meta: []byte{byte(p), byte(s)}, value: randomDecimal(p, s)}
		},
		func() twinColumn {
			n := 1 + r.IntN(62)
			return twinColumn{typ: WireBit, meta: []byte{byte(n % 8), byte(n / 8)}, value: func(r *rand.Rand) []byte {
				return packedBits(r, (n+7)/8, [2]int{n, 1 << n})
			}}
		},
		func() twinColumn {
			f := r.IntN(7)
			return twinColumn{typ: WireDatetime, meta: []byte{byte(f)}, value: func(r *rand.Rand) []byte {
				b := packedBits(r, 5, [2]int{1, 1}, [2]int{17, 13 * 9999}, [2]int{5, 32}, [2]int{5, 24}, [2]int{6, 60}, [2]int{6, 60})
				b[0] |= 0x80
				return append(b, fraction(r, f)...)
			}}
		},
		func() twinColumn {
			f := r.IntN(7)
			return twinColumn{typ: WireTimestamp, meta: []byte{byte(f)}, value: func(r *rand.Rand) []byte {
				return append(packedBits(r, 4, [2]int{32, 1 << 32}), fraction(r, f)...)
			}}
		},
		func() twinColumn {
			f := r.IntN(7)
			return twinColumn{typ: WireTime, meta: []byte{byte(f)}, value: func(r *rand.Rand) []byte {
				b := append(packedBits(r, 3, [2]int{2, 1}, [2]int{10, 839}, [2]int{6, 60}, [2]int{6, 60}), fraction(r, f)...)
				b[0] |= 0x80
				if r.IntN(2) == 0 { // negative: the two's complement of all of it
					v := -bigEndian(b)
					for i := range b {
						b[len(b)-1-i] = byte(v >> (8 * i))
					}
				}
				return b
			}}
		},
		func() twinColumn {
			return twinColumn{typ: WireDate, value: func(r *rand.Rand) []byte {
				b := packedBits(r, 3, [2]int{15, 10000}, [2]int{4, 13}, [2]int{5, 32})
				return []byte{b[2], b[1], b[0]}
			}}
		},
		func() twinColumn {
			return twinColumn{typ: WireVarchar, meta: []byte{200, 0}, value: randomText(1, 200)}
		},
		func() twinColumn { return twinColumn{typ: WireVarchar, meta: []byte{0, 4}, value: randomText(2, 500)} },
		func() twinColumn { return twinColumn{typ: WireString, meta: []byte{254, 40}, value: randomText(1, 40)} },
		func() twinColumn {
			return twinColumn{typ: WireString, meta: []byte{238, 88}, value: randomText(2, 300)}
		}, // CHAR of 344 bytes
		func() twinColumn {
			return twinColumn{typ: WireBlob, meta: []byte{2}, value: randomText(2, 600), form: FormBinary}
		},
		func() twinColumn {
			return twinColumn{typ: WireBlob, meta: []byte{4}, value: randomText(4, 600), form: FormBinary}
		},
		func() twinColumn {
			return twinColumn{typ: WireString, meta: []byte{247, 2}, value: func(r *rand.Rand) []byte { return []byte{byte(r.IntN(3)), 1} }}
		},
		func() twinColumn {
			return twinColumn{typ: WireString, meta: []byte{248, 1}, value: func(r *rand.Rand) []byte { return []byte{byte(r.IntN(8))} }}
		},
	}
	columns := make([]twinColumn, 1+r.IntN(20))
	for i := range columns {
		columns[i] = all[r.IntN(len(all))]()
	}
	return columns
}

// theirs is go-mysql's value in our canonical text.
func theirs(c twinColumn, v any) string {
	switch v := v.(type) {
	case []byte:
		return `\x` + hex.EncodeToString(v)
	case int64:
		switch {
		case c.typ == WireBit:
			n := int(c.meta[1])*8 + int(c.meta[0])
			return fmt.Sprintf("%0*s", n, strconv.FormatUint(uint64(v), 2))
		case c.typ == WireString && c.meta[0] == 247:
			return fmt.Sprintf("l%d", v)
		case c.typ == WireString && c.meta[0] == 248:
			var set []string
			for i := range 3 {
				if v&(1<<i) != 0 {
					set = append(set, fmt.Sprintf("l%d", i+1))
				}
			}
			return strings.Join(set, ",")
		}
		return strconv.FormatInt(v, 10)
	case int:
		return fmt.Sprintf("%04d", v)
	case string:
		if f := 0; len(c.meta) == 1 && !strings.Contains(v, ".") && (c.typ == WireTime || c.typ == WireDatetime || c.typ == WireTimestamp) {
			if f = int(c.meta[0]); f > 0 { // it leaves out a fraction of zeros
				v += "." + strings.Repeat("0", f)
			}
			return v
		}
		return v
	}
	return fmt.Sprint(v)
}

// TestTwin decodes random rows as go-mysql does.
func TestTwin(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		columns := twinColumns(r)
		types := make([]WireType, len(columns))
		var meta []byte
		bound := make([]Column, len(columns))
		labels := make([]string, 300)
		for i := range labels {
			labels[i] = fmt.Sprintf("l%d", i+1)
		}
		for i, c := range columns {
			types[i] = c.typ
			meta = append(meta, c.meta...)
			bound[i] = Column{Index: i, Form: c.form, Labels: labels}
		}
		body := rowsBody(len(columns), 1)
		n := 1 + r.IntN(10)
		for range n {
			nulls := make([]byte, (len(columns)+7)/8)
			var values []byte
			for i, c := range columns {
				if r.IntN(5) == 0 {
					nulls[i/8] |= 1 << (i % 8)
					continue
				}
				values = append(values, c.value(r)...)
			}
			body = append(append(body, nulls...), values...)
		}
		table, rows := packet(typeTableMap, 0, 0, tableMap(types, meta), true), packet(typeWriteRows2, 0, 0, body, true)
		parser := replication.NewBinlogParser()
		parser.SetTimestampStringLocation(time.UTC)
		var parsed *replication.BinlogEvent
		for _, p := range [][]byte{formatPacket("9.7.0", true), table, rows} {
			var err error
			if parsed, err = parser.Parse(p); err != nil {
				t.Fatal(seed, err)
			}
		}
		want := parsed.Event.(*replication.RowsEvent).Rows
		d := started(t, "9.7.0", true)
		e, err := d.Decode(table)
		if err != nil {
			t.Fatal(seed, err)
		}
		l, err := NewLayout(e.Table, bound)
		if err != nil {
			t.Fatal(seed, err)
		}
		if e, err = d.Decode(rows); err != nil {
			t.Fatal(seed, err)
		}
		row := make(event.Row, len(columns))
		count := 0
		for ; ; count++ {
			more, err := e.Rows.Next(l, nil, row)
			if err != nil {
				t.Fatal(seed, err)
			}
			if !more {
				break
			}
			for i, c := range columns {
				w := "NULL"
				if v := want[count][i]; v != nil {
					w = theirs(c, v)
				}
				if got := texts(row)[i]; got != w {
					t.Fatalf("seed %d, row %d, column %d of type %d %v: %q, go-mysql has %q", seed, count, i, c.typ, c.meta, got, w)
				}
			}
		}
		if count != n || len(want) != n {
			t.Fatalf("seed %d: %d rows, go-mysql %d, of %d", seed, count, len(want), n)
		}
	}
}
