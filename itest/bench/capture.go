package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/rowtrail/rowtrail/log/sleep"
	"github.com/twmb/franz-go/pkg/kadm"
)

// offeredWithin is how long the markers of the last transaction may take.
const offeredWithin = 5 * time.Second

const (
	slot        = "rowtrail_bench"
	publication = "rowtrail_bench"
	table       = "bench_rows"
	caseTimeout = 10 * time.Minute
	peerName    = "pg_recvlogical"
)

// A small row of common types.
const createTable = `CREATE TABLE bench_rows (id bigint PRIMARY KEY, customer int NOT NULL, state text NOT NULL,
	total numeric(10,2) NOT NULL, placed timestamptz NOT NULL, gift boolean NOT NULL)`

const selectRows = `SELECT i, i %% 5000, 'state ' || i %% 7, (i %% 100000) / 100.0, '2025-01-01Z'::timestamptz + i * interval '1 second', i %% 3 = 0
	FROM generate_series(%d, %d) i`

// bed is a source with a connector that has been stopped, and slots that remember the same WAL for the peer.
type bed struct {
	source *servers.Postgres
	dsn    string
	conn   *pgx.Conn
	node   *process.Rowtrail
	dir    string

	profiles string // folder for CPU profiles, "": none
}

func newBed(ctx context.Context, cfg config, connector map[string]string) (*bed, error) {
	b := &bed{profiles: cfg.profile}
	var err error
	if b.source, err = servers.StartPostgres(ctx, servers.Options{Local: true, Settings: map[string]string{
		"max_wal_size": "8GB", "shared_buffers": "512MB", "logical_decoding_work_mem": "64MB"}}); err != nil {
		return nil, err
	}
	if b.dsn, err = b.source.CreateDatabase(ctx, "bench"); err != nil {
		b.close()
		return nil, err
	}
	if b.conn, err = pgx.Connect(ctx, b.dsn); err != nil {
		b.close()
		return nil, err
	}
	if _, err = b.conn.Exec(ctx, createTable); err != nil {
		b.close()
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "rowtrail-bench-node-"); err != nil {
		b.close()
		return nil, err
	}
	properties := map[string]string{"database.dsn": b.dsn, "topic.prefix": "bench", "table.include.list": "public." + table,
		"slot.name": slot, "publication.name": publication,
		"status.update.interval.ms": "50"} // how soon the slot shows what is durable
	for k, v := range connector {
		properties[k] = v
	}
	listen := map[string]string{}
	if cfg.profile != "" {
		listen["pprof"] = "true"
	}
	b.node, err = process.New(cfg.binary, b.dir, process.Config{Listen: listen, Connectors: []process.Connector{{Name: "bench", Config: properties}}})
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bed) close() {
	if b.node != nil {
		b.node.Kill()
	}
	if b.conn != nil {
		b.conn.Close(context.Background())
	}
	if b.source != nil {
		b.source.Close()
	}
	os.RemoveAll(b.dir)
}

// state waits until the connector is in a state.
func (b *bed) state(ctx context.Context, want string) error {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	for {
		var status []struct{ State, Error string }
		err := b.node.JSON(ctx, "/v1/connectors", &status)
		if err == nil && len(status) == 1 && status[0].State == want {
			return nil
		}
		if !sleep.For(ctx, 5*time.Millisecond) {
			return fmt.Errorf("wait for state %s: %+v; last lines:\n%s", want, status, b.node.Tail(5))
		}
	}
}

// establish makes the connector create its publication and slot, stops it, and copies the slot for the peer's runs.
func (b *bed) establish(ctx context.Context) error {
	if err := b.node.Start(); err != nil {
		return err
	}
	if err := b.node.WaitReady(ctx); err != nil {
		return err
	}
	if err := b.state(ctx, "streaming"); err != nil {
		return err
	}
	if err := b.node.Stop(); err != nil {
		return err
	}
	for _, name := range []string{"peer_1", "peer_2", "warm_up"} {
		if _, err := b.conn.Exec(ctx, "SELECT pg_copy_logical_replication_slot($1, $2)", slot, name); err != nil {
			return err
		}
	}
	return nil
}

func (b *bed) endLSN(ctx context.Context) (string, error) {
	var lsn string
	// A last small transaction, so that the position behind the measured ones is reached and confirmed.
	if _, err := b.conn.Exec(ctx, "INSERT INTO bench_rows VALUES (0, 0, '', 0, now(), false)"); err != nil {
		return "", err
	}
	err := b.conn.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&lsn)
	return lsn, err
}

// peer consumes a slot with pg_recvlogical up to end and returns how long that took.
func (b *bed) peer(ctx context.Context, name, end string) (time.Duration, error) {
	u, err := url.Parse(b.dsn)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(b.source.BinDir(), "pg_recvlogical"), "-d", u.String(), "--slot", name, "--start",
		"-o", "proto_version=1", "-o", "publication_names="+publication, "--endpos", end, "-n", "-f", "/dev/null")
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("pg_recvlogical: %w: %s", err, out)
	}
	return time.Since(start), nil
}

// rowtrail captures up to end and returns how long that took from the start of the process until the slot was confirmed, which
// happens only when the events are durable in the log.
func (b *bed) rowtrail(ctx context.Context, end string, rows int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	start := time.Now()
	if err := b.node.Start(); err != nil {
		return 0, err
	}
	profiled := profileNode(b.profiles, b.node, "capture")
	defer profiled()
	for {
		var reached bool
		err := b.conn.QueryRow(ctx, "SELECT confirmed_flush_lsn >= $1::pg_lsn FROM pg_replication_slots WHERE slot_name = $2", end, slot).Scan(&reached)
		if err != nil {
			return 0, fmt.Errorf("wait for %s: %w; last lines:\n%s", end, err, b.node.Tail(5))
		}
		if reached {
			if err := b.offered(ctx, rows); err != nil {
				return 0, err
			}
			took := time.Since(start)
			return took, b.node.Stop()
		}
		if !sleep.For(ctx, 5*time.Millisecond) {
			return 0, fmt.Errorf("wait for %s: %w; last lines:\n%s", end, ctx.Err(), b.node.Tail(5))
		}
	}
}

// offered waits until a read_committed reader is offered so many records: a rate of what is not there is none. The end of a transaction is
// answered when it is decided, a moment before its markers show it.
func (b *bed) offered(ctx context.Context, rows int) error {
	client, err := b.node.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	topic := "bench.public." + table
	for deadline := time.Now().Add(offeredWithin); ; {
		ends, err := admin.ListCommittedOffsets(ctx, topic)
		if err == nil {
			err = ends.Error()
		}
		if err != nil {
			return fmt.Errorf("count records: %w", err)
		}
		end, _ := ends.Lookup(topic, 0)
		if end.Offset >= int64(rows) {
			return nil
		}
		if time.Now().After(deadline) || !sleep.For(ctx, time.Millisecond) {
			return fmt.Errorf("the log ends at offset %d after %d rows", end.Offset, rows)
		}
	}
}

func capture(ctx context.Context, cfg config, name string, rows int, write func(*bed) error) ([]line, error) {
	b, err := newBed(ctx, cfg, map[string]string{"snapshot.mode": "no_data"})
	if err != nil {
		return nil, err
	}
	defer b.close()
	if err := b.establish(ctx); err != nil {
		return nil, err
	}
	if err := write(b); err != nil {
		return nil, err
	}
	end, err := b.endLSN(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := b.peer(ctx, "warm_up", end); err != nil {
		return nil, err
	}
	var rates [2]float64
	first, err := b.peer(ctx, "peer_1", end)
	if err != nil {
		return nil, err
	}
	ours, err := b.rowtrail(ctx, end, rows)
	if err != nil {
		return nil, err
	}
	second, err := b.peer(ctx, "peer_2", end)
	if err != nil {
		return nil, err
	}
	rates[0], rates[1] = float64(rows)/first.Seconds(), float64(rows)/second.Seconds()
	return []line{throughput(name, "rows/s", peerName, float64(rows)/ours.Seconds(), rates, 0.3)}, nil
}

func captureOne(ctx context.Context, cfg config) ([]line, error) {
	return capture(ctx, cfg, fmt.Sprintf("capture %d inserts in one transaction", cfg.rows), cfg.rows, func(b *bed) error {
		_, err := b.conn.Exec(ctx, fmt.Sprintf("INSERT INTO bench_rows "+selectRows, 1, cfg.rows))
		return err
	})
}

func captureMany(ctx context.Context, cfg config) ([]line, error) {
	return capture(ctx, cfg, fmt.Sprintf("capture %d one-row transactions", cfg.transactions), cfg.transactions, func(b *bed) error {
		// One call of its own: COMMIT is refused inside a multi-statement query.
		if _, err := b.conn.Exec(ctx, "SET synchronous_commit = off"); err != nil {
			return err
		}
		_, err := b.conn.Exec(ctx, fmt.Sprintf(`DO $$ DECLARE r bench_rows; BEGIN FOR r IN %s LOOP INSERT INTO bench_rows SELECT r.*; COMMIT; END LOOP; END $$`,
			fmt.Sprintf(selectRows, 1, cfg.transactions)))
		return err
	})
}

// load compares one COPY of the table with the initial load of the same table into the log, process start included.
func load(ctx context.Context, cfg config) ([]line, error) {
	b, err := newBed(ctx, cfg, map[string]string{"snapshot.mode": "initial"})
	if err != nil {
		return nil, err
	}
	defer b.close()
	if _, err := b.conn.Exec(ctx, fmt.Sprintf("INSERT INTO bench_rows "+selectRows, 1, cfg.rows)); err != nil {
		return nil, err
	}
	if _, err := b.conn.Exec(ctx, "VACUUM (FREEZE, ANALYZE) bench_rows"); err != nil {
		return nil, err
	}
	if _, err := b.copyOut(ctx); err != nil { // warm-up
		return nil, err
	}
	first, err := b.copyOut(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := b.node.Start(); err != nil {
		return nil, err
	}
	if err := b.state(ctx, "streaming"); err != nil {
		return nil, err
	}
	ours := time.Since(start)
	if err := b.offered(ctx, cfg.rows); err != nil {
		return nil, err
	}
	if err := b.node.Stop(); err != nil {
		return nil, err
	}
	second, err := b.copyOut(ctx)
	if err != nil {
		return nil, err
	}
	n := float64(cfg.rows)
	return []line{throughput(fmt.Sprintf("initial load of %d rows", cfg.rows), "rows/s", "COPY TO STDOUT, one connection", n/ours.Seconds(),
		[2]float64{n / first.Seconds(), n / second.Seconds()}, 0.15)}, nil
}

type discard struct{ n int64 }

func (d *discard) Write(p []byte) (int, error) { d.n += int64(len(p)); return len(p), nil }

func (b *bed) copyOut(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	_, err := b.conn.PgConn().CopyTo(ctx, &discard{}, "COPY bench_rows TO STDOUT")
	return time.Since(start), err
}
