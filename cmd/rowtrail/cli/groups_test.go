package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupNode is a node with a topic "orders" of two partitions, with ten records in the first one minute apart from noon on,
// and offset 5 of it committed by the group "readers".
func groupNode(t *testing.T) (*node, *kgo.Client) {
	t.Helper()
	n := serveNode(t, t.TempDir(), "")
	client, err := kgo.NewClient(kgo.SeedBrokers(n.Kafka), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	adm := kadm.NewClient(client)
	for _, topic := range []string{"orders", "customers"} {
		if _, err := adm.CreateTopic(t.Context(), 2, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for i := range 10 {
		r := &kgo.Record{Topic: "orders", Timestamp: noon.Add(time.Duration(i) * time.Minute), Value: []byte("v")}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var offsets kadm.Offsets
	offsets.AddOffset("orders", 0, 5, -1)
	if err := adm.CommitAllOffsets(t.Context(), "readers", offsets); err != nil {
		t.Fatal(err)
	}
	return n, client
}

func TestGroupsReset(t *testing.T) {
	n, client := groupNode(t)
	file := filepath.Join(t.TempDir(), "offsets.csv")
	if err := os.WriteFile(file, []byte("orders,0,3\n\"orders\", 1, 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	committed := func() string {
		got, err := kadm.NewClient(client).FetchOffsets(t.Context(), "readers")
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, o := range got.Sorted() {
			fmt.Fprintf(&b, "%s-%d:%d ", o.Topic, o.Partition, o.At)
		}
		return strings.TrimSpace(b.String())
	}
	for _, c := range []struct {
		flags string
		want  string // what is printed as new
		after string // what is committed then
	}{
		{"--topic orders --to-earliest", "orders-0:0 orders-1:0", "orders-0:5"},
		{"--topic orders:0 --to-latest --dry-run", "orders-0:10", "orders-0:5"},
		{"--topic orders:0 --shift-by 2 --execute", "orders-0:7", "orders-0:7"},
		{"--all-topics --shift-by=-3 --execute", "orders-0:4", "orders-0:4"},
		{"--topic orders:0 --shift-by=-100 --execute", "orders-0:0 (-96 is before the start)", "orders-0:0"},
		{"--topic orders:0 --shift-by 9223372036854775807", "orders-0:10 (9223372036854775807 is behind the end)", "orders-0:0"},
		{"--topic orders:0 --to-offset 11 --execute", "orders-0:10 (11 is behind the end)", "orders-0:10"},
		{"--topic orders:0 --to-datetime 2026-01-31T12:02:30Z --execute", "orders-0:3", "orders-0:3"},
		{"--topic orders:0 --to-datetime 2026-01-31T13:00:00Z", "orders-0:10", "orders-0:3"},
		{"--topic orders:0 --by-duration PT1M", "orders-0:10", "orders-0:3"},
		{"--topic orders:0 --by-duration P9999D", "orders-0:0", "orders-0:3"},
		{"--topic orders --to-current --execute", "orders-0:3 orders-1:0 (nothing is committed: the end)", "orders-0:3 orders-1:0"},
		{"--from-file " + file + " --execute", "orders-0:3 orders-1:0 (7 is behind the end)", "orders-0:3 orders-1:0"},
	} {
		code, out, errs := runCLI(t, append([]string{"groups", "reset", "readers", "--server", n.Kafka, "-o", "json"}, strings.Fields(c.flags)...)...)
		var report resetReport
		if err := json.Unmarshal([]byte(out), &report); err != nil || code != ExitOK {
			t.Fatalf("%s: exit %d, %v, %s%s", c.flags, code, err, out, errs)
		}
		var b strings.Builder
		for _, l := range report.Offsets {
			fmt.Fprintf(&b, "%s-%d:%d ", l.Topic, l.Partition, l.New)
			if l.Note != "" {
				fmt.Fprintf(&b, "(%s) ", l.Note)
			}
		}
		if got := strings.TrimSpace(b.String()); got != c.want || report.Executed != strings.Contains(c.flags, "--execute") {
			t.Errorf("%s: got %s, executed %v; want %s", c.flags, got, report.Executed, c.want)
		}
		if got := committed(); got != c.after {
			t.Errorf("%s: committed is %s, want %s", c.flags, got, c.after)
		}
	}
	// A new group may be given offsets before its first member comes.
	if code, out, errs := runCLI(t, "groups", "reset", "fresh", "--topic", "orders:0", "--to-offset", "4", "--execute", "--server", n.Kafka); code != ExitOK ||
		out != "TOPIC   PARTITION  COMMITTED  NEW  NOTE\norders  0          -1         4    -\n" || errs != "" {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func TestGroupsResetRefuses(t *testing.T) {
	n, _ := groupNode(t)
	bad := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(bad, []byte("orders,0,three\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags string
		code  int
		want  string
	}{
		{"readers --topic orders", ExitUsage, "groups reset: give exactly one of --to-earliest"},
		{"readers --topic orders --to-earliest --to-latest", ExitUsage, "groups reset: give exactly one of --to-earliest"},
		{"readers --to-earliest", ExitUsage, "say which offsets: --topic"},
		{"readers --topic orders --all-topics --to-earliest", ExitUsage, "exclude each other"},
		{"readers --topic orders --to-earliest --execute --dry-run", ExitUsage, "exclude each other"},
		{"readers --topic orders:x --to-earliest", ExitUsage, `"x" is no partition; write TOPIC or TOPIC:0,2`},
		{"readers --topic orders --topic orders:0 --to-earliest", ExitUsage, "names orders twice"},
		{"readers --topic orders --to-datetime soon", ExitUsage, `--to-datetime "soon" is not a time`},
		{"readers --topic orders --by-duration PT", ExitUsage, `--by-duration "PT" is not a span of time`},
		{"readers --from-file " + bad, ExitUsage, "record 1: "},
		{"readers --from-file /no/such", ExitUsage, "no such file"},
		{"readers --topic nope --to-earliest", ExitNotFound, `topic "nope" does not exist`},
		{"readers --topic orders:2 --to-earliest", ExitNotFound, "topic orders has no partition 2; it has 2"},
		{"nobody --all-topics --to-earliest", ExitNotFound, `group "nobody" does not exist`},
		{"readers --topic orders --shift-by 1", ExitError, "orders-1 has no committed offset to shift"},
	} {
		code, out, errs := runCLI(t, append([]string{"groups", "reset", "--server", n.Kafka}, strings.Fields(c.flags)...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %s%s", c.flags, code, out, errs)
		}
	}
}

// A group with members is described with them; its offsets are not moved and it is not deleted before they are gone.
func TestGroupsWithMembers(t *testing.T) {
	t.Run("classic", func(t *testing.T) { groupsWithMembers(t) })
	t.Run("consumer", func(t *testing.T) { groupsWithMembers(t, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer())) })
}

func groupsWithMembers(t *testing.T, opts ...kgo.Opt) {
	n, _ := groupNode(t)
	member, err := kgo.NewClient(append(opts, kgo.SeedBrokers(n.Kafka), kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("orders"), kgo.ClientID("me"), kgo.DisableAutoCommit())...)
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if fs := member.PollFetches(ctx); fs.NumRecords() != 5 {
		t.Fatalf("%d records, %v", fs.NumRecords(), fs.Err())
	}
	var line groupLine
	_, out, _ := runCLI(t, "groups", "describe", "readers", "--server", n.Kafka, "-o", "json")
	if err := json.Unmarshal([]byte(out), &line); err != nil {
		t.Fatal(err)
	}
	if _, list, _ := runCLI(t, "groups", "--server", n.Kafka); !strings.HasSuffix(list, "readers  Stable  1        2           5    -\n") {
		t.Errorf("list: %s", list)
	}
	if line.Offsets[0].Member != "me" || line.Offsets[0].Committed != 5 || line.Offsets[1].Committed != -1 || line.Offsets[1].Lag != 0 {
		t.Errorf("offsets: %s", out)
	}
	if line.State != "Stable" || line.Members != 1 || line.Lag != 5 || len(line.Assigned) != 1 || line.Assigned[0].Client != "me" ||
		line.Assigned[0].Host != "127.0.0.1" || fmt.Sprint(line.Assigned[0].Reads) != "map[orders:[0 1]]" {
		t.Errorf("describe: %s", out)
	}
	if _, out, _ := runCLI(t, "groups", "describe", "readers", "--server", n.Kafka); !strings.Contains(out, "127.0.0.1  orders:0,1\n") {
		t.Errorf("describe: %s", out)
	}
	for _, c := range []struct{ command, want string }{
		{"reset readers --topic orders --to-earliest --execute", "rowtrail: group readers has members (it is Stable); stop them first, because their commits would win\n"},
		{"delete readers", "rowtrail: group readers is in use: stop its members, and end transactions that commit its offsets\n"},
		{"delete-offsets readers --topic orders:0", "rowtrail: 1 of 1 offsets were not deleted\n"},
	} {
		if code, _, errs := runCLI(t, append([]string{"groups", "--server", n.Kafka}, strings.Fields(c.command)...)...); code != ExitError || errs != c.want {
			t.Errorf("%s: exit %d, %s", c.command, code, errs)
		}
	}
	if code, _, errs := runCLI(t, "groups", "delete-offsets", "readers", "--topic", "customers", "--server", n.Kafka); code != ExitOK {
		t.Errorf("exit %d, %s", code, errs)
	}
	member.Close()
	if code, out, errs := runCLI(t, "groups", "delete-offsets", "readers", "--topic", "orders", "--server", n.Kafka, "-o", "json"); code != ExitOK ||
		out != `{"group":"readers","offsets":[{"topic":"orders","partition":0},{"topic":"orders","partition":1}]}`+"\n" {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	if code, out, errs := runCLI(t, "groups", "delete", "readers", "--server", n.Kafka); code != ExitOK || out != "deleted group readers\n" {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	if code, _, errs := runCLI(t, "groups", "delete", "readers", "--server", n.Kafka); code != ExitNotFound ||
		errs != "rowtrail: group \"readers\" does not exist; `rowtrail groups` lists them\n" {
		t.Errorf("exit %d, %s", code, errs)
	}
}
