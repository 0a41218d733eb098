package binlog

import (
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// benchEvent is an event of 8 KiB with rows of five small columns: INT, BIGINT, VARCHAR(20), DECIMAL(10,2), DATETIME.
func benchEvent(t testing.TB) (d *Decoder, rows []byte, l *Layout, n int) {
	d = started(t, "9.7.0", true)
	types := []WireType{WireLong, WireLongLong, WireVarchar, WireDecimal, WireDatetime}
	e, err := d.Decode(packet(typeTableMap, 0, 0, tableMap(types, []byte{80, 0, 10, 2, 0}), true))
	if err != nil {
		t.Fatal(err)
	}
	columns := make([]Column, len(types))
	for i := range columns {
		columns[i].Index = i
	}
	if l, err = NewLayout(e.Table, columns); err != nil {
		t.Fatal(err)
	}
	body := rowsBody(len(types), 1)
	body[6] = 0 // the statement goes on, so that the table stays mapped
	for len(body) < 8192 {
		body = append(body, 0, byte(n), byte(n>>8), 1, 0, 1, 2, 3, 4, 5, 0, 0, 0)
		body = append(append(body, 12), "customer one"...)
		body = append(body, 0x80, 0x01, 0xe2, 0x40, 0x19)    // 123456.25
		body = append(body, 0x99, 0xb2, 0xba, 0xc8, byte(n)) // a day in 2024
		n++
	}
	return d, packet(typeWriteRows2, 0, 0, body, true), l, n
}

// BenchmarkRows is the whole way of a row: checksum, framing, values.
func BenchmarkRows(b *testing.B) {
	d, p, l, n := benchEvent(b)
	row := make(event.Row, 5)
	b.ReportAllocs()
	b.SetBytes(int64(len(p)))
	total := 0
	for b.Loop() {
		e, err := d.Decode(p)
		if err != nil {
			b.Fatal(err)
		}
		for {
			more, err := e.Rows.Next(l, nil, row)
			if err != nil {
				b.Fatal(err)
			}
			if !more {
				break
			}
			total++
		}
	}
	if total != b.N*n {
		b.Fatalf("%d rows of %d", total, b.N*n)
	}
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "rows/s")
}

// TestRowsAllocateNothing: in steady state an event takes no memory, its rows included.
func TestRowsAllocateNothing(t *testing.T) {
	d, p, l, _ := benchEvent(t)
	row := make(event.Row, 5)
	allocs := testing.AllocsPerRun(50, func() {
		e, err := d.Decode(p)
		if err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			if more, err = e.Rows.Next(l, nil, row); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations an event", allocs)
	}
}
