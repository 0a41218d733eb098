package cli

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// lags reads the lag metrics of a node: the sums of each family by role and unit, such as sink_events.
func lags(t *testing.T, n *node) map[string]float64 {
	t.Helper()
	answer, err := http.Get("http://" + n.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		name, rest, _ := strings.Cut(line, "{")
		family, ok := strings.CutPrefix(name, "rowtrail_")
		role, unit, isLag := strings.Cut(family, "_lag_")
		_, value, _ := strings.Cut(rest, "} ")
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if ok && isLag && err == nil && role != "view" {
			sums[role+"_"+unit] += v
		}
	}
	return sums
}

// lagOverTheMetrics takes the sink's database away and gives it back: the lag of the sink and of its group grows in every
// unit and ends, and the connector has none all along.
func lagOverTheMetrics(t *testing.T, n *node, server *servers.Postgres, source string) {
	t.Helper()
	roles, units := []string{"sink", "group", "connector"}, []string{"events", "bytes", "seconds"}
	none := func() (bool, string) {
		got := lags(t, n)
		for _, role := range roles {
			for _, unit := range units {
				if v, there := got[role+"_"+unit]; !there || v != 0 {
					return false, fmt.Sprint(got)
				}
			}
		}
		return true, ""
	}
	eventually(t, "no lag", none)
	admin := server.DSN("postgres")
	query(t, admin, "ALTER DATABASE warehouse ALLOW_CONNECTIONS false")
	query(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'warehouse'")
	var before map[string]float64
	for round := range 3 {
		query(t, source, fmt.Sprintf("INSERT INTO orders SELECT i, 'new' FROM generate_series(%d, %d) i", 1000*(round+1), 1000*(round+1)+99))
		eventually(t, "a lag that grows", func() (bool, string) {
			got := lags(t, n)
			for _, unit := range units {
				for _, role := range roles[:2] {
					if got[role+"_"+unit] <= before[role+"_"+unit] {
						return false, fmt.Sprint(got)
					}
				}
			}
			if got["sink_events"] < float64(100*(round+1)) || got["connector_events"] != 0 || got["connector_seconds"] != 0 {
				return false, fmt.Sprint(got)
			}
			before = got
			return true, ""
		})
	}
	query(t, admin, "ALTER DATABASE warehouse ALLOW_CONNECTIONS true")
	eventually(t, "no lag again", none)
}
