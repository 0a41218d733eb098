package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
)

// rowsOverTheCLI looks at the rows that TestEndToEnd made: 1 was updated, 2 deleted, 3 inserted.
func rowsOverTheCLI(t *testing.T, n *node) {
	t.Helper()
	const topic = "shop.public.orders"
	ask := func(args ...string) (int, []admin.Row, string) {
		code, out, errs := runCLI(t, append(args, "--http", n.HTTP, "-o", "json")...)
		var rows []admin.Row
		if out != "" {
			for _, line := range lines(out) {
				var r admin.Row
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatalf("%v: %v in %s", args, err, line)
				}
				rows = append(rows, r)
			}
		}
		return code, rows, errs
	}
	var before admin.Row
	eventually(t, "state of a row", func() (bool, string) {
		code, rows, errs := ask("state", topic, "1")
		if code != ExitOK || len(rows) != 1 {
			return false, errs
		}
		return string(rows[0].Row) == `{"id":1,"state":"paid","note":"a"}` && rows[0].Op == "u" && rows[0].Position != "", string(rows[0].Row)
	})
	code, rows, errs := ask("history", topic, `{ "id": 1 }`)
	if code != ExitOK || len(rows) != 2 || rows[0].Op != "r" || rows[1].Op != "u" {
		t.Fatalf("history: exit %d, %+v, %s", code, rows, errs)
	}
	before = rows[0]
	if code, rows, errs := ask("state", topic, "1", "--at", rows[1].CommitTime.Add(-1).Format("2006-01-02T15:04:05.999999999Z07:00")); code != ExitOK || len(rows) != 1 || rows[0].Offset != before.Offset {
		t.Errorf("state before the update: exit %d, %+v, %s", code, rows, errs)
	}
	if code, rows, errs := ask("state", topic, "1", "--at", rows[1].Position); code != ExitOK || len(rows) != 1 || rows[0].Op != "u" {
		t.Errorf("state at the update's position: exit %d, %+v, %s", code, rows, errs)
	}
	if code, _, errs := ask("state", topic, "2"); code != ExitNotFound || !strings.Contains(errs, `row with key {"id":2} in shop.public.orders was deleted`) {
		t.Errorf("state of a deleted row: exit %d, %s", code, errs)
	}
	if code, _, errs := ask("state", topic, "99"); code != ExitNotFound || errs != "rowtrail: no row with key {\"id\":99} in shop.public.orders then\n" {
		t.Errorf("state of no row: exit %d, %s", code, errs)
	}
	if code, _, errs := ask("state", "nope", "1"); code != ExitNotFound || errs != "rowtrail: topic \"nope\" does not exist; `rowtrail topics` lists them\n" {
		t.Errorf("state of no topic: exit %d, %s", code, errs)
	}
	if code, _, errs := ask("state", topic, "--at", "1000000"); code != ExitUsage || !strings.Contains(errs, "offset 1000000 is beyond the end of "+topic) {
		t.Errorf("--at beyond the end: exit %d, %s", code, errs)
	}
	if code, _, errs := ask("state", topic, "1", "--at", "FFFFFFFF/0"); code != ExitUsage || !strings.Contains(errs, "up to which connector shop has written") {
		t.Errorf("--at beyond the source's position: exit %d, %s", code, errs)
	}
	if code, _, errs := ask("state", topic, `{"ids":1}`); code != ExitUsage || !strings.Contains(errs, `key has other columns than "ids": write {"id": ...}`) {
		t.Errorf("wrong column: exit %d, %s", code, errs)
	}
	if code, rows, errs := ask("state", topic, `{"id":"1"}`); code != ExitOK || len(rows) != 1 || string(rows[0].Key) != `{"id":1}` {
		t.Errorf("the key as text: exit %d, %+v, %s", code, rows, errs)
	}
	if code, _, errs := ask("history", topic, ""); code != ExitNotFound || errs != "rowtrail: no row with key {\"id\":\"\"} in shop.public.orders\n" {
		t.Errorf("the empty key: exit %d, %s", code, errs)
	}
	if code, _, errs := ask("state", topic, "--at", "noon"); code != ExitUsage || !strings.Contains(errs, `"noon" is no point in a topic`) {
		t.Errorf("bad --at: exit %d, %s", code, errs)
	}
	if code, rows, errs := ask("state", topic); code != ExitOK || len(rows) != 2 {
		t.Errorf("all rows: exit %d, %+v, %s", code, rows, errs)
	}
	if code, rows, errs := ask("history", topic, "2"); code != ExitOK || len(rows) != 3 || rows[1].Op != "d" || !rows[2].Deleted {
		t.Errorf("history of a deleted row: exit %d, %+v, %s", code, rows, errs)
	}
	_, out, _ := runCLI(t, "state", topic, "1", "--http", n.HTTP)
	if got := strings.Join(strings.Fields(out), " "); !strings.HasPrefix(got, `key {"id":1} record shop.public.orders, partition 0, offset `) || !strings.HasSuffix(got, "op u id 1 state paid note a") {
		t.Errorf("state as a table:\n%s", out)
	}
	_, out, _ = runCLI(t, "history", topic, "2", "--http", n.HTTP)
	if got := lines(out); len(got) != 4 || !strings.HasPrefix(got[0], "OFFSET ") || !strings.Contains(got[1], ` r  {"id":2} {"id":"2","state":"new","note":null}`) || !strings.HasSuffix(got[2], ` d  {"id":2} (deleted)`) || !strings.HasSuffix(got[3], ` x  {"id":2} (deleted)`) {
		t.Errorf("history as a table:\n%s", out)
	}

	// People see columns as the source prints them, a column that the source did not send again included.
	big := strings.Repeat("x", 9000)
	eventually(t, "columns of an item", func() (bool, string) {
		code, rows, errs := ask("state", "shop.public.items", "1", "--text")
		return code == ExitOK && string(rows[0].Row) == `{"id":"1","price":"3.00","made":null,"big":"`+big+`"}` && rows[0].Absent == nil, fmt.Sprint(rows, errs)
	})
	if code, rows, errs := ask("history", "shop.public.items", "1", "--text"); code != ExitOK || len(rows) != 4 ||
		!strings.HasPrefix(string(rows[0].Row), `{"id":"1","price":"9.50","made":"2026-01-02 03:04:05+00","big":"xxx`) {
		t.Errorf("history as text: exit %d, %s", code, errs)
	}
	// Twice another key, and another row under the old one: the value is the one that this row had there.
	eventually(t, "columns of an item under its third key", func() (bool, string) {
		code, rows, errs := ask("state", "shop.public.items", "7", "--text")
		return code == ExitOK && string(rows[0].Row) == `{"id":"7","price":"3.00","made":null,"big":"`+strings.Repeat("y", 9000)+`"}`, fmt.Sprint(rows, errs)
	})
	if code, rows, _ := ask("state", "shop.public.items", "1"); code != ExitOK || !strings.Contains(string(rows[0].Row), `"big":"__debezium_unavailable_value"`) {
		t.Errorf("the record as it is: exit %d, %+v", code, rows)
	}
	_, out, _ = runCLI(t, "state", "shop.public.items", "1", "--http", n.HTTP)
	if got := strings.Join(strings.Fields(out), " "); !strings.HasSuffix(got, "id 1 price 3.00 made NULL big "+big) {
		t.Errorf("item as a table:\n%s", out)
	}
}
