package evolution

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// parkedTable is what the node tells of one.
type parkedTable struct {
	Table   string `json:"table"`
	State   string `json:"state"`
	Reason  string `json:"reason"`
	Changes int    `json:"changes"`
}

func (s *system) parked() (list []parkedTable) {
	s.t.Helper()
	var status struct {
		State  string        `json:"state"`
		Parked []parkedTable `json:"parked"`
	}
	if err := s.node.JSON(s.ctx, "/v1/connectors/shop", &status); err != nil {
		s.t.Fatal(err)
	}
	return status.Parked
}

// configure changes the node's file and restarts it.
func (s *system) configure(old, now string) {
	s.t.Helper()
	text, err := os.ReadFile(s.node.ConfigFile())
	if err == nil {
		err = os.WriteFile(s.node.ConfigFile(), []byte(strings.Replace(string(text), old, now, 1)), 0o600)
	}
	if err == nil {
		err = s.node.Stop()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.serve()
}

// stateRows counts the rows of a topic's state.
func (s *system) stateRows(topic string) int {
	s.t.Helper()
	out, err := s.node.CLI(s.ctx, "state", topic, "--output", "json")
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return strings.Count(out, `"key"`)
}

// A value that cannot be expressed parks its table alone. Once that is mended and the table unparked, state and target are the source's:
// of what waited, of what comes after it, and of the tables that went on all the time.
func TestParkedTableIsWholeAgain(t *testing.T) {
	s := start(t, "CREATE TABLE t (id int PRIMARY KEY, at timestamp, n int)", "CREATE TABLE u (id int PRIMARY KEY, n int)",
		"INSERT INTO t SELECT i, '2024-01-01', i FROM generate_series(1, 50) i", "INSERT INTO u SELECT i, i FROM generate_series(1, 50) i")
	s.equal("t")
	s.equal("u")
	s.exec("BEGIN; UPDATE u SET n = 0 WHERE id = 1; UPDATE t SET at = '294276-12-31' WHERE id = 1; COMMIT")
	s.eventually("t is parked", func() (bool, string) {
		list := s.parked()
		return len(list) == 1 && list[0].State == "parked" && list[0].Table == "public.t", fmt.Sprintf("%+v", list)
	})
	s.exec("UPDATE t SET n = n + 1", "DELETE FROM t WHERE id > 40", "UPDATE t SET id = 100 WHERE id = 2", "ALTER TABLE t ADD COLUMN more text",
		"INSERT INTO t VALUES (200, now(), 1, 'x')", "UPDATE u SET n = n + 1", "INSERT INTO u VALUES (51, 51)")
	s.equal("u")
	out, err := s.node.CLI(s.ctx, "connectors")
	if err != nil || !strings.Contains(out, "1 parked tables") || !strings.Contains(out, "then: rowtrail connectors unpark shop public.t") {
		t.Fatalf("%v: %s", err, out)
	}
	if text, err := s.node.Metrics(s.ctx); err != nil || !strings.Contains(text, `rowtrail_connector_parked_tables{connector="shop"} 1`) {
		t.Fatalf("%v: %s", err, text)
	}
	if out, err := s.node.CLI(s.ctx, "connectors", "unpark", "shop", "public.u"); err == nil || !strings.Contains(out+err.Error(), "is not parked") {
		t.Fatalf("%v: %s", err, out)
	}
	s.configure("topic.prefix:", "time.precision.mode: isostring\n      topic.prefix:")
	s.eventually("it is parked still, with all that waits", func() (bool, string) {
		list := s.parked()
		return len(list) == 1 && list[0].Changes == 1+50+10+1+1, fmt.Sprintf("%+v", list)
	})
	s.eventually("the request is taken", func() (bool, string) {
		out, err := s.node.CLI(s.ctx, "connectors", "unpark", "shop", "public.t")
		return err == nil, fmt.Sprint(out, err)
	})
	s.exec("INSERT INTO t VALUES (201, now(), 2, 'y')")
	s.equal("t")
	s.exec("BEGIN; INSERT INTO t VALUES (202, now(), 3, 'z'); INSERT INTO u VALUES (52, 52); COMMIT")
	s.equal("t")
	s.equal("u")
	if n := s.stateRows("shop.public.t"); n != 43 {
		t.Errorf("state of t has %d rows, want 43", n)
	}
	if list := s.parked(); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	s.exec("INSERT INTO t VALUES (203, '294276-12-31', 3, 'z')") // it has another form now
	s.equal("t")
}

// A compacted topic takes truncates, too, and its readers know them.
func TestTruncateOfACompactedTopic(t *testing.T) {
	s := startWith(t, map[string]string{"topic.creation.default.cleanup.policy": "compact", "topic.creation.default.partitions": "3", "skipped.operations": "none"},
		"CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t SELECT i, i FROM generate_series(1, 50) i")
	s.equal("t")
	s.exec("TRUNCATE t", "INSERT INTO t VALUES (1, 1), (2, 2)", "UPDATE t SET n = 5 WHERE id = 1")
	s.equal("t")
	if n := s.stateRows("shop.public.t"); n != 2 {
		t.Errorf("state has %d rows, want 2", n)
	}
	s.exec("BEGIN; INSERT INTO t VALUES (3, 3); TRUNCATE t; INSERT INTO t VALUES (4, 4); COMMIT")
	s.equal("t")
}
