package mysql

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// fill puts so many rows into t, and 200 of them into u.
func (d *database) fill(rows int) {
	d.t.Helper()
	var values []string
	for i := range rows {
		values = append(values, fmt.Sprintf("(%d, 0, REPEAT('x', %d))", i+1, 50+i%100))
	}
	d.exec("INSERT INTO t (id, n, pad) VALUES "+strings.Join(values, ","), "INSERT INTO u SELECT id, n FROM t WHERE id <= 200")
}

// folds writes a last row and compares what the log tells of t and u with the tables: at each place, and at the end.
func (d *database) folds(l *testLog, rows int) {
	t := d.t
	t.Helper()
	d.exec("INSERT INTO t (id, n, pad) VALUES (1000000, 0, '')")
	topics := []string{"p." + d.name + ".t", "p." + d.name + ".u"}
	var list []rec
	eventually(t, "the last row", func() bool {
		list = l.read(topics...)
		for _, x := range list {
			if x.Key == `{"id":1000000}` {
				return true
			}
		}
		return false
	})
	last := map[string]int{}
	reads := 0
	for _, x := range list {
		n, _ := strconv.Atoi(fmt.Sprint(x.After["n"]))
		k := x.Topic + x.Key
		before, known := last[k]
		switch {
		case x.Op == "r":
			reads++
			if known && n != before { // what the row was at that place
				t.Fatalf("%s is told after n = %d", x, before)
			}
		case x.Op == "u" && known && n != before+1:
			t.Fatalf("%s after n = %d: lost, repeated or out of order", x, before)
		}
		last[k] = n
	}
	if reads == 0 {
		t.Error("nothing was loaded")
	}
	for i, table := range []string{"t", "u"} {
		sum, count := 0, 0
		for k, n := range last {
			if strings.HasPrefix(k, topics[i]+"{") {
				sum, count = sum+n, count+1
			}
		}
		if want := d.value("SELECT CONCAT(SUM(n), ' in ', COUNT(*)) FROM " + table); fmt.Sprintf("%d in %d", sum, count) != want {
			t.Fatalf("%s: the log folds to %d in %d, the table to %s", table, sum, count, want)
		}
	}
	t.Logf("%d rows were read, %d keys are known", reads, len(last))
}

// reshapes alters, creates, drops and renames tables until stop.
func (d *database) reshapes(stop <-chan struct{}) error {
	for i := 0; ; i++ {
		for _, q := range []string{
			"ALTER TABLE u ADD COLUMN c%d INT", "ALTER TABLE t ADD COLUMN c%d INT FIRST", "CREATE TABLE n%d (id INT PRIMARY KEY)", "INSERT INTO n%[1]d VALUES (%[1]d)",
			"RENAME TABLE n%[1]d TO o%[1]d", "ALTER TABLE u DROP COLUMN c%d", "ALTER TABLE t DROP COLUMN c%d", "DROP TABLE o%d",
		} {
			select {
			case <-stop:
				return nil
			case <-time.After(20 * time.Millisecond):
			}
			if _, err := d.conn.Execute(fmt.Sprintf(q, i)); err != nil {
				const lockTimeout, deadlock = 1205, 1213
				if n := code(err); n != lockTimeout && n != deadlock {
					return fmt.Errorf("%s: %w", fmt.Sprintf(q, i), err)
				}
			}
		}
	}
}

// TestM14LoadUnderLocks: with each lock on each server, while others write and alter tables, and the connector is killed: what the log
// tells of the tables is right at each place, and the tables at the end.
func TestM14LoadUnderLocks(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		for _, c := range []struct {
			name, mode, grants string
			kill, alter        bool
		}{
			{"minimal", "minimal", "RELOAD", false, true}, {"minimal, killed", "minimal", "RELOAD", true, true},
			{"minimal, LOCK TABLES", "minimal", "LOCK TABLES", false, true}, {"extended", "extended", "RELOAD", false, false}, {"none", "none", "LOCK TABLES", true, true},
		} {
			t.Run(c.name, func(t *testing.T) {
				const rows = 20000
				d, l := newDatabase(t, m), newLog(t, 2)
				d.exec("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, pad VARCHAR(200))", "CREATE TABLE u (id INT PRIMARY KEY, n INT NOT NULL)", "CREATE TABLE keyless (id INT, w TEXT)", "CREATE TABLE none (id INT PRIMARY KEY)",
					"INSERT INTO keyless VALUES (1, 'a'), (1, 'a'), (2, NULL)")
				d.fill(rows)
				props := d.properties(map[string]string{"snapshot.mode": "initial", "snapshot.locking.mode": c.mode, "database.user": d.reader(c.grants), "database.password": "x"})
				stop, done := make(chan struct{}), make(chan error, 3)
				for range 2 {
					w := d.session()
					go func() { done <- w.write(stop, 200) }()
				}
				if c.alter {
					w := d.session()
					go func() { done <- w.reshapes(stop) }()
				} else {
					done <- nil
				}
				cmd := child(t, m.Flavour(), l, props)
				defer func() {
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
				}()
				for range map[bool]int{true: 3}[c.kill] {
					time.Sleep(time.Duration(300+rand.IntN(500)) * time.Millisecond)
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
					cmd = child(t, m.Flavour(), l, props)
				}
				eventually(t, "the end of the load", func() bool { r := l.resumePoint(); return r != nil && r.point.load == nil && len(r.point.held) > 10 })
				close(stop)
				for range 3 {
					if err := <-done; err != nil {
						t.Fatal(err)
					}
				}
				d.folds(l, rows)
				if got := ids(l.read("p." + d.name + ".keyless")); got != "r r r" {
					t.Errorf("keyless: %s", got)
				}
			})
		}
	})
}

// reader makes a user who may read, and whatever else.
func (d *database) reader(more string) string {
	d.t.Helper()
	user := fmt.Sprintf("reader%d", databases.Add(1))
	monitor := map[bool]string{true: "BINLOG MONITOR", false: "REPLICATION CLIENT"}[d.server.MariaDB()]
	if more != "" {
		more = ", " + more
	}
	d.exec("CREATE USER "+user+"@'%' IDENTIFIED BY 'x'", "GRANT SELECT, REPLICATION SLAVE, "+monitor+more+" ON *.* TO "+user+"@'%'")
	d.t.Cleanup(func() { _ = d.server.Exec(context.Background(), "", "DROP USER "+user+"@'%'") })
	return user
}

// TestLockThatIsNotGiven: it is waited for so long, others are not kept behind it for longer, and the error says what to do.
func TestLockThatIsNotGiven(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		for _, grants := range []string{"RELOAD", "LOCK TABLES"} {
			d, l := newDatabase(t, m), newLog(t, 1)
			d.exec("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
			holder := d.session()
			holder.exec("LOCK TABLES t WRITE")
			r := start(t, l, d.one(map[string]string{"snapshot.locking.mode": "minimal", "snapshot.lock.timeout.ms": "1000", "database.user": d.reader(grants), "database.password": "x"}))
			eventually(t, "the error", func() bool {
				s := r.c.Status()
				return s.State == connectors.StateRetrying && strings.Contains(s.Error, "was not given within 1s") && strings.Contains(s.Error, "SHOW PROCESSLIST")
			})
			holder.exec("UNLOCK TABLES")
			r.streaming()
			l.awaitOps("p."+d.name+".t", "id", "r1")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestLockPrivileges: check says what is missing before anything is begun, and the connector refuses likewise.
func TestLockPrivileges(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d := newDatabase(t, m)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE k (id INT)")
		user := func(grants, mode, tables string) *Config {
			return d.one(map[string]string{"snapshot.locking.mode": mode, "database.user": d.reader(grants), "database.password": "x", "table.include.list": d.name + tables})
		}
		for _, mode := range []string{"minimal", "extended"} {
			has(t, user("", mode, ".t"), "error", "user reader", "snapshot.locking.mode is "+mode, "GRANT RELOAD ON *.*", "snapshot.locking.mode: none")
		}
		has(t, user("", "none", ".k"), "error", d.name+".k has no key", "GRANT LOCK TABLES ON `"+d.name+"`.*")
		for _, c := range []*Config{user("", "none", ".t"), user("RELOAD", "minimal", ".t"), user("LOCK TABLES", "extended", ".t"), user("LOCK TABLES", "none", ".t")} {
			for _, f := range Check(context.Background(), c) {
				if f.Level == connectors.LevelError {
					t.Errorf("%s: %+v", c.user, f)
				}
			}
		}
		if text := start(t, newLog(t, 1), user("", "minimal", ".t")).fails(); !strings.Contains(text, "GRANT RELOAD") {
			t.Error(text)
		}
		signals := d.one(map[string]string{"signal.data.collection": d.name + ".signals"})
		has(t, signals, "error", "signal.data.collection", "CREATE TABLE `"+d.name+"`.`signals`")
		d.exec("CREATE TABLE signals (id INT)")
		has(t, signals, "error", "signal.data.collection", "has 1 columns")
	})
}

// TestChunksOverBrokenConnections: a connection that breaks in a chunk costs the chunk, not the run (dbz#2275).
func TestChunksOverBrokenConnections(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		const rows = 20000
		d, l := newDatabase(t, m), newLog(t, 2)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, pad VARCHAR(200))", "CREATE TABLE u (id INT PRIMARY KEY, n INT NOT NULL)")
		d.fill(rows)
		user := d.reader("")
		r := start(t, l, d.config(map[string]string{"snapshot.mode": "no_data", "database.user": user, "database.password": "x"})).streaming()
		before := d.sessions(user)
		broken := 0
		for range 3 {
			if s := r.signal("execute-snapshot", `{"data-collections": ["`+d.name+`.*"]}`); s.Error != "" {
				t.Fatalf("%+v", s)
			}
			for i := 0; i < 3; i++ {
				time.Sleep(10 * time.Millisecond)
				for id := range d.sessions(user) {
					if !before[id] {
						if _, err := d.conn.Execute("KILL " + id); err == nil {
							broken++
						}
					}
				}
			}
			eventually(t, "the end of the load", func() bool {
				if s := r.c.Status(); s.State == connectors.StateRetrying {
					t.Fatal(s.Error)
				}
				return l.resumePoint().point.load == nil
			})
		}
		if broken == 0 {
			t.Error("no connection was broken: the test tests nothing")
		}
		d.folds(l, rows)
	})
}

// sessions are the numbers of a user's sessions.
func (d *database) sessions(user string) map[string]bool {
	d.t.Helper()
	res, err := d.conn.Execute("SELECT CAST(id AS CHAR) FROM information_schema.processlist WHERE user = '" + user + "'")
	if err != nil {
		d.t.Fatal(err)
	}
	list := map[string]bool{}
	for i := range res.Values {
		list[string(textOf(&res.Values[i][0]))] = true
	}
	return list
}

// TestSnapshotsAreOfOnePlace: while a row is counted up, one transaction each, every session of the snapshots has the count of the position.
func TestSnapshotsAreOfOnePlace(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d := newDatabase(t, m)
		d.exec("CREATE TABLE c (id INT PRIMARY KEY, n INT)", "INSERT INTO c VALUES (1, 0)")
		configs := []*Config{}
		for _, grants := range []string{"RELOAD", "LOCK TABLES"} {
			configs = append(configs, d.one(map[string]string{"snapshot.locking.mode": "minimal", "database.user": d.reader(grants), "database.password": "x"}))
		}
		stop, done := make(chan struct{}), make(chan error, 4)
		for range 4 {
			w := d.session()
			go func() {
				for {
					select {
					case <-stop:
						done <- nil
						return
					default:
					}
					if _, err := w.conn.Execute("UPDATE c SET n = n + 1"); err != nil {
						done <- err
						return
					}
				}
			}()
		}
		first := ""
		for i := range 20 {
			c := configs[i%2]
			r := &run{Connector: &Connector{config: c, log: slog.New(slog.DiscardHandler)}}
			s, err := c.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if r.tables, err = c.catalog(t.Context(), s, "", ""); err != nil {
				t.Fatal(err)
			}
			if r.before, err = s.beforeBegin(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.close()
			v, p, err := r.snapshots(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text := p.String() // ends in the number of the last transaction
			seq, err := strconv.Atoi(text[strings.LastIndexAny(text, ":-")+1:])
			if err != nil {
				t.Fatal(text, err)
			}
			for j, session := range append([]*session{v.whole}, v.readers...) {
				found, err := session.query(t.Context(), "SELECT n FROM "+d.name+".c")
				if err != nil {
					t.Fatal(err)
				}
				n, err := strconv.Atoi(string(found[0][0]))
				if err != nil {
					t.Fatal(err)
				}
				got := fmt.Sprint("the count is behind the position by ", seq-n)
				if first == "" {
					first = got
				}
				if got != first {
					t.Errorf("try %d, session %d: %s, and before %s", i, j, got, first)
				}
			}
			v.close()
		}
		close(stop)
		for range 4 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	})
}
