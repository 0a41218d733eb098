package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/rowtrail/rowtrail/itest/shop"
	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	mysqlDatabase = "bench"
	// mysqlEnds is how many tables there are of which each ends a case: what stands before its row is in the log when the row is.
	mysqlEnds = 8
	// pollEvery is how often the log is asked how far it goes.
	pollEvery = 2 * time.Millisecond
)

// mysqlBed is a MySQL or MariaDB source, and the two that capture it: a Rowtrail node, and a Debezium that writes to a Rowtrail node which
// is no more than its broker. Both stand still between the cases, with the position up to which they came.
type mysqlBed struct {
	cfg    config
	source *servers.MySQL
	db     shop.MySQL
	dir    string
	node   *process.Rowtrail
	broker *process.Rowtrail
	relay  *relay

	ended int                                    // cases
	seen  map[*process.Rowtrail]map[string]int64 // how far topics went when the last case was over
}

func newMySQLBed(ctx context.Context, cfg config, version string) (b *mysqlBed, err error) {
	b = &mysqlBed{cfg: cfg, seen: map[*process.Rowtrail]map[string]int64{}}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.source, err = servers.StartMySQL(ctx, servers.Options{Version: version, Local: true, Settings: map[string]string{
		"innodb_buffer_pool_size": "512M", "max_allowed_packet": "64M"}}); err != nil {
		return b, err
	}
	if err = b.source.CreateDatabase(ctx, mysqlDatabase); err != nil {
		return b, err
	}
	b.db = shop.MySQL{Address: fmt.Sprintf("%s:%d", b.source.Host(), b.source.Port()), User: b.source.User(), Password: b.source.Password(), Name: mysqlDatabase}
	if err = b.exec(ctx, mysqlTables()...); err != nil {
		return b, err
	}
	if b.dir, err = os.MkdirTemp("", "rowtrail-bench-mysql-"); err != nil {
		return b, err
	}
	listen := map[string]string{}
	if cfg.profile != "" {
		listen["pprof"] = "true"
	}
	properties := b.properties()
	properties["database.server.id"] = "5601"
	if b.node, err = b.newNode("node", process.Config{Listen: listen,
		Connectors: []process.Connector{{Name: "bench", Type: b.source.Flavour(), Config: properties}}}); err != nil {
		return b, err
	}
	if b.broker, err = b.newNode("broker", process.Config{}); err != nil {
		return b, err
	}
	if !b.source.MariaDB() { // whose connector of Debezium is not built with the engine here
		b.relay, err = newRelay(ctx, b)
	}
	return b, err
}

func (b *mysqlBed) newNode(name string, config process.Config) (*process.Rowtrail, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	config.Node = map[string]string{"min_free_bytes": "64MiB"}
	return process.New(b.cfg.binary, dir, config)
}

// properties are those that both are given alike.
func (b *mysqlBed) properties() map[string]string {
	return map[string]string{
		"database.hostname": b.source.Host(), "database.port": strconv.Itoa(b.source.Port()),
		"database.user": b.source.User(), "database.password": b.source.Password(), "database.ssl.mode": "disabled",
		"topic.prefix": "bench", "table.include.list": mysqlDatabase + `\..*`, "snapshot.mode": "no_data", "include.schema.changes": "false",
	}
}

func (b *mysqlBed) close() {
	if b.relay != nil {
		b.relay.kill()
	}
	for _, n := range []*process.Rowtrail{b.node, b.broker} {
		if n != nil {
			_ = n.Kill()
		}
	}
	if b.source != nil {
		_ = b.source.Close()
	}
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
}

func (b *mysqlBed) exec(ctx context.Context, statements ...string) error {
	return shop.With(ctx, b.db, func(s shop.Session) error { return s.Exec(ctx, statements...) })
}

func mysqlTopic(table string) string { return "bench." + mysqlDatabase + "." + table }

func mysqlEnd(n int) string { return fmt.Sprint("bench_end", n) }

// establish gives both a position in the binary log and stops them.
func (b *mysqlBed) establish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	if b.relay != nil {
		if err := b.establishRelay(ctx); err != nil {
			return err
		}
	}
	if err := b.node.Start(); err != nil {
		return err
	}
	if err := b.node.WaitReady(ctx); err != nil {
		return err
	}
	if err := awaitState(ctx, b.node, "streaming"); err != nil {
		return err
	}
	return b.node.Stop()
}

func (b *mysqlBed) establishRelay(ctx context.Context) error {
	end := mysqlEnd(0)
	return b.beside(ctx, func(ends func(string) (int64, error)) error {
		for { // it says nothing when it streams
			if err := b.exec(ctx, "INSERT INTO "+end+" VALUES ()"); err != nil {
				return err
			}
			if n, err := ends(mysqlTopic(end)); err != nil || n > 0 {
				return err
			}
			if !sleep.For(ctx, 200*time.Millisecond) {
				return fmt.Errorf("wait for Debezium: %w; the end of its log:\n%s", ctx.Err(), b.relay.tail())
			}
		}
	})
}

// beside runs f while Debezium captures; f can ask how far a topic of its log goes.
func (b *mysqlBed) beside(ctx context.Context, f func(ends func(topic string) (int64, error)) error) (err error) {
	if err := b.broker.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.broker.Stop()) }()
	if err := b.broker.WaitReady(ctx); err != nil {
		return err
	}
	ends, done, err := committedEnds(ctx, b.broker)
	if err != nil {
		return err
	}
	defer done()
	if err := b.relay.start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.relay.stop()) }()
	return f(ends)
}

// committedEnds tells what of a topic a read_committed reader is offered; 0 where there is no such topic.
func committedEnds(ctx context.Context, node *process.Rowtrail) (ends func(topic string) (int64, error), done func(), err error) {
	client, err := node.Client(kgo.RetryBackoffFn(func(int) time.Duration { return pollEvery }))
	if err != nil {
		return nil, nil, err
	}
	admin := kadm.NewClient(client)
	return func(topic string) (int64, error) {
		list, err := admin.ListCommittedOffsets(ctx, topic)
		if err != nil {
			return 0, fmt.Errorf("count records of %s: %w", topic, err)
		}
		end, ok := list.Lookup(topic, 0)
		if !ok || end.Err != nil { // not there yet
			return 0, nil
		}
		return end.Offset, nil
	}, client.Close, nil
}

// captured is how one of the two did a case.
type captured struct {
	took     time.Duration // from the start of the process until all was offered
	steady   float64       // rows a second, without the first fifth
	cpu      time.Duration // of its process
	resident int64         // bytes, the most that it had
}

// use adds what a process has used.
func (c *captured) use(pid int) (err error) {
	if c.cpu, err = cpuTime(pid); err != nil {
		return err
	}
	c.resident, err = process.PeakResident(pid)
	return err
}

// follow waits until all rows of a case are offered to a read_committed reader.
func (b *mysqlBed) follow(ctx context.Context, node *process.Rowtrail, ends func(string) (int64, error), began time.Time, topic string, rows int) (captured, error) {
	var fifth time.Time
	var there int64 // then
	if b.seen[node] == nil {
		b.seen[node] = map[string]int64{}
	}
	before := b.seen[node][topic]
	last := mysqlTopic(mysqlEnd(b.ended))
	for {
		n, err := ends(topic)
		if err != nil {
			return captured{}, err
		}
		if fifth.IsZero() && n-before >= int64(rows/5) {
			fifth, there = time.Now(), n-before
		}
		over, err := ends(last)
		if err != nil {
			return captured{}, err
		}
		if over > 0 {
			end := time.Now()
			if n, err = ends(topic); err != nil || n-before < int64(rows) {
				return captured{}, errors.Join(err, fmt.Errorf("%s has %d records more than before, %d rows were written", topic, n-before, rows))
			}
			b.seen[node][topic] = n
			c := captured{took: end.Sub(began)}
			if c.steady = float64(int64(rows)-there) / end.Sub(fifth).Seconds(); fifth.IsZero() || there > int64(rows/2) { // most came at once
				c.steady = float64(rows) / c.took.Seconds()
			}
			return c, nil
		}
		if !sleep.For(ctx, pollEvery) {
			return captured{}, fmt.Errorf("wait for %d rows of %s: %w", rows, topic, ctx.Err())
		}
	}
}

// rowtrail captures what a case wrote.
func (b *mysqlBed) rowtrail(ctx context.Context, label, table string, rows int) (c captured, err error) {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	began := time.Now()
	if err := b.node.Start(); err != nil {
		return c, err
	}
	profiled := profileNode(b.cfg.profile, b.node, label)
	defer profiled()
	if err := b.node.WaitReady(ctx); err != nil {
		return c, err
	}
	ends, done, err := committedEnds(ctx, b.node)
	if err != nil {
		return c, err
	}
	defer done()
	if c, err = b.follow(ctx, b.node, ends, began, mysqlTopic(table), rows); err != nil {
		return c, fmt.Errorf("%w; last lines:\n%s", err, b.node.Tail(5))
	}
	if err := c.use(b.node.PID()); err != nil {
		return c, err
	}
	return c, b.node.Stop()
}

// debezium captures the same.
func (b *mysqlBed) debezium(ctx context.Context, table string, rows int) (c captured, err error) {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	err = b.beside(ctx, func(ends func(string) (int64, error)) (err error) {
		if c, err = b.follow(ctx, b.broker, ends, time.Now(), mysqlTopic(table), rows); err != nil {
			return fmt.Errorf("%w; the end of Debezium's log:\n%s", err, b.relay.tail())
		}
		return c.use(b.relay.pid())
	})
	return c, err
}

// limit reads the binary log from the begin of a file on, as the server's own tool keeps a copy of it.
func (b *mysqlBed) limit(ctx context.Context, file string) (time.Duration, error) {
	dir, err := os.MkdirTemp(b.dir, "raw-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	args := []string{"--no-defaults", "--read-from-remote-server", "--raw", "--to-last-log", "--host=" + b.source.Host(), "--port=" + strconv.Itoa(b.source.Port()),
		"--user=" + b.source.User(), "--password=" + b.source.Password(), "--result-file=" + dir + "/"}
	tool := b.tool()
	if b.source.MariaDB() {
		args = append(args, "--skip-ssl")
	} else {
		args = append(args, "--ssl-mode=DISABLED", "--get-server-public-key")
	}
	began := time.Now()
	if out, err := exec.CommandContext(ctx, tool, append(args, file)...).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", filepath.Base(tool), err, out)
	}
	took := time.Since(began)
	return took, b.whole(ctx, dir, file)
}

func (b *mysqlBed) tool() string {
	name := "mysqlbinlog"
	if b.source.MariaDB() {
		name = "mariadb-binlog"
	}
	return filepath.Join(b.source.BinDir(), "bin", name)
}

// whole makes sure that a copy has all that the server has: a rate of what was not read is none.
func (b *mysqlBed) whole(ctx context.Context, dir, first string) error {
	logs, err := b.source.Query(ctx, "", "SHOW BINARY LOGS")
	if err != nil {
		return err
	}
	for _, log := range logs {
		if log[0] < first {
			continue
		}
		copied, err := os.Stat(filepath.Join(dir, log[0]))
		if err != nil {
			return err
		}
		if size, err := strconv.ParseInt(log[1], 10, 64); err != nil || copied.Size() != size {
			return errors.Join(err, fmt.Errorf("%s has copied %d bytes of %s, which has %s", filepath.Base(b.tool()), copied.Size(), log[0], log[1]))
		}
	}
	return nil
}

// awaitState waits until a node's one connector is in a state.
func awaitState(ctx context.Context, node *process.Rowtrail, want string) error {
	for {
		var status []struct{ State, Error string }
		err := node.JSON(ctx, "/v1/connectors", &status)
		if err == nil && len(status) == 1 && status[0].State == want {
			return nil
		}
		if !sleep.For(ctx, 5*time.Millisecond) {
			return fmt.Errorf("wait for state %s: %+v; last lines:\n%s", want, status, node.Tail(5))
		}
	}
}

// mysqlTables are a small row of common types, a wide one, and what ends the cases.
func mysqlTables() []string {
	list := []string{`CREATE TABLE bench_rows (id bigint PRIMARY KEY, customer int NOT NULL, state varchar(40) NOT NULL,
		total decimal(12,2) NOT NULL, placed timestamp NOT NULL, gift tinyint(1) NOT NULL)`}
	var wide strings.Builder
	wide.WriteString("CREATE TABLE bench_wide (id bigint PRIMARY KEY")
	for i := range wideGroups {
		fmt.Fprintf(&wide, ", n%d int NOT NULL, t%d varchar(120), d%d decimal(18,4), at%d datetime(6) NOT NULL, j%d json", i, i, i, i, i)
	}
	list = append(list, wide.String()+")")
	for n := range mysqlEnds {
		list = append(list, "CREATE TABLE "+mysqlEnd(n)+" (id bigint AUTO_INCREMENT PRIMARY KEY)")
	}
	return list
}
