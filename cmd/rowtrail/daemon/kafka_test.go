package daemon

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/cmd/rowtrail/tasks"
	"github.com/rowtrail/rowtrail/configs"
	"github.com/rowtrail/rowtrail/itest/certs"
)

// unreachableSink needs no database to be run by a node: it retries.
const unreachableSink = "sinks: [{name: far, type: postgres, topics: [\"x*\"], config: {dsn: \"postgres://nobody@127.0.0.1:1/x?sslmode=disable\"}}]\n"

func parseElsewhere(t *testing.T, id int, kafka string) *configs.Config {
	t.Helper()
	text := fmt.Sprintf("node: {id: %d}\nlisten: {http: \"127.0.0.1:0\"}\nlog: {kafka: {%s}}\n%s", id, kafka, unreachableSink)
	cfg, err := configs.Parse("test.yaml", []byte(text), configs.OS())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestLogElsewhere: over TLS and with a log-in, two nodes without a log share what they run through a third one's.
func TestLogElsewhere(t *testing.T) {
	authority := certs.New(t)
	cert, key := authority.Issue(t, "server")
	secure, err := configs.Parse("log.yaml", fmt.Appendf(nil, `node: {data_dir: %q, min_free_bytes: 1MiB}
listen:
  kafka: 127.0.0.1:0
  http: ""
  tls: {cert: %q, key: %q}
  sasl: {mechanisms: [SCRAM-SHA-256], users: [{name: alice, password: secret-of-alice}]}
`, t.TempDir(), cert, key), configs.OS())
	if err != nil {
		t.Fatal(err)
	}
	log := start(t, secure)
	if _, err := log.node.CreateTopic(t.Context(), cluster.TopicSpec{Name: "xa", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	kafka := fmt.Sprintf("brokers: [%q], tls: {ca: %q}, sasl: {mechanism: SCRAM-SHA-256, name: alice, password: secret-of-alice}", log.KafkaAddress(), authority.CA)
	one, two := start(t, parseElsewhere(t, 1, kafka)), start(t, parseElsewhere(t, 2, kafka))
	if one.KafkaAddress() != "" {
		t.Errorf("listens for Kafka clients on %s", one.KafkaAddress())
	}
	nodes := []*Daemon{one, two}
	here := func() int {
		for i, d := range nodes {
			if d.Sinks()[0].Here {
				return i
			}
		}
		return -1
	}
	eventually(t, "one of them runs the sink, and the other knows", func() (bool, string) {
		i := here()
		if i < 0 {
			return false, fmt.Sprintf("%+v", one.Sinks())
		}
		told := nodes[1-i].Sinks()[0]
		return told.Node == int32(i+1) && !told.Here && told.State == "retrying" && strings.Contains(told.Error, "reach target") && slices.Equal(told.Topics, []string{"xa"}), fmt.Sprintf("%+v", told)
	})
	for _, d := range nodes {
		if status, body := get(t, d, "/readyz"); status != 200 {
			t.Errorf("readyz: %d %s", status, body)
		}
		if status, body := get(t, d, "/v1/state/x"); status != http.StatusNotImplemented {
			t.Errorf("state: %d %s", status, body)
		}
	}
	for _, d := range nodes { // what another node tells is not taken for what the file says
		if topics := d.cfg.Sinks[0].Topics; !slices.Equal(topics, []string{"x*"}) {
			t.Errorf("the file's topics became %v", topics)
		}
	}
	// Whichever is asked restarts it.
	runner := here()
	resp, err := http.Post("http://"+nodes[1-runner].HTTPAddress()+"/v1/sinks/far/restart", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != 200 {
		t.Errorf("restart: %d, %v", resp.StatusCode, err)
	}
	// The node that runs it stops: the other takes it at once.
	stop(t, nodes[runner])
	eventually(t, "the other runs it", func() (bool, string) {
		s := nodes[1-runner].Sinks()[0]
		return s.Here, fmt.Sprintf("%+v", s)
	})
	if topic, ok := log.Topic(tasks.Topic); !ok || !topic.Internal || topic.Config["cleanup.policy"] != "compact" {
		t.Errorf("topic %s: %+v", tasks.Topic, topic)
	}
}

func TestUnusableKafka(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tls, want string }{
		{"ca: /gone.pem", "log.kafka.tls.ca: /gone.pem does not exist; name an existing PEM file"},
		{fmt.Sprintf("ca: %q", empty), "holds no certificate; name a PEM file of certificates"},
		{"cert: /gone.pem, key: /gone.key", "no such file or directory; name existing PEM files that this user can read"},
		{fmt.Sprintf("cert: %q, key: %q", empty, empty), "name PEM files that belong together"},
	} {
		d, err := Start(t.Context(), parseElsewhere(t, 1, "brokers: [\"127.0.0.1:1\"], tls: {"+c.tls+"}"), Options{})
		if err == nil {
			stop(t, d)
		}
		if err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v", c.tls, err)
		}
	}
}

// TestUnreachableKafka: a node whose log does not answer is up, says what it waits for, and stops when it is told to.
func TestUnreachableKafka(t *testing.T) {
	d := start(t, parseElsewhere(t, 1, "brokers: [\"127.0.0.1:1\"]"))
	eventually(t, "it says so", func() (bool, string) {
		s := d.Sinks()[0]
		return strings.Contains(s.Error, "connection refused"), fmt.Sprintf("%+v", s)
	})
}

// TestTasksStartAtOnce: on a node with the log itself connectors and sinks do not wait for members that do not come, whatever
// the delay of other groups, and a node that was killed takes its place again without waiting for its former session.
func TestTasksStartAtOnce(t *testing.T) {
	dir := t.TempDir()
	cfg := parse(t, dir, "log: {group.initial.rebalance.delay.ms: 1m, group.min.session.timeout.ms: 9s}\n"+unreachableSink)
	for _, when := range []string{"first start", "start after a stop"} {
		d := start(t, cfg)
		began := time.Now()
		eventually(t, when, func() (bool, string) {
			s := d.Sinks()[0]
			return s.Here, fmt.Sprintf("%+v", s)
		})
		t.Logf("%s: the sink runs after %s", when, time.Since(began))
		client, err := kgo.NewClient(kgo.SeedBrokers(d.KafkaAddress()))
		if err != nil {
			t.Fatal(err)
		}
		groups, err := kadm.NewClient(client).DescribeGroups(context.Background(), tasks.Group)
		if err != nil || groups[tasks.Group].State != "Stable" || len(groups[tasks.Group].Members) != 1 {
			t.Errorf("%s: %+v, %v", when, groups, err)
		}
		client.Close()
		stop(t, d)
	}
}
