package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// topicsNode runs commands against a node that has the topics of groupNode.
func topicsCommands(t *testing.T) func(command string) (int, string, string) {
	n, _ := groupNode(t)
	return func(command string) (int, string, string) {
		t.Helper()
		return runCLI(t, append([]string{"topics", "--server", n.Kafka}, strings.Fields(command)...)...)
	}
}

func describeTopic(t *testing.T, run func(string) (int, string, string), topic string) (line topicLine) {
	t.Helper()
	code, out, errs := run("describe " + topic + " -o json")
	if code != ExitOK {
		t.Fatalf("describe %s: exit %d, %s", topic, code, errs)
	}
	if err := json.Unmarshal([]byte(out), &line); err != nil {
		t.Fatal(err)
	}
	return line
}

func TestTopicsCreateAndDelete(t *testing.T) {
	run := topicsCommands(t)
	for _, c := range []struct {
		command string
		code    int
		out     string
		errs    string
	}{
		{"create new --dry-run --partitions 3", ExitOK, "topic new would be created with 3 partitions\n", ""},
		{"describe new", ExitNotFound, "", "rowtrail: topic \"new\" does not exist; `rowtrail topics` lists them\n"},
		{"create new --partitions 3 --config cleanup.policy=compact --config retention.ms=5", ExitOK, "created topic new with 3 partitions\n", ""},
		{"create new", ExitError, "", "rowtrail: topic new exists already; `rowtrail topics alter` changes it\n"},
		{"create new --if-not-exists --partitions 7", ExitOK, "topic new exists already, with 3 partitions\n", ""},
		{"create one -o json", ExitOK, `{"topic":"one","created":true,"partitions":1,"replicationFactor":1}` + "\n", ""},
		{"create two --replication-factor 3", ExitError, "", "rowtrail: create topic two: replication factor 3: this cluster has 1 broker; ask for -1 or 1\n"},
		{"create o_ne.x --config no.such=1", ExitError, "", "rowtrail: create topic o_ne.x: unknown topic configuration \"no.such\"\n"},
		{"create a/b", ExitError, "", "rowtrail: create topic a/b: create topic \"a/b\": use only letters, digits, '.', '_' and '-': invalid topic name\n"},
		{"delete new", ExitOK, "deleted topic new\n", ""},
		{"delete new", ExitNotFound, "", "rowtrail: topic \"new\" does not exist; `rowtrail topics` lists them\n"},
		{"delete one -o json", ExitOK, `{"deleted":"one"}` + "\n", ""},
		{"delete __consumer_offsets", ExitError, "", "rowtrail: delete topic __consumer_offsets: topic __consumer_offsets holds the broker's own state\n"},
	} {
		if code, out, errs := run(c.command); code != c.code || out != c.out || errs != c.errs {
			t.Errorf("%s: exit %d\n%s%s", c.command, code, out, errs)
		}
		if strings.HasPrefix(c.command, "create new --partitions") {
			if l := describeTopic(t, run, "new"); len(l.Partitions) != 3 || l.Config["cleanup.policy"] != "compact" || l.Config["retention.ms"] != "5" {
				t.Errorf("created: %+v", l)
			}
		}
	}
}

func TestTopicsAlter(t *testing.T) {
	run := topicsCommands(t)
	for _, c := range []struct {
		command string
		code    int
		out     string
		errs    string
		want    string // partitions, retention.ms and retention.bytes afterwards
	}{
		{"alter orders --config retention.ms=1000000000 --config retention.bytes=7000000 --dry-run", ExitOK, "topic orders would be altered\n", "", "2 -1 -1"},
		{"alter orders --config retention.ms=1000000000 --config retention.bytes=7000000", ExitOK, "altered topic orders\n", "", "2 1000000000 7000000"},
		{"alter orders --remove-config retention.ms --partitions 4", ExitOK, "altered topic orders\n", "", "4 -1 7000000"},
		{"alter orders --remove-config retention.bytes --partitions 3", ExitError, "", "rowtrail: topic orders has 4 partitions; ask for more, or leave --partitions out\n", "4 -1 7000000"},
		{"alter orders --remove-config retention.bytes --partitions 20000", ExitError, "", "choose 5 to 10000", "4 -1 7000000"}, // nothing is half done
		{"alter orders --config retention.ms=soon", ExitError, "", "rowtrail: alter topic orders: invalid value \"soon\" for retention.ms: it must be an integer of at least -1\n", "4 -1 7000000"},
		{"alter orders --remove-config retention.bytes -o json", ExitOK, `{"altered":true,"topic":"orders"}` + "\n", "", "4 -1 -1"},
		{"alter nope --partitions 3", ExitNotFound, "", "rowtrail: topic \"nope\" does not exist; `rowtrail topics` lists them\n", "4 -1 -1"},
	} {
		if code, out, errs := run(c.command); code != c.code || out != c.out || !strings.Contains(errs, c.errs) || c.errs == "" && errs != "" {
			t.Errorf("%s: exit %d\n%s%s", c.command, code, out, errs)
		}
		l := describeTopic(t, run, "orders")
		if got := fmt.Sprint(len(l.Partitions), " ", l.Config["retention.ms"], " ", l.Config["retention.bytes"]); got != c.want {
			t.Errorf("%s: the topic is %s, want %s", c.command, got, c.want)
		}
	}
}

func TestTopicsDeleteRecords(t *testing.T) {
	n, client := groupNode(t)
	start := func() int64 {
		t.Helper()
		s, err := kadm.NewClient(client).ListStartOffsets(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		o, _ := s.Lookup("orders", 0)
		return o.Offset
	}
	for _, c := range []struct {
		command string
		code    int
		plan    string
		errs    string
		want    int64
	}{
		{"orders --before 3", ExitOK, "false 0:0-3 1:0-0", "add --execute", 0},
		{"orders --before 3 --execute", ExitOK, "true 0:0-3 1:0-0", "", 3},
		{"orders:0 --before 2026-01-31T12:04:30Z --execute", ExitOK, "true 0:3-5", "", 5},
		{"orders:0 --before 2 --execute", ExitOK, "true 0:5-5", "", 5}, // nothing comes back
		{"orders:0 --before 100", ExitOK, "false 0:5-10", "add --execute", 5},
		{"orders --before end --execute", ExitOK, "true 0:5-10 1:0-0", "", 10},
		{"orders:2 --before end", ExitNotFound, "", "topic orders has no partition 2; it has 2", 10},
		{"nope --before end", ExitNotFound, "", `topic "nope" does not exist`, 10},
		{"orders --before=-7d", ExitOK, "false 0:10-10 1:0-0", "add --execute", 10},
		{"orders --before soon", ExitUsage, "", `--before "soon" is no point`, 10},
		{"orders --before=-3", ExitUsage, "", `--before "-3" is no point`, 10},
		{"orders", ExitUsage, "", "say up to where: --before POINT", 10},
		{"orders --before 1 --execute --dry-run", ExitUsage, "", "exclude each other", 10},
	} {
		run := append([]string{"topics", "delete-records", "--server", n.Kafka, "-o", "json"}, strings.Fields(c.command)...)
		code, out, errs := runCLI(t, run...)
		plan := ""
		if out != "" {
			var r trimReport
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatal(err)
			}
			plan = fmt.Sprint(r.Executed)
			for _, p := range r.Partitions {
				plan += fmt.Sprintf(" %d:%d-%d", p.Partition, p.Start, p.Before)
			}
		}
		if code != c.code || plan != c.plan || c.code != ExitOK && !strings.Contains(errs, c.errs) {
			t.Errorf("%s: exit %d, %q, %s", c.command, code, plan, errs)
		}
		if got := start(); got != c.want {
			t.Errorf("%s: the start is %d, want %d", c.command, got, c.want)
		}
	}
	if code, out, errs := runCLI(t, "topics", "delete-records", "orders:1", "--before", "end", "--server", n.Kafka); code != ExitOK ||
		out != "PARTITION  START  NEW START  ERROR\n1          0      0          -\n" || errs != "nothing was deleted; add --execute to delete what is before the new start\n" {
		t.Errorf("table: exit %d\n%s%s", code, out, errs)
	}
	if code, _, errs := runCLI(t, "topics", "create", "compacted", "--config", "cleanup.policy=compact", "--server", n.Kafka); code != ExitOK {
		t.Fatal(errs)
	}
	for _, how := range []string{"--execute", "--dry-run"} {
		code, out, errs := runCLI(t, "topics", "delete-records", "compacted", "--before", "end", how, "--server", n.Kafka)
		if code != ExitError || out != "" || !strings.Contains(errs, "topic compacted is only compacted: its records go by key") {
			t.Errorf("compacted, %s: exit %d\n%s%s", how, code, out, errs)
		}
	}
}

func TestTopicsWrongCommandLines(t *testing.T) {
	for command, want := range map[string]string{
		"create":                                 "TOPIC is missing",
		"create t --config x":                    `--config "x": write NAME=VALUE`,
		"create t --config x=1 --config x=2":     "--config names x twice",
		"create t --partitions 0":                "--partitions 0: a topic has 1 or more",
		"create t --replication-factor 0":        "--replication-factor 0: a topic has 1 or more",
		"delete":                                 "TOPIC is missing",
		"delete a b":                             "too many arguments",
		"alter t":                                "say what to change",
		"alter t --partitions=-1":                "--partitions -1: a topic has 1 or more",
		"alter t --config a=1 --remove-config a": "a is set and removed at once",
		"delete-records":                         "TOPIC[:PARTITION,...] is missing",
		"delete-records t:x --before end":        `"t:x" is no topic with partitions`,
		"describe":                               "TOPIC is missing",
	} {
		code, out, errs := runCLI(t, append([]string{"topics"}, strings.Fields(command)...)...)
		if code != ExitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("topics %s: exit %d\n%s%s", command, code, out, errs)
		}
	}
}
