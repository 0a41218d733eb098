package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/configs"
)

// runCLI runs a command line and returns its exit code and what it printed.
func runCLI(t *testing.T, arguments ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(arguments, &out, &errs, "v1.2.3")
	return code, out.String(), errs.String()
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rowtrail.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// closedPort is an address where nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestWrongCommandLines(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"", "rowtrail: no command given"},
		{"topcs", `rowtrail: unknown command "topcs" for "rowtrail"`},
		{"topics --nope", "rowtrail: unknown flag: --nope"},
		{"tail t --max x", "rowtrail: invalid argument \"x\" for \"--max\" flag: strconv.ParseInt: parsing \"x\": invalid syntax"},
		{"tail t --max=-1", "rowtrail: --max -1 is negative"},
		{"state t --full --text", "rowtrail: --full and --text exclude each other"},
		{"connectors signal shop explode", `rowtrail: type "explode" is not one of execute-snapshot, stop-snapshot, pause-snapshot, resume-snapshot, log`},
		{"connectors signal shop execute-snapshot", `rowtrail: data-collections is empty: name tables, as in {"data-collections": ["db.orders", "db.c.*"]}`},
		{"connectors signal shop execute-snapshot d.t --data {}", "rowtrail: --data stands for all: leave TABLE, --where and --truncate out"},
		{"connectors signal shop pause-snapshot --truncate", "rowtrail: pause-snapshot takes no truncate and no conditions"},
		{"transactions list --state Open", `rowtrail: --state "Open" is none of Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort`},
		{"transactions list --duration=-1s", "rowtrail: --duration -1s is negative"},
		{"transactions abort t x --start-offset 1", `rowtrail: partition "x" is no number`},
		{"transactions abort id --start-offset 1", "rowtrail: --start-offset and --producer-id need a TOPIC and a PARTITION"},
		{"version -o yaml", `rowtrail: --output "yaml" is neither table nor json`},
		{"serve", "rowtrail: no configuration file is named; add -c FILE (configs/broker.yaml serves Kafka clients alone, configs/minimal.yaml captures a database too)"},
		{"check", "rowtrail: no configuration file is named; add -c FILE (configs/broker.yaml serves Kafka clients alone, configs/minimal.yaml captures a database too)"},
	} {
		code, out, errs := runCLI(t, strings.Fields(c.args)...)
		first, second, _ := strings.Cut(errs, "\n")
		if code != ExitUsage || first != c.want || !strings.HasPrefix(second, "run `rowtrail --help`") || out != "" {
			t.Errorf("rowtrail %s: exit %d\n%s%s", c.args, code, out, errs)
		}
	}
}

// TestWrongArguments: one line says which argument is missing or too much.
func TestWrongArguments(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"tail", "rowtrail: tail: TOPIC is missing; see `rowtrail tail --help`\n"},
		{"state", "rowtrail: state: TOPIC is missing; see `rowtrail state --help`\n"},
		{"history t", "rowtrail: history: KEY is missing; see `rowtrail history --help`\n"},
		{"check a b", "rowtrail: check: too many arguments (\"a b\"); it takes none; see `rowtrail check --help`\n"},
		{"transactions describe", "rowtrail: transactions describe: ID is missing; see `rowtrail transactions describe --help`\n"},
		{"transactions abort", "rowtrail: transactions abort: ID or TOPIC is missing; see `rowtrail transactions abort --help`\n"},
		{"transactions", "rowtrail: transactions: a command is missing: list, describe, abort or find-hanging; see `rowtrail transactions --help`\n"},
		{"connectors signal shop", "rowtrail: connectors signal: TYPE is missing; see `rowtrail connectors signal --help`\n"},
		{"topics a b", "rowtrail: topics: too many arguments (\"b\"); it takes [TOPIC]; see `rowtrail topics --help`\n"},
	} {
		if code, out, errs := runCLI(t, strings.Fields(c.args)...); code != ExitUsage || errs != c.want || out != "" {
			t.Errorf("rowtrail %s: exit %d\n%s%s", c.args, code, out, errs)
		}
	}
}

// TestCheckWarnsOfTruncates: one warning for a connector that feeds sinks and does not capture TRUNCATE.
func TestCheckWarnsOfTruncates(t *testing.T) {
	const planes = `connectors:
  - {name: shop, type: postgres, config: {database.dsn: "postgres://a@b/c"%s}}
sinks:
  - {name: one, type: postgres, topics: ["%s"], config: {dsn: "postgres://a@b/d"}}
  - {name: two, type: postgres, topics: ["*", "!shop.public.audit"], config: {dsn: "postgres://a@b/e"}}
  - {name: three, type: postgres, topics: [other.x], config: {dsn: "postgres://a@b/f"}}
`
	for _, c := range []struct{ name, properties, topics, fed string }{
		{"by default", "", "shop.public.*", "one, two"},
		{"another connector's topics", "", "shopping.*", "two"},
		{"a topic by name", ", skipped.operations: \"u,t\"", "shop.public.orders", "one, two"},
		{"captured", ", skipped.operations: none", "shop.public.*", ""},
	} {
		file := write(t, fmt.Sprintf(planes, c.properties, c.topics))
		code, out, errs := runCLI(t, "check", "-c", file)
		want := file + ": ok\n"
		if c.fed != "" {
			want = "connector shop: warning: skipped.operations: a TRUNCATE at the source is not captured, so it is not applied by " + c.fed +
				": the target keeps the rows; set skipped.operations to none, or to a list without t\n" + file + ": ok, 1 warning\n"
		}
		if code != ExitOK || out != want || errs != "" {
			t.Errorf("%s: exit %d\n%s%s", c.name, code, out, errs)
		}
	}
	file := write(t, "node: {data_dri: x}\n")
	if _, out, _ := runCLI(t, "check", "-c", file); !strings.HasSuffix(out, file+": 1 error, 0 warnings\n") {
		t.Errorf("one error: %s", out)
	}
}

// TestCheckNamesTopicsThatAreNoTables: a sink that names what a connector keeps for itself.
func TestCheckNamesTopicsThatAreNoTables(t *testing.T) {
	const planes = `connectors:
  - {name: shop, type: %s, config: {database.hostname: a, database.user: b, database.dbname: c, topic.prefix: store, skipped.operations: none}}
sinks:
  - {name: one, type: postgres, topics: [%s], config: {dsn: "postgres://a@b/d"}}
`
	for _, c := range []struct{ typ, topic string }{{"postgres", "store.transaction"}, {"mysql", "store.schema-history"}, {"mysql", "store"}, {"mysql", "store.raw"}} {
		file := write(t, strings.ReplaceAll(fmt.Sprintf(planes, c.typ, c.topic), map[string]string{"mysql": "database.dbname: c, "}[c.typ]+"topic", "topic"))
		want := "sink one: topic " + c.topic + ": connector shop keeps it for itself: it holds no rows of a table, and the sink does not read it; leave it out of the sink's topics; those of tables are store.*\n" +
			file + ": 1 error, 0 warnings\n"
		if code, out, errs := runCLI(t, "check", "-c", file); code != ExitError || out != want {
			t.Errorf("%s of %s: exit %d\n%s%s", c.topic, c.typ, code, out, errs)
		}
	}
	for _, c := range []struct{ typ, topic string }{{"postgres", "store"}, {"postgres", "store.public.transaction"}} {
		file := write(t, fmt.Sprintf(planes, c.typ, c.topic))
		if code, out, errs := runCLI(t, "check", "-c", file); code != ExitOK {
			t.Errorf("%s of %s: exit %d\n%s%s", c.topic, c.typ, code, out, errs)
		}
	}
}

// TestCheckWarnsWhereNobodyCanLogIn: mechanisms without a user in the file.
func TestCheckWarnsWhereNobodyCanLogIn(t *testing.T) {
	file := write(t, "listen:\n  sasl:\n    mechanisms: [SCRAM-SHA-256]\n")
	want := file + ":3: warning: listen.sasl.users: is empty, so only users that are stored in the log already can log in, and nobody where there are none: " +
		"storing one takes a log-in; name a first user, as {name: admin, password: \"${ROWTRAIL_ADMIN_PASSWORD}\"}\n" + file + ": ok, 1 warning\n"
	if code, out, errs := runCLI(t, "check", "-c", file); code != ExitOK || out != want || errs != "" {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	file = write(t, "listen:\n  sasl:\n    mechanisms: [SCRAM-SHA-256]\n    users: [{name: admin, password: x}]\n")
	if code, out, errs := runCLI(t, "check", "-c", file); code != ExitOK || out != file+": ok\n" || errs != "" {
		t.Errorf("with a user: exit %d\n%s%s", code, out, errs)
	}
}

// TestLoggedDurations: JSON would have them in nanoseconds.
func TestLoggedDurations(t *testing.T) {
	var out bytes.Buffer
	logger, err := newLogger(&out, configs.Logging{Level: "info", Format: "json"}, false)
	if err != nil {
		t.Fatal(err)
	}
	logger.With("a", 1269*time.Millisecond).Info("x", slog.Group("g", "b", time.Minute))
	if got := out.String(); !strings.Contains(got, `"a":"1.269s"`) || !strings.Contains(got, `"g":{"b":"1m0s"}`) {
		t.Error(got)
	}
}

func TestVersion(t *testing.T) {
	if code, out, _ := runCLI(t, "version"); code != 0 || !strings.HasPrefix(out, "rowtrail v1.2.3 go1.") {
		t.Errorf("exit %d, %s", code, out)
	}
	if code, out, _ := runCLI(t, "version", "-o", "json"); code != 0 || !strings.Contains(out, `"version":"v1.2.3"`) {
		t.Errorf("exit %d, %s", code, out)
	}
}

func TestUnreachable(t *testing.T) {
	port := closedPort(t)
	for _, args := range [][]string{{"topics"}, {"groups"}, {"tail", "t"}, {"transactions", "list"}, {"transactions", "describe", "x"}, {"transactions", "abort", "x"},
		{"transactions", "find-hanging"}} {
		code, out, errs := runCLI(t, append(args, "--server", port)...)
		if want := "rowtrail: no rowtrail answers at " + port + "; start it with `rowtrail serve -c FILE`, or name its Kafka listener with --server\n"; code != ExitUnreachable || errs != want || out != "" {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
	for _, args := range [][]string{{"state", "t"}, {"history", "t", "k"}, {"connectors"}, {"sinks"}} {
		code, out, errs := runCLI(t, append(args, "--http", port)...)
		if want := "rowtrail: no rowtrail answers at http://" + port + "; start it with `rowtrail serve -c FILE`, or name its HTTP listener with --http\n"; code != ExitUnreachable || errs != want || out != "" {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	address := strings.TrimPrefix(other.URL, "http://")
	code, _, errs := runCLI(t, "sinks", "--http", address)
	if want := "rowtrail: what answers at http://" + address + " is no rowtrail (404 Not Found); name its HTTP listener with --http\n"; code != ExitUnreachable || errs != want {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// TestAPausedNode: whose kernel takes connections for it.
func TestAPausedNode(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := &app{http: l.Addr().String()}
	for name, ask := range map[string]func(context.Context) error{
		"ask":  func(ctx context.Context) error { var v any; return a.ask(ctx, &v, "cluster") },
		"post": func(ctx context.Context) error { return a.post(ctx, struct{}{}, "cluster", "drain") },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := ask(ctx)
		cancel()
		var f *failure
		if !errors.As(err, &f) || f.code != ExitUnreachable || !strings.Contains(err.Error(), "takes connections and does not answer") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	file := write(t, "listen: {kafka: \"127.0.0.1:19092\", http: \"0.0.0.0:18080\"}\nconnectors: [{name: x, type: postgres, config: {database.dsn: \"${NOT_SET_HERE}\"}}]\n")
	t.Setenv(serverEnv, "env:1")
	t.Setenv(httpEnv, "env:2")
	for _, c := range []struct {
		name         string
		a            app
		server, http string
	}{
		{"flags win", app{config: file, server: "flag:1", http: "flag:2"}, "flag:1", "flag:2"},
		{"then the file, whatever else is wrong with it", app{config: file}, "127.0.0.1:19092", "127.0.0.1:18080"},
		{"then the environment", app{}, "env:1", "env:2"},
	} {
		server, err := c.a.serverAddress()
		if err != nil || server != c.server {
			t.Errorf("%s: server %s, %v", c.name, server, err)
		}
		address, err := c.a.httpAddress()
		if err != nil || address != c.http {
			t.Errorf("%s: http %s, %v", c.name, address, err)
		}
	}
	t.Setenv(serverEnv, "")
	if server, err := (&app{}).serverAddress(); err != nil || server != defaultServer {
		t.Errorf("default: %s, %v", server, err)
	}
	named := "listen: {kafka: \"127.0.0.1:19093\", advertised: \"broker.example.com:9093\"%s}\n"
	for tls, want := range map[string]string{"": "127.0.0.1:19093", ", tls: {cert: c, key: k}": "broker.example.com:9093"} { // the name that the certificate has
		if server, err := (&app{config: write(t, fmt.Sprintf(named, tls))}).serverAddress(); err != nil || server != want {
			t.Errorf("advertised, %q: %s, %v; want %s", tls, server, err, want)
		}
	}
	free := write(t, "listen: {kafka: \"127.0.0.1:0\"}\n")
	if _, err := (&app{config: free}).serverAddress(); err == nil || !strings.HasSuffix(err.Error(), "listen.kafka names no port to connect to; give the address with --server") {
		t.Errorf("port 0: %v", err)
	}
}

func TestCheckFile(t *testing.T) {
	file := write(t, "node: {data_dri: x}\nlisten:\n  http: nope\n")
	code, out, errs := runCLI(t, "check", "-c", file)
	want := file + ":1: node.data_dri: unknown key; did you mean node.data_dir?\n" +
		file + ":3: listen.http: \"nope\" is not an address; write host:port, as 127.0.0.1:9092\n" +
		file + ": 2 errors, 0 warnings\n"
	if code != ExitError || out != want || errs != "" {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if code, out, _ := runCLI(t, "check", "-c", file, "-o", "json"); code != ExitError || !strings.HasPrefix(out, `{"connected":false,"file":"`+file+`","findings":[{"where":"`+file+`:1","level":"error","subject":"node.data_dri"`) {
		t.Errorf("exit %d\n%s", code, out)
	}
	good := write(t, "node: {id: 2}\n")
	if code, out, errs := runCLI(t, "check", "-c", good); code != ExitOK || out != good+": ok\n" || errs != "" {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	code, _, errs = runCLI(t, "serve", "-c", file)
	if code != ExitError || !strings.HasPrefix(errs, file+":1: node.data_dri: unknown key; did you mean node.data_dir?\n"+file+":3: ") {
		t.Errorf("serve: exit %d\n%s", code, errs)
	}
	code, _, errs = runCLI(t, "serve", "-c", "/no/such.yaml")
	if code != ExitError || errs != "/no/such.yaml: no such file; name an existing file with -c; configs/broker.yaml serves Kafka clients alone, configs/minimal.yaml captures a database too\n" {
		t.Errorf("serve: exit %d\n%s", code, errs)
	}
}
