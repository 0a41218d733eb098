package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// TestPositionsOfABinlog: rows and records tell the GTID, or the file and offset, of their transaction, and the state as of each is the row as
// that transaction left it.
func TestPositionsOfABinlog(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		positionsOfABinlog(t, m, true)
		if !m.MariaDB() {
			settings := map[string]string{"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
			positionsOfABinlog(t, servers.MySQLForTest(t, servers.Options{Version: m.Version(), Settings: settings}), false)
		}
	})
}

func positionsOfABinlog(t *testing.T, m *servers.MySQL, gtids bool) {
	ctx := context.Background()
	exec := func(statements ...string) {
		t.Helper()
		if err := m.Exec(ctx, "shop", statements...); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.CreateDatabase(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	exec("CREATE TABLE orders (id INT PRIMARY KEY, v INT)", "CREATE TABLE other (id INT PRIMARY KEY)")
	n := serveNode(t, t.TempDir(), fmt.Sprintf(`connectors:
  - {name: c, type: %s, config: {database.hostname: 127.0.0.1, database.port: "%d", database.user: %s, database.password: %s, topic.prefix: shop, snapshot.mode: no_data, table.include.list: shop.orders}}
`, m.Flavour(), m.Port(), m.User(), m.Password()))
	eventually(t, "connector streams", func() (bool, string) {
		_, out, errs := runCLI(t, "connectors", "c", "--http", n.HTTP, "-o", "json")
		return strings.Contains(out, `"state":"streaming"`), out + errs
	})
	exec("INSERT INTO orders VALUES (1, 0)", "INSERT INTO other VALUES (1)", "UPDATE orders SET v = 1", "INSERT INTO other VALUES (2)", "UPDATE orders SET v = 2",
		"INSERT INTO orders VALUES (2, 0)", "DELETE FROM orders WHERE id = 2", "INSERT INTO other VALUES (3)")
	const topic = "shop.shop.orders"
	read := func(args ...string) []string {
		t.Helper()
		code, out, errs := runCLI(t, append(args, "--http", n.HTTP, "-o", "json")...)
		if code != ExitOK {
			t.Fatalf("%v: exit %d\n%s%s", args, code, out, errs)
		}
		return lines(out)
	}
	var versions []admin.Row
	eventually(t, "the changes are there", func() (bool, string) {
		_, out, _ := runCLI(t, "tail", topic, "--server", n.Kafka, "--from", "beginning", "-o", "json")
		return len(lines(out)) == 6, out
	})
	for _, line := range read("history", topic, "1") {
		var r admin.Row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		versions = append(versions, r)
	}
	if len(versions) != 3 {
		t.Fatalf("%d versions", len(versions))
	}
	for _, v := range versions {
		var then admin.Row
		if err := json.Unmarshal([]byte(read("state", topic, "1", "--at", v.Position)[0]), &then); err != nil {
			t.Fatal(err)
		}
		if string(then.Row) != string(v.Row) || then.Position != v.Position {
			t.Errorf("as of %s: %s of %s, want %s", v.Position, then.Row, then.Position, v.Row)
		}
	}
	_, out, _ := runCLI(t, "tail", topic, "--server", n.Kafka, "--from", "beginning", "-o", "json")
	var places []string
	for _, line := range lines(out) {
		var r recordLine
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Position == nil {
			t.Fatalf("%s: %v", line, err)
		}
		places = append(places, r.Position.Commit)
	}
	if places[0] != versions[0].Position || places[2] != versions[2].Position || places[4] == "" || places[4] != places[5] || places[3] == places[4] {
		t.Errorf("tail has %q, history %q %q %q", places, versions[0].Position, versions[1].Position, versions[2].Position)
	}
	if gtids { // all that the server has executed, the last of which changed no captured table, once the connector has come that far
		all, err := m.GTIDs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the position goes on", func() (bool, string) {
			code, out, errs := runCLI(t, "state", topic, "1", "--at", all, "--http", n.HTTP, "-o", "json")
			return code == ExitOK && strings.Contains(out, `"v":2`), out + errs
		})
	}
	for _, bad := range []string{"0/16B3748", "binlog.999999:4", "00000000-0000-0000-0000-000000000001:5", "77-1-5"} {
		if code, out, errs := runCLI(t, "state", topic, "1", "--at", bad, "--http", n.HTTP); code == ExitOK || !strings.Contains(errs, bad) {
			t.Errorf("%s: exit %d %s%s", bad, code, out, errs)
		}
	}
}
