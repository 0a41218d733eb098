package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/cluster"
)

// TestUnknownLeaders: a partition of which a node does not know who leads is not counted as led by its preferred replica.
func TestUnknownLeaders(t *testing.T) {
	var o cluster.Overview
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(&o) }))
	defer s.Close()
	for _, c := range []struct {
		offline, not int
		status, json string
		leaders      string
	}{
		{0, 0, "6 partitions: 0 offline, 0 under-replicated, 0 moving, 0 not led by the preferred replica.\n", `"unknown":0`, "\n0 partitions not led by the preferred replica.\n"},
		{0, 1, "0 moving, 1 not led by the preferred replica.\n", `"unknown":0`, "\n1 partition not led by the preferred replica.\n"},
		{6, 0, "6 offline, 0 under-replicated, 0 moving, 0 not led by the preferred replica, not known of 6.\n", `"unknown":6`,
			"\n0 partitions not led by the preferred replica, not known of 6.\n"},
		{2, 1, "0 moving, 1 not led by the preferred replica, not known of 2.\n", `"unknown":2`, "\n1 partition not led by the preferred replica, not known of 2.\n"},
	} {
		o = cluster.Overview{Partitions: 6, NotPreferred: c.not, Offline: make([]cluster.PartitionOverview, c.offline)}
		for _, x := range []struct{ command, want string }{{"cluster status", c.status}, {"cluster leaders", c.leaders}, {"cluster leaders -o json", c.json}} {
			code, out, errs := runCLI(t, append(strings.Fields(x.command), "--http", s.Listener.Addr().String())...)
			if code != ExitOK || !strings.Contains(out, x.want) {
				t.Errorf("%d offline, %s: exit %d, %s\n%s", c.offline, x.command, code, errs, out)
			}
		}
	}
}
