package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/shop"
	"github.com/rowtrail/rowtrail/itest/toolchain"
)

// Floors of capture from MySQL and MariaDB: of the limit's rows, of Debezium's, and how much less memory and time it takes.
const (
	binlogFloor   = 0.4
	debeziumFloor = 1.5
	memoryFloor   = 10
	lateFloor     = 2
)

const (
	wideGroups  = 8 // of five columns
	wideShare   = 10
	updateShare = 2
	severalRows = 10 // of a statement, which is a transaction
	manyRows    = 1000
	bulkBegin   = 10_000_000 // keys of the bulk's rows
)

// mysqlCase is what is written, and captured from the binary log then.
type mysqlCase struct {
	name   string
	table  string
	rows   int
	memory bool // which the two take is compared
	write  func(ctx context.Context, s shop.Session, rows int) error
}

func (cfg config) mysqlCases() []mysqlCase {
	return []mysqlCase{
		{"inserts", "bench_rows", cfg.rows, true, insertRows("bench_rows", smallRow, 0, severalRows)},
		{"bulk inserts", "bench_rows", cfg.rows, false, insertRows("bench_rows", smallRow, bulkBegin, manyRows)},
		{"one-row transactions", "bench_rows", cfg.transactions, false, insertSingly(cfg.rows)},
		{"updates", "bench_rows", cfg.rows / updateShare, false, updateRows},
		{"wide rows", "bench_wide", cfg.rows / wideShare, false, insertRows("bench_wide", wideRow, 0, severalRows)},
	}
}

func (c *mysqlCase) describe() string {
	switch c.name {
	case "one-row transactions":
		return fmt.Sprintf("capture %d %s", c.rows, c.name)
	case "bulk inserts":
		return fmt.Sprintf("capture %d inserts, %d a transaction", c.rows, manyRows)
	case "wide rows":
		return fmt.Sprintf("capture %d inserts of %d columns, %d a transaction", c.rows, 1+5*wideGroups, severalRows)
	}
	return fmt.Sprintf("capture %d %s, %d a transaction", c.rows, c.name, severalRows)
}

func smallRow(i int) string {
	return fmt.Sprintf("(%d,%d,'state %d',%d.%02d,'2025-01-01 00:00:00' + INTERVAL %d SECOND,%d)", i, i%5000, i%7, i%100000/100, i%100, i, i%3%2)
}

func wideRow(i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "(%d", i)
	for g := range wideGroups {
		fmt.Fprintf(&b, `,%d,'row %d has a text of some length in its group %d, which is not short',%d.%04d,'2025-01-01 00:00:00.123456','{"row": %d, "group": "g%d"}'`,
			i*g, i, g, i*g, i%10000, i, g)
	}
	return b.String() + ")"
}

// insertRows writes statements of so many rows, each a transaction; keys follow begin.
func insertRows(table string, row func(i int) string, begin, each int) func(context.Context, shop.Session, int) error {
	return func(ctx context.Context, s shop.Session, rows int) error {
		for first := 1; first <= rows; first += each {
			var list []string
			for i := first; i < first+each && i <= rows; i++ {
				list = append(list, row(begin+i))
			}
			if err := s.Exec(ctx, "INSERT INTO "+table+" VALUES "+strings.Join(list, ",")); err != nil {
				return err
			}
		}
		return nil
	}
}

// insertSingly writes rows behind those that are there, each in a transaction of its own.
func insertSingly(there int) func(context.Context, shop.Session, int) error {
	return func(ctx context.Context, s shop.Session, rows int) error {
		return s.Exec(ctx, `CREATE PROCEDURE singly(n int, rows_there int) BEGIN DECLARE i int DEFAULT 1; WHILE i <= n DO
			INSERT INTO bench_rows VALUES (rows_there + i, i % 5000, 'new', i / 100, '2025-01-01 00:00:00', 0); SET i = i + 1; END WHILE; END`,
			fmt.Sprintf("CALL singly(%d, %d)", rows, there))
	}
}

func updateRows(ctx context.Context, s shop.Session, rows int) error {
	for first := 1; first <= rows; first += severalRows {
		sql := fmt.Sprintf("UPDATE bench_rows SET customer = customer + 1, total = total + 1 WHERE id BETWEEN %d AND %d", first, min(rows, first+severalRows-1))
		if err := s.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// captureMySQL measures capture of a server's binary log beside the server's own tool, which copies the same log over the network, and
// Debezium, which writes the same events to a node that is its broker.
func captureMySQL(version string) func(context.Context, config) ([]line, error) {
	return func(ctx context.Context, cfg config) (lines []line, err error) {
		debezium, err := toolchain.DebeziumVersion(".", toolchain.DebeziumPostgresMySQL)
		if err != nil {
			return nil, err
		}
		flavour, _, _ := strings.Cut(version, ":")
		b, err := newMySQLBed(ctx, cfg, version)
		if err != nil {
			return nil, err
		}
		defer b.close()
		wanted := func(name string) bool { return strings.Contains(flavour+" "+name, cfg.only) }
		if !wanted("inserts") { // what is updated is there before capture begins
			if err := shop.With(ctx, b.db, func(s shop.Session) error {
				return insertRows("bench_rows", smallRow, 0, manyRows)(ctx, s, cfg.rows/updateShare)
			}); err != nil {
				return nil, err
			}
		}
		if err := b.establish(ctx); err != nil {
			return nil, err
		}
		for _, c := range cfg.mysqlCases() {
			if !wanted(c.name) {
				continue
			}
			fmt.Fprintf(os.Stderr, "bench: %s %s\n", flavour, c.name)
			some, err := b.run(ctx, &c, flavour, "Debezium "+debezium)
			if err != nil {
				return lines, fmt.Errorf("%s: %w", c.name, err)
			}
			lines = append(lines, some...)
		}
		if !wanted("latency") {
			return lines, nil
		}
		late, err := b.latency(ctx, flavour, "Debezium "+debezium)
		return append(lines, late...), err
	}
}

func (b *mysqlBed) run(ctx context.Context, c *mysqlCase, flavour, peer string) ([]line, error) {
	b.ended++
	if err := b.exec(ctx, "FLUSH BINARY LOGS"); err != nil {
		return nil, err
	}
	file, _, err := b.source.BinaryLog(ctx)
	if err != nil {
		return nil, err
	}
	err = shop.With(ctx, b.db, func(s shop.Session) error {
		if err := c.write(ctx, s, c.rows); err != nil {
			return err
		}
		return s.Exec(ctx, "INSERT INTO "+mysqlEnd(b.ended)+" VALUES ()")
	})
	if err != nil {
		return nil, err
	}
	if _, err := b.limit(ctx, file); err != nil { // warm-up
		return nil, err
	}
	first, err := b.limit(ctx, file)
	if err != nil {
		return nil, err
	}
	ours, err := b.rowtrail(ctx, flavour+" "+c.name, c.table, c.rows)
	if err != nil {
		return nil, err
	}
	var theirs captured
	if b.relay != nil {
		if theirs, err = b.debezium(ctx, c.table, c.rows); err != nil {
			return nil, err
		}
	}
	second, err := b.limit(ctx, file)
	if err != nil {
		return nil, err
	}
	n, name := float64(c.rows), flavour+": "+c.describe()
	cpu := func(c captured) float64 { return round3(float64(c.cpu.Microseconds()) / n) }
	limit := filepath.Base(b.tool()) + " --read-from-remote-server --raw"
	lines := []line{throughput(name, "rows/s", limit, n/ours.took.Seconds(), [2]float64{n / first.Seconds(), n / second.Seconds()}, binlogFloor)}
	if b.relay == nil {
		return append(lines, report(name+": CPU time a row", "µs", cpu(ours))), nil
	}
	lines = append(lines, versus(name+", without the first fifth", "rows/s", peer, ours.steady, theirs.steady, debeziumFloor),
		lower(name+": CPU time a row, log and start included; theirs without its broker", "µs", peer, cpu(ours), cpu(theirs), 0))
	if c.memory {
		mb := func(bytes int64) float64 { return round(float64(bytes) / (1 << 20)) }
		lines = append(lines, lower(name+": most memory resident", "MiB", peer, mb(ours.resident), mb(theirs.resident), memoryFloor))
	}
	return lines, nil
}

// latency measures commit to consumer at a steady rate.
func (b *mysqlBed) latency(ctx context.Context, flavour, peer string) ([]line, error) {
	if err := b.node.Start(); err != nil {
		return nil, err
	}
	if err := b.node.WaitReady(ctx); err != nil {
		return nil, err
	}
	ours, err := b.late(ctx, b.node, 1)
	if err != nil {
		return nil, fmt.Errorf("%w; last lines:\n%s", err, b.node.Tail(5))
	}
	if err := b.node.Stop(); err != nil {
		return nil, err
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	ourP50, ourP99 := ours.percentiles()
	name := fmt.Sprintf("%s: commit to consumer at %d transactions/s", flavour, b.cfg.tps)
	if b.relay == nil {
		return []line{report(name+", p50", "ms", ms(ourP50)), report(name+", p99", "ms", ms(ourP99))}, nil
	}
	var theirs *stopwatch
	err = b.beside(ctx, func(func(string) (int64, error)) error {
		theirs, err = b.late(ctx, b.broker, 3)
		return err
	})
	if err != nil {
		return nil, err
	}
	theirP50, theirP99 := theirs.percentiles()
	return []line{lower(name+", p50", "ms", peer, ms(ourP50), ms(theirP50), 0), lower(name+", p99", "ms", peer, ms(ourP99), ms(theirP99), lateFloor)}, nil
}

// late measures one of the two, which has begun to capture, once it has caught up and is warm. It uses up two runs.
func (b *mysqlBed) late(ctx context.Context, node *process.Rowtrail, run int) (*stopwatch, error) {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	watch := newStopwatch()
	client, err := watch.consume(ctx, node, mysqlTopic("bench_rows"))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	open := func(ctx context.Context) (inserter, func(), error) {
		s, err := b.db.Connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		insert := func(id int64) error {
			return s.Exec(ctx, fmt.Sprintf("INSERT INTO bench_rows VALUES (%d, 1, 'new', 9.99, now(), 0)", id))
		}
		return insert, s.Close, nil
	}
	// What was written before is a backlog: it is over once rows that follow it are seen.
	whole := time.Duration(b.cfg.seconds) * time.Second
	if err := steady(ctx, b.cfg, whole/2, run, watch, open); err != nil {
		return nil, err
	}
	if err := watch.settle(ctx, caseTimeout); err != nil {
		return nil, err
	}
	watch.reset()
	if err := steady(ctx, b.cfg, whole, run+1, watch, open); err != nil {
		return nil, err
	}
	return watch, watch.settle(ctx, settleWithin)
}
