package postgres

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// benchTable is a row of six columns, about 90 bytes of text.
func benchTable(b *testing.B) *event.Schema {
	return tableOf(b, "bench", sinktest.Col("id", "bigint", event.KindInt64, 1), sinktest.Col("customer", "integer", event.KindInt32, 0),
		sinktest.Col("state", "text", event.KindText, 0), sinktest.Col("amount", "numeric(12,2)", event.KindNumeric, 0),
		sinktest.Col("at", "timestamp with time zone", event.KindTimestampTZ, 0), sinktest.Col("note", "text", event.KindText, 0))
}

func benchRow(i int) event.Row {
	return text(strconv.Itoa(i), "4711", "paid", "1234.56", "2024-05-06 07:08:09.123456+00", "a note of about forty bytes for the row..")
}

// rows/s into an empty table.
func BenchmarkInsert(b *testing.B) { benchmarkApply(b, 0, func(i int) int { return i }) }

// rows/s over 100,000 rows that are there.
func BenchmarkUpdate(b *testing.B) {
	benchmarkApply(b, 100_000, func(i int) int { return i * 7919 % 100_000 })
}

func benchmarkApply(b *testing.B, fill int, id func(int) int) {
	dsn, _ := database(b)
	tab := benchTable(b)
	s := openSession(b, config(b, "w", dsn, nil))
	ctx := context.Background()
	e := ev(tab, event.OpCreate, benchRow(0))
	put := func(i int) {
		row := e.Change.After
		row[0].Text = strconv.AppendInt(row[0].Text[:0], int64(i), 10)
		e.Key[0].Text = row[0].Text
		if err := s.Apply(ctx, e); err != nil {
			b.Fatal(err)
		}
	}
	commit := func() {
		if err := s.Commit(ctx, nil); err != nil {
			b.Fatal(err)
		}
	}
	for i := range fill {
		put(i)
	}
	commit()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		put(id(i))
		if i%20_000 == 0 {
			commit()
		}
	}
	commit()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// The whole way: log, merge, decode, apply, commit; source transactions of 10 rows.
func BenchmarkSink(b *testing.B) {
	dsn, conn := database(b)
	l := sinktest.NewLog(b, "shop")
	tab := l.NewTable(b, "public", "bench", 4, benchTable(b).Columns...)
	const perTx = 10
	n := max(b.N, perTx) / perTx * perTx
	for i := 0; i < n; {
		var txs []*sinktest.Tx
		for len(txs) < 200 && i < n {
			tx := l.Begin(b)
			for range perTx {
				tx.Change(tab, event.OpCreate, nil, benchRow(i))
				i++
			}
			txs = append(txs, tx)
		}
		l.Write(b, true, txs...)
	}
	r, err := New(config(b, "w", dsn, nil), l.Deps(nil, ""))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.ReportAllocs()
	b.ResetTimer()
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	for r.Status().Events < uint64(n) {
		select {
		case err := <-done:
			b.Fatal(err)
		default:
		}
		pauseBriefly()
	}
	b.StopTimer()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
	cancel()
	<-done
	if got := rows(b, conn, "SELECT count(*) FROM bench"); got[0] != fmt.Sprint(n) {
		b.Fatalf("%s rows, want %d", got[0], n)
	}
}

func pauseBriefly() { time.Sleep(time.Millisecond) }
