package mysql

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// TestHistoryIsOfItsResumePoint: one that was deleted, or is of another point, is not believed.
func TestHistoryIsOfItsResumePoint(t *testing.T) {
	eachMetadata(t, func(t *testing.T, m *servers.MySQL, metadata string) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "CREATE TABLE u (id INT PRIMARY KEY, a INT, b INT)")
		c := d.config(nil)
		if err := start(t, l, c).streaming().stop(); err != nil {
			t.Fatal(err)
		}
		l.delete(historyTopic)
		d.exec("INSERT INTO t VALUES (1, 10, 20)", "INSERT INTO u VALUES (1, 10, 20)")
		r := start(t, l, c).streaming()
		l.waitFor(1, "p."+d.name+".u")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		// A build that knew no history had the tables changed meanwhile.
		stale := l.read(historyTopic)
		d.exec("ALTER TABLE t CHANGE a b INT, CHANGE b a INT")
		r = start(t, l, c).streaming()
		d.exec("INSERT INTO t (id, a, b) VALUES (2, 11, 21)")
		l.waitFor(2, "p."+d.name+".t")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		l.forgetHistory(stale)
		d.exec("INSERT INTO t (id, a, b) VALUES (3, 12, 22)")
		r = start(t, l, c).streaming()
		equal(t, afters(l.waitFor(3, "p."+d.name+".t")), `c {"a":10,"b":20,"id":1}
c {"a":11,"b":21,"id":2}
c {"a":12,"b":22,"id":3}`)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		// Without a history, and the catalog ahead.
		l.delete(historyTopic)
		d.exec("INSERT INTO u VALUES (2, 11, 21)", "INSERT INTO t (id, a, b) VALUES (4, 13, 23)", "ALTER TABLE t DROP a", "INSERT INTO t (id, b) VALUES (5, 24)")
		r = start(t, l, c)
		if metadata == "FULL" {
			l.waitFor(2, "p."+d.name+".u")
			equal(t, afters(l.waitFor(5, "p."+d.name+".t")[3:]), `c {"a":13,"b":23,"id":4}
c {"b":24,"id":5}`)
			return
		}
		if got := r.parks(); !strings.Contains(got, d.name+".t") || !strings.Contains(got, "SET GLOBAL binlog_row_metadata = 'FULL'") || !strings.Contains(got, "between here and the end of the binlog") {
			t.Error(got)
		}
	})
}

func (l *testLog) delete(topic string) {
	l.t.Helper()
	client, err := kgo.NewClient(l.opts...)
	if err != nil {
		l.t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).DeleteTopics(l.t.Context(), topic); err != nil {
		l.t.Fatal(err)
	}
}

// forgetHistory leaves a former history, and the resume point as a build writes it that knows none.
func (l *testLog) forgetHistory(former []rec) {
	l.t.Helper()
	p := l.resumePoint()
	if p.point.history == nil {
		l.t.Fatal("the resume point names no history")
	}
	p.point.history = nil
	value, err := p.append(nil)
	if err != nil {
		l.t.Fatal(err)
	}
	client, err := kgo.NewClient(l.opts...)
	if err != nil {
		l.t.Fatal(err)
	}
	defer client.Close()
	records := []*kgo.Record{{Topic: "p.position", Key: []byte(`{"connector":"c"}`), Value: value}}
	for _, r := range former {
		records = append(records, &kgo.Record{Topic: historyTopic, Key: []byte(r.Key), Value: []byte(r.Value)})
	}
	if err := client.ProduceSync(l.t.Context(), records...).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
}

// holdCommits lets no log transaction be committed until it is told to, and counts those that try.
func (l *testLog) holdCommits() (tried *atomic.Int64, release func()) {
	tried, held := &atomic.Int64{}, &atomic.Bool{}
	held.Store(true)
	l.cluster.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		l.cluster.KeepControl()
		if !held.Load() || !req.(*kmsg.EndTxnRequest).Commit {
			return nil, nil, false
		}
		tried.Add(1)
		resp := req.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = kerr.ConcurrentTransactions.Code
		return resp, nil, true
	})
	return tried, func() { held.Store(false) }
}

// TestHistorySurvivesKills kills the connector where statements were read, or the catalog was, and nothing of it is committed.
func TestHistorySurvivesKills(t *testing.T) {
	eachMetadata(t, func(t *testing.T, m *servers.MySQL, metadata string) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
		props := d.properties(nil)
		kind := m.Flavour()
		cmd := child(t, kind, l, props)
		kill := func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		defer func() { kill() }()
		topic := "p." + d.name + ".t"
		eventually(t, "the first resume point", func() bool { return l.resumePoint() != nil })
		between := func(what string, statements ...string) {
			t.Helper()
			tried, release := l.holdCommits()
			before := len(l.read(historyTopic))
			d.session().exec(statements...)
			eventually(t, "a commit "+what, func() bool { return tried.Load() > 1 })
			if n := len(l.read(historyTopic)); n != before {
				t.Fatalf("%s: the history was committed", what)
			}
			kill()
			release()
		}
		between("between a statement and its mark", "INSERT INTO t VALUES (1, 10, 20)", "ALTER TABLE t CHANGE a b INT, CHANGE b a INT", "INSERT INTO t (id, a, b) VALUES (2, 11, 21)")
		d.exec("ALTER TABLE t ADD c INT FIRST", "INSERT INTO t (id, a, b, c) VALUES (3, 12, 22, 32)")
		cmd = child(t, kind, l, props)
		want := `c {"a":10,"b":20,"id":1}
c {"a":11,"b":21,"id":2}
c {"a":12,"b":22,"c":32,"id":3}`
		equal(t, afters(l.waitFor(3, topic)), want)
		mystery := []string{"SET character_set_client = binary", "ALTER TABLE t MODIFY a INT COMMENT '', ADD m VARBINARY(1) DEFAULT '\xff' FIRST", "INSERT INTO t (id, a, b, c) VALUES (4, 13, 23, 33)"}
		between("between a look at the catalog and its mark", mystery...)
		cmd = child(t, kind, l, props)
		want += `
c {"a":13,"b":23,"c":33,"id":4,"m":"/w=="}`
		equal(t, afters(l.waitFor(4, topic)), want)
		// The table changes again before the catalog is asked again: what it had is known to nobody, but for FULL metadata.
		mystery[1] = strings.Replace(mystery[1], " m ", " n ", 1)
		mystery[2] = strings.Replace(mystery[2], "4, 13", "5, 14", 1)
		between("between a look at the catalog and its mark, again", mystery...)
		d.exec("ALTER TABLE t DROP n", "INSERT INTO t (id, a, b, c) VALUES (6, 15, 25, 35)")
		if metadata != "FULL" {
			if got := start(t, l, parsed(t, kind, props)).parks(); !strings.Contains(got, "SET GLOBAL binlog_row_metadata = 'FULL'") || !strings.Contains(got, d.name+".t") {
				t.Error(got)
			}
			equal(t, afters(l.waitFor(4, topic)), want)
			return
		}
		cmd = child(t, kind, l, props)
		equal(t, afters(l.waitFor(6, topic)), want+`
c {"a":14,"b":23,"c":33,"id":5,"m":"/w==","n":"/w=="}
c {"a":15,"b":25,"c":35,"id":6,"m":"/w=="}`)
	})
}

// TestKilledWhileTablesChange changes a table and its rows while the connector is killed at random moments, without metadata: each row has
// the columns that it was written with.
func TestKilledWhileTablesChange(t *testing.T) {
	kills := 6
	if v := os.Getenv("ROWTRAIL_KILLS"); v != "" {
		kills, _ = strconv.Atoi(v)
	}
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		setMetadata(t, m, "MINIMAL")
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		props := d.properties(map[string]string{"table.include.list": d.name + ".t"})
		cmd := child(t, m.Flavour(), l, props)
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		eventually(t, "the first resume point", func() bool { return l.resumePoint() != nil })
		var want strings.Builder
		columns, next, rows := []string{"id"}, 0, 0
		place := func() string {
			if rand.IntN(2) == 0 {
				return " FIRST"
			}
			return " AFTER " + columns[rand.IntN(len(columns))]
		}
		for range kills {
			for until := time.Now().Add(time.Duration(100+rand.IntN(600)) * time.Millisecond); time.Now().Before(until); {
				at := rand.IntN(len(columns))
				switch n := rand.IntN(8); {
				case n == 0 && len(columns) < 9:
					next++
					c := fmt.Sprintf("c%d", next)
					d.exec("ALTER TABLE t ADD " + c + " INT" + place())
					columns = append(columns, c)
				case n == 1 && columns[at] != "id":
					d.exec("ALTER TABLE t DROP " + columns[at])
					columns = slices.Delete(columns, at, at+1)
				case n == 2 && columns[at] != "id":
					next++
					c := fmt.Sprintf("c%d", next)
					d.exec("ALTER TABLE t CHANGE " + columns[at] + " " + c + " INT")
					columns[at] = c
				case n == 3:
					d.exec("DROP TABLE IF EXISTS _t_gho", "CREATE TABLE _t_gho LIKE t", "ALTER TABLE _t_gho MODIFY id INT"+map[bool]string{true: " FIRST"}[rand.IntN(2) == 0], "RENAME TABLE t TO _t_del, _t_gho TO t", "DROP TABLE _t_del")
				default:
					rows++
					row := map[string]int{}
					var values []string
					for i, c := range columns {
						row[c] = 1000*rows + i
						values = append(values, strconv.Itoa(row[c]))
					}
					d.exec("INSERT INTO t (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")")
					text, _ := json.Marshal(row)
					fmt.Fprintf(&want, "c %s\n", text)
				}
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			cmd = child(t, m.Flavour(), l, props)
		}
		equal(t, afters(l.waitFor(rows, "p."+d.name+".t")), want.String())
		t.Logf("%d rows, %d columns were made", rows, next)
	})
}
