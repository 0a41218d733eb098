package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/configs"
	"github.com/rowtrail/rowtrail/itest/certs"
)

// elsewhere is a file of a node whose log is another cluster.
func elsewhere(t *testing.T, kafka string) string {
	t.Helper()
	return write(t, fmt.Sprintf(`node: {id: 3}
log: {kafka: {%s}}
connectors: [{name: shop, type: postgres, config: {database.dsn: "postgres://nobody@127.0.0.1:1/x?sslmode=disable"}}]
sinks: [{name: warehouse, type: postgres, topics: ["shop.*"], config: {dsn: "postgres://nobody@127.0.0.1:1/x?sslmode=disable"}}]
`, kafka))
}

// kafkaSays are the findings about the cluster, one a line.
func kafkaSays(t *testing.T, file string) string {
	t.Helper()
	cfg, err := configs.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var lines []string
	for _, f := range kafkaFindings(ctx, cfg) {
		if f.Where != file+":2" || f.Level != "error" {
			t.Errorf("%+v", f)
		}
		lines = append(lines, fmt.Sprintf("%s: %s; %s", f.Subject, f.Problem, f.Remedy))
	}
	return strings.Join(lines, "\n")
}

// TestCheckOfKafka: against a node with TLS and log-ins, as the cluster that holds the log.
func TestCheckOfKafka(t *testing.T) {
	authority := certs.New(t)
	_, address, _ := secureNode(t, authority)
	login := ", sasl: {mechanism: SCRAM-SHA-256, name: alice, password: %q}"
	good := fmt.Sprintf("brokers: [%q], tls: {ca: %q}"+login, address, authority.CA, "hunter2-of-alice")
	for _, c := range []struct{ name, kafka, want string }{
		{"good", good, ""},
		{"replicas", good + ", replication.factor: 3", "lower log.kafka.replication.factor to the number of brokers or less"},
		{"password", fmt.Sprintf("brokers: [%q], tls: {ca: %q}"+login, address, authority.CA, "hunter2"), "correct log.kafka.sasl.name and password"},
		{"mechanism", strings.Replace(good, "SCRAM-SHA-256", "SCRAM-SHA-512", 1), "set log.kafka.sasl.mechanism to one that it allows"},
		{"no log-in", fmt.Sprintf("brokers: [%q], tls: {ca: %q}", address, authority.CA), "set log.kafka.tls and log.kafka.sasl as that listener wants them"},
		{"no TLS", fmt.Sprintf("brokers: [%q]"+login, address, "hunter2-of-alice"), "set log.kafka.tls and log.kafka.sasl as that listener wants them"},
		{"authority", fmt.Sprintf("brokers: [%q], tls: {enabled: true}"+login, address, "hunter2-of-alice"), "name its authority in log.kafka.tls.ca"},
		{"name", fmt.Sprintf("brokers: [%q], tls: {ca: %q, server_name: other.example.com}"+login, address, authority.CA, "hunter2-of-alice"), "its name in log.kafka.tls.server_name"},
		{"no file", fmt.Sprintf("brokers: [%q], tls: {ca: /gone.pem}", address), "log.kafka.tls.ca: /gone.pem does not exist; name an existing PEM file"},
		{"nobody", fmt.Sprintf("brokers: [%q]", closedPort(t)), "correct log.kafka.brokers, or start the cluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := kafkaSays(t, elsewhere(t, c.kafka))
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) || strings.Contains(got, "hunter2") {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}

	// Commands ask that cluster by the node's file; whoever cannot read its password says who they are.
	t.Setenv("KAFKA_PASSWORD", "hunter2-of-alice")
	file := elsewhere(t, strings.Replace(good, `"hunter2-of-alice"`, `"${KAFKA_PASSWORD}"`, 1))
	if code, out, errs := runCLI(t, "topics", "create", "orders", "-c", file); code != ExitOK {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	if code, out, errs := runCLI(t, "topics", "-c", file); code != ExitOK || !strings.Contains(out, "orders") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if code, out, errs := runCLI(t, "groups", "--brokers", address+",127.0.0.1:1", "-c", file); code != ExitOK {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	os.Unsetenv("KAFKA_PASSWORD")
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("hunter2-of-alice\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := runCLI(t, "topics", "-c", file, "--user", "alice", "--password-file", secret); code != ExitOK || !strings.Contains(out, "orders") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if code, _, errs := runCLI(t, "topics", "--server", "a:1", "--brokers", "b:1"); code == ExitOK || !strings.Contains(errs, "none of the others can be") {
		t.Errorf("both: exit %d\n%s", code, errs)
	}
}

// TestCheckOfKafkasVersionsAndPermissions: a cluster that lacks transactions, and one that does not let the user do what it has to.
func TestCheckOfKafkasVersionsAndPermissions(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "shop.position", "shop.public.orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	file := elsewhere(t, fmt.Sprintf("brokers: [%q]", cluster.ListenAddrs()[0]))
	refuse := func(key kmsg.Key, answer func(kmsg.Request) kmsg.Response) {
		cluster.ControlKey(key.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			return answer(r), nil, true
		})
	}
	refuse(kmsg.CreateTopics, func(r kmsg.Request) kmsg.Response {
		req := r.(*kmsg.CreateTopicsRequest)
		if !req.ValidateOnly {
			t.Error("check creates topics")
		}
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		for _, topic := range req.Topics {
			st := kmsg.NewCreateTopicsResponseTopic()
			st.Topic, st.ErrorCode = topic.Topic, kerr.TopicAuthorizationFailed.Code
			resp.Topics = append(resp.Topics, st)
		}
		return resp
	})
	refuse(kmsg.FindCoordinator, func(r kmsg.Request) kmsg.Response {
		req := r.(*kmsg.FindCoordinatorRequest)
		resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		for _, key := range req.CoordinatorKeys {
			c := kmsg.NewFindCoordinatorResponseCoordinator()
			c.Key, c.ErrorCode = key, kerr.TransactionalIDAuthorizationFailed.Code
			if req.CoordinatorType == 0 {
				c.ErrorCode = kerr.GroupAuthorizationFailed.Code
			}
			resp.Coordinators = append(resp.Coordinators, c)
		}
		return resp
	})
	got := kafkaSays(t, file)
	for _, want := range []string{
		"topic shop.transaction: is missing, and this user may not create it; allow CREATE",
		"topic __rowtrail_tasks: is missing, and this user may not create it",
		"transactional id rowtrail-connector-shop: this user may not use it; allow WRITE and DESCRIBE",
		"allow READ and DESCRIBE on",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "topic shop.position: is missing") {
		t.Error(got)
	}

	refuse(kmsg.ApiVersions, func(r kmsg.Request) kmsg.Response {
		req := r.(*kmsg.ApiVersionsRequest)
		resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
		for _, k := range []kmsg.Key{kmsg.ApiVersions, kmsg.Metadata, kmsg.FindCoordinator, kmsg.DescribeGroups, kmsg.CreateTopics, kmsg.JoinGroup} {
			rk := kmsg.NewApiVersionsResponseApiKey()
			rk.ApiKey, rk.MaxVersion = k.Int16(), kmsg.RequestForKey(k.Int16()).MaxVersion()
			if k == kmsg.JoinGroup {
				rk.MaxVersion = 4
			}
			resp.ApiKeys = append(resp.ApiKeys, rk)
		}
		return resp
	})
	got = kafkaSays(t, file)
	for _, want := range []string{
		"broker 0: lacks transactions whose producer can be fenced (KIP-360): InitProducerID version 3; use Apache Kafka 2.5 or later",
		"lacks fencing of groups in transactions (KIP-447)", "lacks static members of groups (KIP-345): JoinGroup version 5",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q in\n%s", want, got)
		}
	}
}
