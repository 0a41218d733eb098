package mysql

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// TestM14LoadBesideTheStream loads tables while two sessions write, and kills the connector meanwhile: no row is missing, none is told
// as it was not at that place, and the log's content is the server's.
func TestM14LoadBesideTheStream(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		const rows = 20000
		d, l := newDatabase(t, m), newLog(t, 2)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, pad VARCHAR(200))", "CREATE TABLE u (id INT PRIMARY KEY, n INT NOT NULL)",
			"CREATE TABLE keyless (v INT, w TEXT)", "CREATE TABLE none (id INT PRIMARY KEY)", "INSERT INTO keyless VALUES (1, 'a'), (1, 'a'), (2, NULL)")
		var values []string
		for i := range rows {
			values = append(values, fmt.Sprintf("(%d, 0, REPEAT('x', %d))", i+1, 50+i%100))
		}
		d.exec("INSERT INTO t VALUES "+strings.Join(values, ","), "INSERT INTO u SELECT id, n FROM t WHERE id <= 200")
		props := d.properties(map[string]string{"snapshot.mode": "initial"})
		stop, done := make(chan struct{}), make(chan error, 2)
		for range 2 {
			w := d.session()
			go func() { done <- w.write(stop, 200) }()
		}
		cmd := child(t, m.Flavour(), l, props)
		for range 4 {
			time.Sleep(time.Duration(150+rand.IntN(400)) * time.Millisecond)
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
		for range 2 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		d.exec("INSERT INTO t VALUES (100000, 0, '')")
		topics := []string{"p." + d.name + ".t", "p." + d.name + ".u"}
		eventually(t, "the last row", func() bool {
			for _, x := range l.read(topics[0]) {
				if x.Key == `{"id":100000}` {
					return true
				}
			}
			return false
		})
		last := map[string]int{}
		reads := 0
		for _, x := range l.read(topics...) {
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
		if got := ids(l.read("p." + d.name + ".keyless")); got != "r r r" {
			t.Errorf("keyless: %s", got)
		}
		t.Logf("%d rows were read, %d keys are known", reads, len(last))
	})
}
