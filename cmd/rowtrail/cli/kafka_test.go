package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// fakeCluster has a topic "orders" of two partitions: records 0..11 in partition 0 with a committed transaction at the
// end, and one aborted record in partition 1.
func fakeCluster(t *testing.T) string {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	address := cluster.ListenAddrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.TransactionalID("tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	produce := func(partition int32, commit kgo.TransactionEndTry, from, to int) {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for i := from; i < to; i++ {
			position := event.Position{Commit: 1<<32 + uint64(i), Order: 1, CollectionOrder: 1, CommitTime: 1_700_000_000_000_000}
			r := &kgo.Record{Topic: "orders", Partition: partition, Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)*1000),
				Key: fmt.Appendf(nil, `{"id":%d}`, i), Value: fmt.Appendf(nil, `{"n":%d}`, i),
				Headers: []kgo.RecordHeader{{Key: event.PositionHeader, Value: position.Append(nil)}, {Key: "h", Value: []byte("v")}}}
			if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.EndTransaction(ctx, commit); err != nil {
			t.Fatal(err)
		}
	}
	produce(0, kgo.TryCommit, 0, 12)
	produce(1, kgo.TryAbort, 0, 1)
	var offsets kadm.Offsets
	offsets.AddOffset("orders", 0, 5, -1)
	if err := kadm.NewClient(client).CommitAllOffsets(ctx, "readers", offsets); err != nil {
		t.Fatal(err)
	}
	return address
}

func lines(out string) []string { return strings.Split(strings.TrimSuffix(out, "\n"), "\n") }

func TestTail(t *testing.T) {
	server := fakeCluster(t)
	for _, c := range []struct {
		flags string
		want  []int64 // offsets
	}{
		{"", []int64{2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}, // a commit marker follows
		{"--from beginning", []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{"--from beginning --max 2", []int64{0, 1}},
		{"--from 10", []int64{10, 11}},
		{"--from=-3", []int64{9, 10, 11}},
		{"--from=-12", []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{"--from=-9223372036854775807 --max 1", []int64{0}},
		{"--from end", nil},
		{"--from 2023-11-14T22:13:28Z", []int64{8, 9, 10, 11}},
		{"--partition 1", nil},
		{"--follow --from 9 --max 3", []int64{9, 10, 11}},
	} {
		code, out, errs := runCLI(t, append([]string{"tail", "orders", "--server", server, "-o", "json"}, strings.Fields(c.flags)...)...)
		var got []int64
		if out != "" {
			for _, line := range lines(out) {
				var r recordLine
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatalf("%s: %v in %s", c.flags, err, line)
				}
				got = append(got, r.Offset)
			}
		}
		if code != ExitOK || errs != "" || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("tail %s: exit %d, %v, %s", c.flags, code, got, errs)
		}
	}
	_, out, _ := runCLI(t, "tail", "orders", "--server", server, "-o", "json", "--from", "0", "--max", "1")
	want := `{"topic":"orders","partition":0,"offset":0,"timestamp":"2023-11-14T22:13:20Z","key":{"id":0},"value":{"n":0},` +
		`"headers":[{"key":"h","value":"v"}],"position":{"commit":"1/0","commitTime":"2023-11-14T22:13:20Z","order":1}}` + "\n"
	if out != want {
		t.Errorf("got  %swant %s", out, want)
	}
	_, out, _ = runCLI(t, "tail", "orders", "--server", server, "--from", "0", "--max", "1")
	want = "OFFSET       TIME                        KEY VALUE\n0@0          2023-11-14T22:13:20Z        {\"id\":0} {\"n\":0}\n"
	if out != want {
		t.Errorf("got  %swant %s", out, want)
	}
	if code, _, errs := runCLI(t, "tail", "nope", "--server", server); code != ExitNotFound || errs != "rowtrail: topic \"nope\" does not exist; `rowtrail topics` lists them\n" {
		t.Errorf("exit %d, %s", code, errs)
	}
	if code, _, errs := runCLI(t, "tail", "orders", "--partition", "7", "--server", server); code != ExitNotFound || errs != "rowtrail: topic orders has no partition 7; it has 2\n" {
		t.Errorf("exit %d, %s", code, errs)
	}
	if code, _, errs := runCLI(t, "tail", "orders", "--from", "noon", "--server", server); code != ExitUsage {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// TestTailCountsRecords: with a marker after each record, and aborted ones between, the last records lie further back than
// their number of offsets.
func TestTailCountsRecords(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "one"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	server := cluster.ListenAddrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(server), kgo.TransactionalID("tx"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	const transactions = 60
	var committed []int64
	for i := range transactions {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		r := &kgo.Record{Topic: "one", Value: []byte("1")}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		commit := kgo.TransactionEndTry(i%4 == 0)
		if err := client.EndTransaction(ctx, commit); err != nil {
			t.Fatal(err)
		}
		if commit {
			committed = append(committed, r.Offset)
		}
	}
	for _, n := range []int{1, 4, 10, len(committed), len(committed) + 5} {
		_, out, errs := runCLI(t, "tail", "one", "--server", server, "-o", "json", fmt.Sprintf("--from=-%d", n))
		var got []int64
		for _, line := range lines(out) {
			var r recordLine
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("-%d: %v in %s%s", n, err, line, errs)
			}
			got = append(got, r.Offset)
		}
		if want := committed[max(0, len(committed)-n):]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("-%d: got %v, want %v", n, got, want)
		}
	}
}

func TestTopicsAndGroups(t *testing.T) {
	server := fakeCluster(t)
	_, out, _ := runCLI(t, "topics", "--server", server)
	if got := strings.Fields(out); len(got) < 6 || got[2] != "OFFSETS" || got[3] != "orders" || got[4] != "2" || got[5] != "15" {
		t.Errorf("topics: %s", out)
	}
	var topic topicLine
	_, out, _ = runCLI(t, "topics", "orders", "--server", server, "-o", "json")
	if err := json.Unmarshal([]byte(out), &topic); err != nil {
		t.Fatal(err)
	}
	if p := topic.Partitions; len(p) != 2 || p[0].End != 13 || p[0].LastStable != 13 || p[1].End != 2 || topic.Config["cleanup.policy"] == "" {
		t.Errorf("topics orders: %s", out)
	}
	if code, _, _ := runCLI(t, "topics", "nope", "--server", server); code != ExitNotFound {
		t.Errorf("exit %d", code)
	}
	var group groupLine
	_, out, _ = runCLI(t, "groups", "readers", "--server", server, "-o", "json")
	if err := json.Unmarshal([]byte(out), &group); err != nil {
		t.Fatal(err)
	}
	if len(group.Offsets) != 2 || group.Lag != 10 || group.Offsets[0].Committed != 5 || group.Offsets[0].End != 13 {
		t.Errorf("groups readers: %s", out)
	}
	if _, out, _ := runCLI(t, "groups", "--server", server); !strings.Contains(out, "readers") {
		t.Errorf("groups: %s", out)
	}
	if code, _, errs := runCLI(t, "groups", "nope", "--server", server); code != ExitNotFound || errs != "rowtrail: group \"nope\" does not exist; `rowtrail groups` lists them\n" {
		t.Errorf("exit %d, %s", code, errs)
	}
}
