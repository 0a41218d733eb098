package daemon

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/configs"
)

// TestSignalElsewhere: whichever node is asked gives the signal to the one that runs the connector, and answers what that one says.
func TestSignalElsewhere(t *testing.T) {
	log, err := configs.Parse("log.yaml", fmt.Appendf(nil, "node: {data_dir: %q, min_free_bytes: 1MiB}\nlisten: {kafka: 127.0.0.1:0, http: \"\"}\n", t.TempDir()), configs.OS())
	if err != nil {
		t.Fatal(err)
	}
	holder := start(t, log)
	var nodes []*Daemon
	for id := range 2 {
		cfg, err := configs.Parse("test.yaml", fmt.Appendf(nil, `node: {id: %d}
listen: {http: "127.0.0.1:0"}
log: {kafka: {brokers: [%q]}}
connectors:
  - {name: shop, type: mysql, config: {database.hostname: 127.0.0.1, database.port: "1", database.user: u}}
`, id+1, holder.KafkaAddress()), configs.OS())
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, start(t, cfg))
	}
	eventually(t, "one runs the connector, and both know", func() (bool, string) {
		a, b := nodes[0].Connectors()[0], nodes[1].Connectors()[0]
		return a.Here != b.Here && a.Node == b.Node && a.Node > 0, fmt.Sprintf("%+v %+v", a, b)
	})
	for _, d := range nodes {
		for _, c := range []struct {
			body   string
			status int
			want   string
		}{
			{`{"type":"stop-snapshot"}`, 503, "it takes signals while it streams"},
			{`{"type":"explode"}`, 400, "is not one of"},
		} {
			resp, err := http.Post("http://"+d.HTTPAddress()+"/v1/connectors/shop/signal", "application/json", strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.Body.Close() != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.status || !strings.Contains(string(body), c.want) {
				t.Errorf("%s: %d %s", c.body, resp.StatusCode, body)
			}
		}
	}
}
