package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
)

func testEnv(vars map[string]string, files map[string]string) Environment {
	return Environment{
		Lookup: func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
		ReadFile: func(path string) ([]byte, error) {
			if data, ok := files[path]; ok {
				return []byte(data), nil
			}
			return nil, fmt.Errorf("open %s: %w", path, os.ErrNotExist)
		},
	}
}

func TestProblems(t *testing.T) {
	cases := []struct {
		name, yaml string
		want       []string
	}{
		{"unknown key with a near name", "node:\n  data_dri: x\n", []string{"f:2: node.data_dri: unknown key; did you mean node.data_dir?"}},
		{"unknown key of another section", "data_dir: x\n", []string{"f:1: data_dir: unknown key; did you mean node.data_dir?"}},
		{"unknown key without a near name", "logging: {zzzzzzzzzz: 1}\n", []string{"f:1: logging.zzzzzzzzzz: unknown key; remove it; the keys under logging are level, format"}},
		{"unknown section", "qqqqqqqqqq: 1\n", []string{"f:1: qqqqqqqqqq: unknown key; remove it; the keys at the top level are node, listen, cluster, log, logging, connectors, sinks"}},
		{"all at once, by line", "listen:\n  kafka: 9092\nnode:\n  id: 0\nlogging:\n  level: inof\n  lvel: info\n", []string{
			`f:2: listen.kafka: "9092" is not an address; write host:port, as 127.0.0.1:9092`,
			"f:4: node.id: 0 is out of range; write at least 1",
			`f:6: logging.level: "inof" is not known; did you mean info?`,
			"f:7: logging.lvel: unknown key; did you mean logging.level?",
		}},
		{"port", "listen: {http: \"h:70000\"}\n", []string{`f:1: listen.http: port "70000" is not a number from 0 to 65535`}},
		{"port word", "listen: {http: \"h:web\"}\n", []string{`f:1: listen.http: port "web" is not a number from 0 to 65535`}},
		{"clash", "listen:\n  kafka: 127.0.0.1:9092\n  http: 127.0.0.1:9092\n", []string{"f:3: listen.http: is the same address as listen.kafka (127.0.0.1:9092); give each its own port"}},
		{"wildcard", "listen:\n  kafka: 0.0.0.0:9092\n", []string{"f:2: listen.kafka: 0.0.0.0:9092 stands for all addresses, which no client can connect to; set listen.advertised to the host:port that clients reach"}},
		{"pprof", "listen: {http: \"\", pprof: true}\n", []string{"f:1: listen.pprof: needs listen.http, which is empty; set listen.http, or remove pprof"}},
		{"size", "node: {memory_limit: 12 potatoes}\n", []string{`f:1: node.memory_limit: "12 potatoes" is not a size; write bytes, or a number with KiB, MiB, GiB, KB, MB or GB`}},
		{"range in units", "log: {max.message.bytes: 1GiB}\n", []string{"f:1: log.max.message.bytes: 1GiB is out of range; write at most 32MiB"}},
		{"session bounds", "log:\n  group.min.session.timeout.ms: 1h\n", []string{"f:2: log.group.min.session.timeout.ms: is above log.group.max.session.timeout.ms (30m0s), so no member could join; lower it, or raise the other"}},
		{"heartbeats", "log:\n  group.consumer.heartbeat.interval.ms: 50000\n", []string{"f:2: log.group.consumer.heartbeat.interval.ms: is not below log.group.consumer.session.timeout.ms (45s), so members would be removed between heartbeats; lower it, or raise the other"}},
		{"duration", "node: {shutdown_timeout: 30}\n", []string{`f:1: node.shutdown_timeout: "30" is not a time span; write a number with ms, s, m, h, d or w`}},
		{"boolean", "listen: {pprof: maybe}\n", []string{`f:1: listen.pprof: "maybe" is neither true nor false; write true or false`}},
		{"number", "node: {id: 1.5}\n", []string{`f:1: node.id: "1.5" is not a whole number; write one`}},
		{"duplicate", "node: {id: 1}\nnode: {id: 2}\n", []string{"f:2: node: is given twice, first on line 1; keep one of them"}},
		{"no value", "node:\n  id:\n", []string{`f:2: node.id: has no value; give it one, remove the key, or write "" for the empty text`}},
		{"empty data_dir", "node:\n  data_dir: \"\"\n", []string{"f:2: node.data_dir: is empty; name a directory, as ./data"}},
		{"section is a list", "node:\n  - id: 1\n", []string{"f:2: node: is a list, but has keys of its own; write key: value lines, indented below it"}},
		{"list is a map", "connectors:\n  name: x\n", []string{"f:2: connectors: is a map, not a list; start each entry with a dash (- )"}},
		{"empty entry", "sinks:\n  -\n", []string{"f:2: sinks[0]: is empty; fill it in, or remove the dash"}},
		{"not YAML", "node: [1\nlog: {}\n", []string{"f:2: is not YAML here: ',' or ']' must be specified; check indentation, quotes and brackets on this line and the one above"}},
		{"tab", "node:\n\tid: 1\n", []string{"f:2: is not YAML here: found character '\t' that cannot start any token; check indentation, quotes and brackets on this line and the one above"}},
		{"two documents", "node: {id: 1}\n---\nnode: {id: 2}\n", []string{"f:3: holds a second document; put everything into one, without ---"}},
		{"scalar file", "hello\n", []string{"f:1: is a single value, but has keys of its own; write key: value lines, indented below it"}},
		{"merge key", "node:\n  <<: {id: 1}\n", []string{"f:2: node.<<: merge keys are not supported; use an alias (key: *name) for a whole value"}},
		{"alias", "node: *gone\n", []string{"f:1: node: alias *gone has no anchor above it; define &gone first"}},
		{"environment", "node:\n  data_dir: ${NOT_SET}/x\n", []string{"f:2: node.data_dir: environment variable NOT_SET is not set; export it, or write ${NOT_SET:-default}"}},
		{"open reference", "node:\n  data_dir: ${NOT_SET\n", []string{"f:2: node.data_dir: ${ is not closed; add a }, or write $${ for a literal ${"}},
		{"bad reference", "node:\n  data_dir: ${1a}\n", []string{"f:2: node.data_dir: ${1a} is not the name of an environment variable; write ${NAME}, ${NAME:-default} or ${file:/path}"}},
		{"secret file", "node:\n  data_dir: ${file:/no/such}\n", []string{"f:2: node.data_dir: cannot read the secret's file: open /no/such: file does not exist; create it readable for this user"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("f", []byte(c.yaml), testEnv(nil, nil))
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("want problems, got %v", err)
			}
			if got := err.Error(); got != strings.Join(c.want, "\n") {
				t.Errorf("got:\n%s\nwant:\n%s", got, strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestValues(t *testing.T) {
	env := testEnv(map[string]string{"DIR": "/var/lib/rt", "PORT": "9094", "EMPTY": ""}, map[string]string{"/run/pw": "s3cret\n"})
	cfg, err := Parse("f", []byte(`
node: {id: 7, data_dir: "${DIR}/a$${b}", rack: "${NONE:-az-b}${EMPTY:-}", min_free_bytes: 1.5GiB, memory_limit: 0, shutdown_timeout: 1h30m}
listen: {kafka: "127.0.0.1:${PORT}", http: ""}
log: &log
  num.partitions: 4
  retention.ms: 7d
  retention.bytes: 128 MB
logging:
`), env)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(cfg.Node.ID, cfg.Node.DataDir, cfg.Node.Rack, int64(cfg.Node.MinFreeBytes), int64(cfg.Node.MemoryLimit), cfg.Node.ShutdownTimeout,
		cfg.Listen.Kafka.Port(), cfg.Listen.Kafka.Host(), string(cfg.Listen.HTTP), cfg.Log.NumPartitions, int64(cfg.Log.RetentionMs), int64(cfg.Log.RetentionBytes), cfg.Logging.Level)
	if want := "7 /var/lib/rt/a${b} az-b 1610612736 0 1h30m0s 9094 127.0.0.1  4 604800000 128000000 info\n"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if cfg.Line("log.retention.ms") != 6 {
		t.Errorf("retention.ms is on line %d", cfg.Line("log.retention.ms"))
	}
}

func TestParseDurations(t *testing.T) {
	for text, want := range map[string]string{"1w2d3h": "219h0m0s", "0d": "0s", "0s": "0s", "1.5d": "36h0m0s", "250ms": "250ms"} {
		if d, err := ParseDuration(text); err != nil || d.String() != want {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "d", "1", "xd", "1d1d", "999999999w"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q is accepted as %v", text, d)
		}
	}
}

func TestSizesRoundTrip(t *testing.T) {
	for _, n := range []Size{-1, 0, 1, 1000, 1024, 1536, 1 << 20, 3 << 30, 5 << 40, 1<<20 + 1} {
		var back Size
		if err := back.parse(n.String()); err != nil || back != n {
			t.Errorf("%d writes %s reads %d, %v", int64(n), n, int64(back), err)
		}
	}
}

func TestPropertiesKeepText(t *testing.T) {
	d := &decoder{file: "f", env: testEnv(nil, map[string]string{"/pw": "from-file\n"}), lines: map[string]int{}}
	body, ok := d.parse([]byte(`
poll.interval.ms: 500
ratio: 1.50
tombstones.on.delete: false
quoted: "true"
table.include.list: [public.a, 'public\.b$']
database.password: file:/pw
database.hostname: file:/pw
`))
	if !ok {
		t.Fatal(d.problems)
	}
	var p Properties
	d.properties(body, "c", &p)
	if len(d.problems) > 0 {
		t.Fatal(d.problems)
	}
	want := map[string]string{"poll.interval.ms": "500", "ratio": "1.50", "tombstones.on.delete": "false", "quoted": "true",
		"table.include.list": `public.a,public\.b$`, "database.password": "from-file", "database.hostname": "file:/pw"}
	for name, value := range want {
		if p.values[name] != value {
			t.Errorf("%s = %q, want %q", name, p.values[name], value)
		}
	}
	if p.lines["quoted"] != 5 {
		t.Errorf("quoted is on line %d", p.lines["quoted"])
	}
}

func TestSecretsNeverShow(t *testing.T) {
	p := Properties{values: map[string]string{
		"database.dsn": "postgres://u:hunter2@h/d", "database.password": "hunter2", "dsn": "password=hunter2",
		"column.mask.hash.SHA-256.with.salt.x": "hunter2", "topic.prefix": "shop"}}
	c := Connector{Name: "shop", Config: p}
	encoded, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "p", p, "c", c)
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "p", p, "c", c)
	for _, shown := range []string{string(encoded), logged.String(), fmt.Sprintf("%v %+v %#v %s %q", p, c, c, c, &c), p.String()} {
		if strings.Contains(shown, "hunter2") {
			t.Errorf("shows the secret: %s", shown)
		}
		if !strings.Contains(shown, "shop") {
			t.Errorf("hides what is no secret: %s", shown)
		}
	}
	if p.Values()["dsn"] != "password=hunter2" {
		t.Error("Values must give the real value")
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"minimal.yaml", "broker.yaml", "full.yaml", "shop.yaml"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("a: &x [*x]\nnode: *x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Parse("f", data, testEnv(nil, nil))
		if cfg == nil {
			t.Fatalf("no config, error %v", err)
		}
		var problems Problems
		if err != nil && (!errors.As(err, &problems) || len(problems) == 0) {
			t.Fatalf("not problems: %v", err)
		}
	})
}
