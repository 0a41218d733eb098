package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// captured is a connector of a node, and the session that writes.
type captured struct {
	t        *testing.T
	d        *Daemon
	exec     func(statements ...string)
	database string
}

func (c *captured) status() connectors.Status {
	c.t.Helper()
	var s connectors.Status
	_, body := get(c.t, c.d, "/v1/connectors/shop")
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		c.t.Fatalf("%s: %v", body, err)
	}
	if s.State == connectors.StateFailed {
		c.t.Fatal(s.Error)
	}
	return s
}

// until waits for so many events, and says how long they took.
func (c *captured) until(events uint64) time.Duration {
	c.t.Helper()
	began := time.Now()
	for deadline := began.Add(2 * time.Minute); c.status().Events < events; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("%d events are missing: %+v", events-c.status().Events, c.status())
		}
	}
	return time.Since(began)
}

// TestImagesAreCompletedFromTheViews: a node captures row images of sessions with MINIMAL, and completes them from its own views; and
// how fast that is, against FULL images of the same changes. Half of the rows that are changed were not changed before.
func TestImagesAreCompletedFromTheViews(t *testing.T) {
	rows := 20000
	if v := os.Getenv("ROWTRAIL_IMAGE_ROWS"); v != "" {
		rows, _ = strconv.Atoi(v)
	}
	m := servers.MySQLForTest(t, servers.Options{})
	ctx := context.Background()
	if err := m.CreateDatabase(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	conn, err := m.Connect(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &captured{t: t, database: "shop", exec: func(statements ...string) {
		t.Helper()
		for _, q := range statements {
			if _, err := conn.Execute(q); err != nil {
				t.Fatalf("%s: %v", q[:min(len(q), 200)], err)
			}
		}
	}}
	c.exec("CREATE TABLE item (id INT PRIMARY KEY, n INT NOT NULL, name VARCHAR(40), note VARCHAR(200), made DATETIME)")
	const batch = 1000
	for i := 0; i < rows; i += batch {
		values := make([]string, batch)
		for j := range values {
			values[j] = fmt.Sprintf("(%d, 0, 'name %d', REPEAT('n', 100), '2026-01-02 03:04:05')", i+j+1, i+j+1)
		}
		c.exec("INSERT INTO item VALUES " + strings.Join(values, ","))
	}
	t.Setenv("SHOP_PASSWORD", m.Password())
	c.d = start(t, parse(t, t.TempDir(), fmt.Sprintf(`connectors:
  - name: shop
    type: %s
    config: {database.hostname: %s, database.port: "%d", database.user: %s, database.password: "${SHOP_PASSWORD}", database.include.list: shop}
`, m.Flavour(), m.Host(), m.Port(), m.User())))
	c.until(uint64(rows)) //nolint:gosec // a count
	seen := uint64(rows)  //nolint:gosec // a count
	change := func(image string) time.Duration {
		t.Helper()
		began := time.Now()
		c.exec("SET SESSION binlog_row_image = '" + image + "'")
		for range 2 {
			for i := 0; i < rows; i += 200 {
				c.exec("BEGIN", fmt.Sprintf("UPDATE item SET n = n + 1 WHERE id > %d AND id <= %d", i, i+100), fmt.Sprintf("UPDATE item SET n = n + 1 WHERE id > %d AND id <= %d", i+100, i+200), "COMMIT")
			}
		}
		wrote := time.Since(began)
		seen += 2 * uint64(rows) //nolint:gosec // a count
		lag := c.until(seen)
		t.Logf("%s: %d changes written in %s, captured %s later", image, 2*rows, wrote.Round(time.Millisecond), lag.Round(time.Millisecond))
		return wrote + lag
	}
	full := change("FULL")
	minimal := change("MINIMAL")
	rate := func(took time.Duration) float64 { return float64(2*rows) / took.Seconds() }
	t.Logf("rows/s end to end: FULL %.0f, MINIMAL completed %.0f", rate(full), rate(minimal))
	for _, id := range []int{1, rows / 2, rows} {
		status, body := get(t, c.d, fmt.Sprintf("/v1/state/shop.shop.item/%d?text=true", id))
		want := fmt.Sprintf(`"row":{"id":"%d","n":"4","name":"name %d","note":"%s","made":"2026-01-02 03:04:05"}`, id, id, strings.Repeat("n", 100))
		if status != 200 || !strings.Contains(body, want) || strings.Contains(body, "absent") {
			t.Errorf("row %d: %d %s", id, status, body)
		}
	}
	// As the log has it, every change has the whole row, before and after.
	_, body := get(t, c.d, "/v1/history/shop.shop.item/1?full=true")
	if n := strings.Count(body, `"note":"`+strings.Repeat("n", 100)); n != 9 {
		t.Errorf("the row's values are %d times in its history, want 9:\n%s", n, body)
	}
	if w := c.status().Warnings; len(w) > 0 {
		t.Errorf("warnings %v", w)
	}
}
