package mysql

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// benchTable is a row of six columns, about 90 bytes of text.
func benchTable(b *testing.B) *event.Schema {
	note := facts("varchar(60)")
	note.Length = 60
	amount := facts("decimal(12,2)")
	amount.Precision, amount.Scale = 12, 2
	at := facts("datetime(6)")
	at.Fraction = 6
	return mysqlTable(b, "bench", mysqlCol(b, "id", 1, facts("bigint")), mysqlCol(b, "customer", 0, facts("int")), mysqlCol(b, "state", 0, note),
		mysqlCol(b, "amount", 0, amount), mysqlCol(b, "at", 0, at), mysqlCol(b, "note", 0, note))
}

func benchRow(i int) event.Row {
	return text(strconv.Itoa(i), "4711", "paid", "1234.56", "2024-05-06 07:08:09.123456", "a note of about forty bytes for the row..")
}

// cpu reports the CPU time a row of this process and of the server from now on, of which other work on the machine takes nothing. The
// server's is known where it runs on this machine.
func (h *home) cpu(b *testing.B) (report func()) {
	now := func() (own, server time.Duration) {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		own = time.Duration(u.Utime.Nano() + u.Stime.Nano())
		rows, err := h.Query(context.Background(), "", "SELECT @@pid_file")
		if err != nil {
			b.Fatal(err)
		}
		pid, err := os.ReadFile(rows[0][0])
		if err != nil {
			return own, 0
		}
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		if err != nil {
			return own, 0
		}
		for _, field := range strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[11:13] {
			ticks, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			server += time.Duration(ticks) * 10 * time.Millisecond
		}
		return own, server
	}
	own, server := now()
	return func() {
		ownEnd, serverEnd := now()
		b.ReportMetric(float64((ownEnd-own).Microseconds())/float64(b.N), "own-µs/row")
		b.ReportMetric(float64((serverEnd-server).Microseconds())/float64(b.N), "server-µs/row")
	}
}

const (
	benchCommit = 20_000
	benchFill   = 100_000
)

func eachBench(b *testing.B, run func(b *testing.B, h *home)) {
	for _, version := range []string{"mysql:9.7", "mariadb:11.8"} {
		b.Run(version, func(b *testing.B) { run(b, newHome(b, shared.Get(b, version))) })
	}
}

// rows/s into an empty table.
func BenchmarkInsert(b *testing.B) {
	eachWay(b, func(b *testing.B, h *home, loadFrom int) {
		benchmarkApply(b, h, loadFrom, event.OpCreate, 0, func(i int) int { return i })
	})
}

// rows/s over 100,000 rows that are there.
func BenchmarkUpdate(b *testing.B) {
	eachWay(b, func(b *testing.B, h *home, loadFrom int) {
		benchmarkApply(b, h, loadFrom, event.OpUpdate, benchFill, func(i int) int { return i * 7919 % benchFill })
	})
}

// eachWay runs with LOAD DATA LOCAL and with statements alone, as a server wants it that takes no such loads.
func eachWay(b *testing.B, run func(b *testing.B, h *home, loadFrom int)) {
	eachBench(b, func(b *testing.B, h *home) {
		b.Run("loads", func(b *testing.B) { run(b, newHome(b, h.MySQL), minLoaded) })
		b.Run("statements", func(b *testing.B) { run(b, newHome(b, h.MySQL), math.MaxInt) })
	})
}

func benchmarkApply(b *testing.B, h *home, loadFrom int, op event.Op, fill int, id func(int) int) {
	tab := benchTable(b)
	s := h.open(b, "w", nil)
	s.loadFrom = loadFrom
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
	e.Change.Op = op
	b.ReportAllocs()
	defer h.cpu(b)()
	b.ResetTimer()
	for i := range b.N {
		e.Change.After[2].Text = strconv.AppendInt(e.Change.After[2].Text[:0], int64(i), 10)
		put(id(i))
		if i%benchCommit == benchCommit-1 {
			commit()
		}
	}
	commit()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// loader sends rows by LOAD DATA LOCAL, which is what BenchmarkInsert and BenchmarkUpdate are compared with.
type loader struct {
	*client.Conn
	rows  bytes.Buffer
	count int
}

func newLoader(b *testing.B, h *home) *loader {
	c, errs := parseDSN(h.dsn())
	if errs != nil {
		b.Fatal(errs)
	}
	raw, err := client.Connect(c.Address, c.User, c.Password, h.name, func(m *client.Conn) error { return m.SetCapability(mysql.CLIENT_LOCAL_FILES) })
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = raw.Close() })
	l := &loader{Conn: raw}
	l.exec(b, "CREATE TABLE bench (id bigint PRIMARY KEY, customer int, state varchar(60), amount decimal(12,2), at datetime(6), note varchar(60))")
	return l
}

func (l *loader) exec(b *testing.B, sql string) {
	if _, err := l.Execute(sql); err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
}

func (l *loader) add(i, n int) {
	for j, d := range benchRow(i) {
		if j > 0 {
			l.rows.WriteByte('\t')
		}
		if j == 2 {
			d.Text = strconv.AppendInt(nil, int64(n), 10)
		}
		l.rows.Write(d.Text)
	}
	l.rows.WriteByte('\n')
	l.count++
}

func (l *loader) load(b *testing.B, table string) {
	r, err := l.ExecQueryRelayLocalInfile("LOAD DATA LOCAL INFILE 'rows' INTO TABLE "+table, func([]byte) (io.Reader, error) { return bytes.NewReader(l.rows.Bytes()), nil })
	if err != nil || int(r.AffectedRows) != l.count {
		b.Fatalf("%d of %d rows, %v", r.AffectedRows, l.count, err)
	}
	l.rows.Reset()
	l.count = 0
}

// rows/s of LOAD DATA LOCAL into an empty table, a transaction of as many rows as the sink's.
func BenchmarkLoadData(b *testing.B) {
	eachBench(b, func(b *testing.B, h *home) {
		l := newLoader(b, h)
		defer h.cpu(b)()
		b.ResetTimer()
		for i := range b.N {
			if l.add(i, i); l.count == benchCommit {
				l.load(b, "bench")
			}
		}
		l.load(b, "bench")
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}

// The same over rows that are there, through a temporary table as the sink does it.
func BenchmarkLoadDataUpdate(b *testing.B) {
	eachBench(b, func(b *testing.B, h *home) {
		l := newLoader(b, h)
		for i := range benchFill {
			l.add(i, i)
		}
		l.load(b, "bench")
		l.exec(b, "CREATE TEMPORARY TABLE stage LIKE bench")
		const window = 4096
		l.exec(b, "BEGIN")
		flush := func() {
			l.load(b, "stage")
			l.exec(b, "UPDATE bench t JOIN stage s ON t.id = s.id SET t.customer = s.customer, t.state = s.state, t.amount = s.amount, t.at = s.at, t.note = s.note")
			l.exec(b, "DELETE FROM stage")
		}
		b.ResetTimer()
		for i := range b.N {
			if l.add(i*7919%benchFill, i); l.count == window {
				flush()
			}
			if i%benchCommit == benchCommit-1 {
				l.exec(b, "COMMIT")
				l.exec(b, "BEGIN")
			}
		}
		if l.count > 0 {
			flush()
		}
		l.exec(b, "COMMIT")
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}
