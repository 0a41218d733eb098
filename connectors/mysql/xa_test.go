package mysql

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// prepare prepares an XA transaction in a session of its own, which ends.
func (d *database) prepare(xid string, statements ...string) {
	d.t.Helper()
	d.t.Cleanup(func() { d.settleXA() })
	s := d.session()
	s.exec(append(append([]string{"XA START " + xid}, statements...), "XA END "+xid, "XA PREPARE "+xid)...)
	_ = s.conn.Close()
	eventually(d.t, "the session's end", func() bool {
		return d.value("SELECT COUNT(*) FROM information_schema.processlist WHERE id = "+fmt.Sprint(s.conn.GetConnectionID())) == "0"
	})
}

// settleXA ends what is still prepared: its locks would stay.
func (d *database) settleXA() {
	conn, err := d.server.Connect(context.Background(), "")
	if err != nil {
		d.t.Error(err)
		return
	}
	defer conn.Close()
	s := &session{conn: conn}
	xids, _, err := s.prepared(context.Background())
	if err != nil {
		d.t.Error(err)
	}
	for _, xid := range xids {
		if _, err := conn.Execute("XA ROLLBACK " + xid); err != nil {
			d.t.Errorf("XA ROLLBACK %s: %v", xid, err)
		}
	}
}

// rawHolders are the holders that the log has something of.
func (l *testLog) rawHolders() map[string]bool {
	l.t.Helper()
	held := map[string]bool{}
	for _, r := range l.read("p.raw") {
		if strings.Contains(r.Key, `"session"`) {
			continue
		}
		name := r.Key[:strings.LastIndex(r.Key, `,"piece"`)]
		if held[name] = !r.Tombstone; r.Tombstone {
			delete(held, name)
		}
	}
	return held
}

// lastGTID is the GTID of the server's last transaction.
func (d *database) lastGTID() string {
	d.t.Helper()
	if d.server.MariaDB() {
		return d.value("SELECT @@gtid_binlog_pos")
	}
	all := d.value("SELECT @@global.gtid_executed")
	head, _, _ := strings.Cut(all, ":")
	return head + ":" + all[strings.LastIndexAny(all, "-:")+1:]
}

// TestM12XAInTwoPhases: rows count at XA COMMIT, as one transaction with the GTID and the order of the commit; XA ROLLBACK forgets them, and one
// phase is as ever.
func TestM12XAInTwoPhases(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE u (id INT PRIMARY KEY, v INT)", "CREATE TABLE other (id INT PRIMARY KEY)")
		r := start(t, l, d.config(map[string]string{"table.include.list": d.name + ".t," + d.name + ".u"})).streaming()
		topics := []string{"p." + d.name + ".t", "p." + d.name + ".u"}
		d.exec("INSERT INTO t VALUES (1, 0)")
		binary := `X'00ff27c3', X'2c00', 2147483647`
		if m.MariaDB() {
			binary = `X'00ff27c3', X'2c00', 2147483647`
		}
		d.prepare(binary, "INSERT INTO t VALUES (2, 0)", "INSERT INTO u VALUES (1, 0), (2, 0)", "UPDATE t SET v = 1 WHERE id = 2", "INSERT INTO other VALUES (1)")
		d.prepare("'back'", "INSERT INTO t VALUES (3, 0)")
		d.prepare("'far'", "INSERT INTO other VALUES (2)")
		d.prepare("'nothing'")
		d.exec("INSERT INTO t VALUES (4, 0)")
		equal(t, ids(l.waitFor(2, topics[0])), "c1 c4")
		if n := len(l.rawHolders()); n < 3 {
			t.Fatalf("%d prepared transactions are held: %v", n, l.rawHolders())
		}
		d.exec("XA COMMIT " + binary)
		gtid := d.lastGTID()
		equal(t, ids(l.waitFor(4, topics[0])), "c1 c4 c2 u2")
		equal(t, ids(l.waitFor(2, topics[1])), "c1 c2")
		list := l.read(topics...)
		var xa []rec
		for _, x := range list {
			if x.Source["gtid"] == gtid {
				xa = append(xa, x)
			}
		}
		if len(xa) != 4 {
			t.Fatalf("%d events have GTID %s:\n%s", len(xa), gtid, summary(list))
		}
		seen := map[uint64]bool{}
		for _, x := range xa {
			if x.Pos.Commit != xa[0].Pos.Commit || x.Pos.Order < 1 || x.Pos.Order > 4 || seen[x.Pos.Order] {
				t.Errorf("%s: place %+v", x, x.Pos)
			}
			seen[x.Pos.Order] = true
		}
		if c4 := list[1]; xa[0].Pos.Commit <= c4.Pos.Commit || fmt.Sprint(xa[0].Source["pos"]) <= fmt.Sprint(c4.Source["pos"]) {
			t.Errorf("the commit at %v is not after %v", xa[0].Source, c4.Source)
		}
		if _, err := d.conn.Execute("XA COMMIT 'nothing'"); err != nil && !m.MariaDB() { // which rolls back what changed nothing
			t.Fatal(err)
		}
		d.exec("XA ROLLBACK 'back'", "XA COMMIT 'far'",
			"XA START 'one'", "INSERT INTO t VALUES (5, 0)", "SAVEPOINT a", "INSERT INTO t VALUES (6, 0)", "ROLLBACK TO a", "INSERT INTO t VALUES (7, 0)", "XA END 'one'", "XA COMMIT 'one' ONE PHASE",
			"XA START 'none'", "INSERT INTO t VALUES (8, 0)", "XA END 'none'", "XA ROLLBACK 'none'")
		equal(t, ids(l.waitFor(6, topics[0])), "c1 c4 c2 u2 c5 c7")
		d.prepare("'save'", "INSERT INTO t VALUES (10, 0)", "SAVEPOINT a", "INSERT INTO t VALUES (11, 0)", "ROLLBACK TO a", "INSERT INTO t VALUES (12, 0)")
		d.exec("XA COMMIT 'save'", "INSERT INTO t VALUES (9, 0)")
		equal(t, ids(l.waitFor(9, topics[0])), "c1 c4 c2 u2 c5 c7 c10 c12 c9")
		wholeTransactions(t, l, l.read(topics...))
		if held := l.rawHolders(); len(held) > 0 {
			t.Errorf("held after all: %v", held)
		}
		if s := r.c.Status(); s.State != connectors.StateStreaming || len(s.Warnings) > 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestM12XAOutlivesRestarts: of the connector and of the server, between XA PREPARE and XA COMMIT; the position goes on meanwhile.
func TestM12XAOutlivesRestarts(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(300))")
		c := d.config(nil)
		r := start(t, l, c).streaming()
		topic := "p." + d.name + ".t"
		d.prepare("'a','b',1", "INSERT INTO t VALUES (1, 'ü')")
		d.prepare("'x'", "INSERT INTO t VALUES (2, 'x')")
		d.exec("INSERT INTO t VALUES (3, '')")
		l.waitFor(1, topic)
		before := l.resumePoint().point.String()
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if err := m.PurgeBinaryLogs(context.Background()); err != nil { // what was prepared is in the log alone
			t.Fatal(err)
		}
		for _, how := range []servers.Shutdown{servers.Fast, servers.Immediate} {
			if err := m.Restart(context.Background(), how); err != nil {
				t.Fatal(err)
			}
		}
		d = &database{t: t, server: m, name: d.name}
		d = d.session()
		r = start(t, l, c).streaming()
		d.exec("INSERT INTO t VALUES (4, '')")
		l.waitFor(2, topic)
		if after := l.resumePoint().point.String(); after == before {
			t.Errorf("the position stays at %s", after)
		}
		d.exec("XA COMMIT 'a','b',1")
		equal(t, summary(l.waitFor(3, topic)[2:]), `c {"id":1} null -> {"id":1,"v":"ü"}`)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		d.exec("XA ROLLBACK 'x'", "INSERT INTO t VALUES (5, '')")
		start(t, l, c).streaming()
		equal(t, ids(l.waitFor(4, topic)), "c3 c4 c1 c5")
		if held := l.rawHolders(); len(held) > 0 {
			t.Errorf("held after all: %v", held)
		}
	})
}

// TestM12XALarge: transactions that are too large to be remembered, in one phase and in two, compressed where there is that.
func TestM12XALarge(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
		start(t, l, d.config(nil)).streaming()
		topic, want, n := "p."+d.name+".t", "", 0
		fill := func(s *database, from int) {
			for i := range 40 {
				s.exec(fmt.Sprintf("INSERT INTO t VALUES (%d, REPEAT('x%d', 100000))", from+i, i))
				want += fmt.Sprintf("c%d ", from+i)
			}
			n += 40
		}
		modes := []string{"OFF"}
		if !m.MariaDB() {
			modes = append(modes, "ON")
		}
		for i, mode := range modes {
			s := d.session()
			if len(modes) > 1 {
				s.exec("SET SESSION binlog_transaction_compression = " + mode)
			}
			s.exec("XA START 'large'")
			fill(s, 1000*i)
			s.exec("XA END 'large'", "XA PREPARE 'large'")
			_ = s.conn.Close()
			eventually(t, "the session's end", func() bool { _, err := d.conn.Execute("XA COMMIT 'large'"); return err == nil })
			l.waitFor(n, topic)
			s = d.session()
			if len(modes) > 1 {
				s.exec("SET SESSION binlog_transaction_compression = " + mode)
			}
			s.exec("XA START 'one'")
			fill(s, 1000*i+100)
			s.exec("XA END 'one'", "XA COMMIT 'one' ONE PHASE")
			list := l.waitFor(n, topic)
			equal(t, ids(list), want)
			for _, x := range list {
				if v := x.After["v"].(string); len(v) < 200000 {
					t.Fatalf("%s has %d bytes", x.Key, len(v))
				}
			}
		}
		wholeTransactions(t, l, l.read(topic))
		if held := l.rawHolders(); len(held) > 0 {
			t.Errorf("held after all: %v", held)
		}
	})
}

// TestM12XAPreparedBeforeTheBegin: what was prepared before the connector began is found in the binlog before it; what is no longer there stops
// the connector at its commit, and a rollback of it does not.
func TestM12XAPreparedBeforeTheBegin(t *testing.T) {
	for _, gtids := range []bool{true, false} {
		opts := servers.Options{}
		if !gtids {
			opts.Settings = map[string]string{"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
		}
		servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
			if !gtids {
				if m.MariaDB() {
					return // it always has them
				}
				opts.Version = m.Version()
				m = servers.MySQLForTest(t, opts)
			}
			d, l := newDatabase(t, m), newLog(t, 1)
			d.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE gone (id INT PRIMARY KEY)")
			d.prepare("'lost'", "INSERT INTO t VALUES (1, 0)")
			d.prepare("'lost too'", "INSERT INTO t VALUES (2, 0)")
			if err := m.PurgeBinaryLogs(context.Background()); err != nil {
				t.Fatal(err)
			}
			d.prepare("'over'", "INSERT INTO gone VALUES (1)")
			d.exec("XA COMMIT 'over'", "DROP TABLE gone")
			d.prepare("'back'", "INSERT INTO t VALUES (3, 0)")
			d.exec("XA ROLLBACK 'back'", "INSERT INTO t VALUES (4, 0)")
			d.prepare("'known'", "INSERT INTO t VALUES (5, 0)")
			d.exec("FLUSH BINARY LOGS")
			d.exec("INSERT INTO t VALUES (6, 0)")
			mode, loaded := "initial", []string{"r4", "r6"}
			if !gtids { // its load waits for the locks of what is prepared
				mode, loaded = "no_data", nil
			}
			c := d.config(map[string]string{"snapshot.mode": mode})
			has(t, c, "warning", "XA RECOVER", "3 transactions", "XA ROLLBACK X'")
			r := start(t, l, c).streaming()
			topic := "p." + d.name + ".t"
			equal(t, ids(l.waitFor(len(loaded), topic)), strings.Join(loaded, " "))
			d.exec("XA COMMIT 'known'", "XA ROLLBACK 'lost too'", "INSERT INTO t VALUES (7, 0)")
			equal(t, ids(l.waitFor(len(loaded)+2, topic)), strings.Join(append(loaded, "c5 c7"), " "))
			if p := l.resumePoint().point; p.seek != nil {
				t.Errorf("still seeking: %+v", p.seek)
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			r = start(t, l, c).streaming()
			d.exec("XA COMMIT 'lost'", "INSERT INTO t VALUES (8, 0)")
			if got := r.fails(); !strings.Contains(got, "X'6c6f7374',X'',1") || !strings.Contains(got, "p.position") {
				t.Error(got)
			}
			equal(t, ids(l.waitFor(len(loaded)+2, topic)), strings.Join(append(loaded, "c5 c7"), " "))
		})
	}
}

// TestM12XAWhileTablesAreLoaded: a chunk that is read between XA PREPARE and XA COMMIT does not see the rows; the commit brings them.
func TestM12XAWhileTablesAreLoaded(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		const rows, size = 3000, 10
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL)")
		var values []string
		for i := range rows {
			values = append(values, fmt.Sprintf("(%d, 0)", i+1))
		}
		d.exec("INSERT INTO t VALUES " + strings.Join(values, ","))
		stop, done := make(chan struct{}), make(chan error, 1)
		w := d.session()
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				xid := fmt.Sprintf("'load%d'", i)
				from := rand.IntN(rows-size) + 1
				end := "XA COMMIT " + xid
				if i%4 == 0 {
					end = "XA ROLLBACK " + xid
				}
				for _, q := range []string{"XA START " + xid, fmt.Sprintf("UPDATE t SET n = n + 1 WHERE id BETWEEN %d AND %d", from, from+size), fmt.Sprintf("DELETE FROM t WHERE id = %d", from+size/2),
					"XA END " + xid, "XA PREPARE " + xid, "DO SLEEP(0.005)", end} {
					if _, err := w.conn.Execute(q); err != nil {
						if m.MariaDB() && strings.HasPrefix(q, "DO") { // a prepared session takes nothing else
							time.Sleep(5 * time.Millisecond)
							continue
						}
						done <- fmt.Errorf("%s: %w", q, err)
						return
					}
				}
			}
		}()
		props := d.properties(map[string]string{"snapshot.mode": "initial"})
		cmd := child(t, m.Flavour(), l, props)
		for range 3 {
			time.Sleep(time.Duration(200+rand.IntN(400)) * time.Millisecond)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			cmd = child(t, m.Flavour(), l, props)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		eventually(t, "the end of the load", func() bool { r := l.resumePoint(); return r != nil && r.point.load == nil })
		close(stop)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		d.exec("INSERT INTO t VALUES (100000, 0)")
		topic := "p." + d.name + ".t"
		var list []rec
		eventually(t, "the last row", func() bool {
			list = l.read(topic)
			return len(list) > 0 && list[len(list)-1].Key == `{"id":100000}`
		})
		state := map[string]string{}
		for _, x := range list {
			if state[x.Key] = fmt.Sprint(x.After["n"]); x.Tombstone || x.After == nil {
				delete(state, x.Key)
			}
		}
		sum := 0
		for _, n := range state {
			var v int
			fmt.Sscan(n, &v)
			sum += v
		}
		if got, want := fmt.Sprintf("%d in %d", sum, len(state)), d.value("SELECT CONCAT(SUM(n), ' in ', COUNT(*)) FROM t"); got != want {
			t.Fatalf("the log folds to %s, the table to %s", got, want)
		}
		var written []rec
		for _, x := range list {
			if x.Op != "r" {
				written = append(written, x)
			}
		}
		wholeTransactions(t, l, written)
	})
}

// TestM12XAMany: hundreds are prepared at a time, and are committed in another order, by a connector that is killed meanwhile.
func TestM12XAMany(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		const n = 120
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE u (id INT PRIMARY KEY, v INT)")
		props := d.properties(nil)
		cmd := child(t, m.Flavour(), l, props)
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		eventually(t, "the first resume point", func() bool { return l.resumePoint() != nil })
		kill := func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			cmd = child(t, m.Flavour(), l, props)
		}
		order := rand.Perm(n)
		for i := range n {
			s := d.session()
			xid := fmt.Sprintf("'many%d'", i)
			s.exec("XA START "+xid, fmt.Sprintf("INSERT INTO t VALUES (%d, %d)", i, i), fmt.Sprintf("INSERT INTO u VALUES (%d, %d)", i, i), "XA END "+xid, "XA PREPARE "+xid)
			_ = s.conn.Close()
			if i%40 == 20 {
				kill()
			}
		}
		want := map[int]bool{}
		for k, i := range order {
			verb := "COMMIT"
			if k%3 == 0 {
				verb = "ROLLBACK"
			} else {
				want[i] = true
			}
			eventually(t, "the session's end", func() bool { _, err := d.conn.Execute(fmt.Sprintf("XA %s 'many%d'", verb, i)); return err == nil })
			if k%40 == 20 {
				kill()
			}
		}
		d.exec("INSERT INTO t VALUES (100000, 0)")
		topics := []string{"p." + d.name + ".t", "p." + d.name + ".u"}
		eventually(t, "the last row", func() bool {
			list := l.read(topics[0])
			return len(list) > 0 && list[len(list)-1].Key == `{"id":100000}`
		})
		var expect strings.Builder
		for _, i := range order {
			if want[i] {
				fmt.Fprintf(&expect, "c%d ", i)
			}
		}
		equal(t, ids(l.read(topics[1])), expect.String())
		equal(t, ids(l.read(topics[0])), expect.String()+"c100000")
		wholeTransactions(t, l, l.read(topics...))
		if held := l.rawHolders(); len(held) > 0 {
			t.Errorf("held after all: %v", held)
		}
	})
}

// TestM12XAAndTablesWithoutTransactions: their rows count where they are, whatever becomes of the XA transaction.
func TestM12XAAndTablesWithoutTransactions(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		if !m.MariaDB() { // whose GTIDs do not go together with tables without transactions
			m = servers.MySQLForTest(t, servers.Options{Version: m.Version(), Settings: map[string]string{"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}})
		}
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE my (id INT PRIMARY KEY, v INT) ENGINE=MyISAM")
		r := start(t, l, d.config(nil)).streaming()
		want := map[string]string{}
		for i, format := range []string{"ROW", "MIXED"} {
			for j, end := range []string{"XA COMMIT 'mixed' ONE PHASE", "XA PREPARE 'mixed'; XA COMMIT 'mixed'", "XA PREPARE 'mixed'; XA ROLLBACK 'mixed'", "XA ROLLBACK 'mixed'"} {
				s := d.session()
				id := 100*i + 10*j
				s.exec("SET SESSION binlog_format = '"+format+"'", "XA START 'mixed'",
					fmt.Sprintf("INSERT INTO t SELECT %d, LENGTH(UUID())", id), fmt.Sprintf("INSERT INTO my SELECT %d, LENGTH(UUID())", id), fmt.Sprintf("INSERT INTO t SELECT %d, LENGTH(UUID())", id+1), "XA END 'mixed'")
				first, second, two := strings.Cut(end, "; ")
				if _, err := s.conn.Execute(first); err != nil {
					t.Logf("%s: %s: %v", format, first, err) // a server may refuse: then what the tables have is what counts
				}
				if two {
					if _, err := s.conn.Execute(second); err != nil {
						t.Logf("%s: %s: %v", format, second, err)
					}
				}
				_ = s.conn.Close()
			}
		}
		for _, table := range []string{"t", "my"} {
			want[table] = d.value("SELECT COALESCE(GROUP_CONCAT(CONCAT('c', id) ORDER BY id SEPARATOR ' '), '') FROM " + table)
		}
		d.exec("INSERT INTO t VALUES (1000, 0)", "INSERT INTO my VALUES (1000, 0)")
		for _, table := range []string{"t", "my"} {
			topic := "p." + d.name + "." + table
			equal(t, ids(l.waitFor(len(strings.Fields(want[table]))+1, topic)), want[table]+" c1000")
		}
		wholeTransactions(t, l, l.read("p."+d.name+".t", "p."+d.name+".my"))
		if held := l.rawHolders(); len(held) > 0 {
			t.Errorf("held after all: %v", held)
		}
		if s := r.c.Status(); s.State != connectors.StateStreaming || len(s.Warnings) > 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestM12XAWithoutThePrivilege: on MySQL not everyone may list what is prepared. Then what is in the binlog before the begin is read in any case, and
// the check says which privilege is missing.
func TestM12XAWithoutThePrivilege(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		if m.MariaDB() {
			t.Skip("MariaDB needs no privilege for XA RECOVER")
		}
		d, l := newDatabase(t, m), newLog(t, 1)
		user := fmt.Sprintf("u%d", databases.Add(1))
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE USER "+user+"@'%' IDENTIFIED BY 'weak'", "GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO "+user+"@'%'")
		d.prepare("'unlisted'", "INSERT INTO t VALUES (1)")
		c := d.config(map[string]string{"database.user": user, "database.password": "weak"})
		has(t, c, "warning", "XA RECOVER", user, "GRANT XA_RECOVER_ADMIN ON *.* TO '"+user+"'")
		start(t, l, c).streaming()
		d.exec("INSERT INTO t VALUES (2)", "XA COMMIT 'unlisted'")
		equal(t, ids(l.waitFor(2, "p."+d.name+".t")), "c2 c1")
	})
}

// TestM12XAHasTheColumnsOfItsPrepare: no server lets a table be altered under a prepared transaction, also after a crash, so that what the table is at
// XA COMMIT is what it was at XA PREPARE.
func TestM12XAHasTheColumnsOfItsPrepare(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
		c := d.config(nil)
		r := start(t, l, c).streaming()
		d.prepare("'columns'", "INSERT INTO t VALUES (1, 10, 20)")
		d.exec("CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO other VALUES (1)")
		l.waitFor(1, "p."+d.name+".other")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if err := m.Restart(context.Background(), servers.Immediate); err != nil {
			t.Fatal(err)
		}
		d = (&database{t: t, server: m, name: d.name}).session()
		d.exec("SET SESSION lock_wait_timeout = 2", "SET SESSION innodb_lock_wait_timeout = 2")
		for _, sql := range []string{"ALTER TABLE t ADD COLUMN c INT FIRST, ALGORITHM = INSTANT", "ALTER TABLE t ADD COLUMN d INT FIRST", "ALTER TABLE t RENAME COLUMN a TO x"} {
			const lockTimeout = 1205
			if _, err := d.conn.Execute(sql); code(err) != lockTimeout {
				t.Errorf("%s: %v", sql, err)
			}
		}
		start(t, l, c).streaming()
		d.exec("XA COMMIT 'columns'")
		equal(t, summary(l.waitFor(1, "p."+d.name+".t")), `c {"id":1} null -> {"a":10,"b":20,"id":1}`)
	})
}
