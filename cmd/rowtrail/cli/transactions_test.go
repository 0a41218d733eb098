package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker"
	"github.com/rowtrail/rowtrail/log/record"
)

// startNode serves a log without connectors and sinks, and returns its address.
func startNode(t *testing.T) (address string, node *cluster.Node) {
	t.Helper()
	store, err := log.Open(t.TempDir(), log.Options{MinFreeBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	node, err = cluster.Start(t.Context(), cluster.Options{NodeID: 1, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.New(broker.Options{Node: node, AdvertisedHost: "127.0.0.1", AdvertisedPort: int32(l.Addr().(*net.TCPAddr).Port)})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = b.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := b.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := node.Stop(ctx); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), node
}

func producer(t *testing.T, server string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(server)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// runJSON runs a command that must succeed and reads the document that it prints.
func runJSON[T any](t *testing.T, server string, command ...string) (v T) {
	t.Helper()
	code, out, errs := runCLI(t, append([]string{"transactions", "--server", server, "-o", "json"}, command...)...)
	if code != ExitOK || errs != "" {
		t.Fatalf("%v: exit %d, %s", command, code, errs)
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v: %v in %s", command, err, out)
	}
	return v
}

func TestTransactions(t *testing.T) {
	server, _ := startNode(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	admin := kadm.NewClient(producer(t, server))
	if _, err := admin.CreateTopic(ctx, 2, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	write := func(client *kgo.Client) {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	options := []kgo.Opt{kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(*kgo.Record, int) int { return 1 }
	})), kgo.TransactionTimeout(time.Minute)}
	done := producer(t, server, append(options, kgo.TransactionalID("done"))...)
	write(done)
	if err := done.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	open := producer(t, server, append(options, kgo.TransactionalID("open"))...)
	write(open)
	id, epoch, err := open.ProducerID(ctx)
	if err != nil {
		t.Fatal(err)
	}

	ids := func(command ...string) string {
		var list []string
		for _, l := range runJSON[[]transactionLine](t, server, append([]string{"list"}, command...)...) {
			list = append(list, l.ID)
		}
		return strings.Join(list, " ")
	}
	for flags, want := range map[string]string{
		"": "done open", "--state Ongoing": "open", "--state Ongoing,Empty --duration 0s": "open", "--duration 1ns": "open", "--duration 1d": "",
		"--state PrepareAbort": "", fmt.Sprintf("--producer-id %d", id): "open", "--producer-id 4711": "",
	} {
		if got := ids(strings.Fields(flags)...); got != want {
			t.Errorf("list %s: %q, want %q", flags, got, want)
		}
	}
	l := runJSON[transactionLine](t, server, "describe", "open")
	if l.State != "Ongoing" || l.ProducerID != id || l.ProducerEpoch != epoch || l.TimeoutMs != 60_000 || l.Started == nil ||
		fmt.Sprint(l.Partitions) != "[{orders 1}]" {
		t.Errorf("%+v", l)
	}
	_, out, _ := runCLI(t, "transactions", "list", "--server", server)
	if got := lines(out); len(got) != 3 || strings.Join(strings.Fields(got[0]), " ") != "TRANSACTIONAL ID STATE PRODUCER ID EPOCH OPEN FOR PARTITIONS ERROR" ||
		!strings.HasPrefix(strings.Join(strings.Fields(got[2]), " "), fmt.Sprintf("open Ongoing %d %d ", id, epoch)) {
		t.Errorf("list:\n%s", out)
	}
	if _, out, _ := runCLI(t, "transactions", "describe", "open", "--server", server); !strings.Contains(out, "orders-1") || !strings.Contains(out, "open for") {
		t.Errorf("describe:\n%s", out)
	}

	// What a coordinator knows of does not hang.
	if hanging := runJSON[[]hangingLine](t, server, "find-hanging"); len(hanging) != 0 {
		t.Errorf("%+v", hanging)
	}
	code, _, errs := runCLI(t, "transactions", "abort", "orders", "1", "--producer-id", fmt.Sprint(id), "--server", server)
	if code != ExitError || !strings.Contains(errs, "does not hang: it is that of transactional id \"open\"; run `rowtrail transactions abort open`") {
		t.Errorf("exit %d, %s", code, errs)
	}

	code, out, errs = runCLI(t, "transactions", "abort", "open", "--server", server)
	if code != ExitOK || out != "aborted the transaction of transactional id \"open\"\n" {
		t.Fatalf("exit %d, %s%s", code, out, errs)
	}
	if err := open.EndTransaction(ctx, kgo.TryCommit); err == nil {
		t.Error("a fenced producer committed")
	}
	if code, _, errs := runCLI(t, "transactions", "abort", "open", "--server", server); code != ExitError ||
		errs != "rowtrail: transactional id \"open\" has no open transaction: its state is Empty\n" {
		t.Errorf("exit %d, %s", code, errs)
	}
	ends, err := admin.ListCommittedOffsets(ctx, "orders")
	if o, _ := ends.Lookup("orders", 1); err != nil || o.Offset != 4 { // two records and their markers
		t.Errorf("%+v, %v", o, err)
	}
	for command, want := range map[string]string{
		"describe nobody": "rowtrail: transactional id \"nobody\" does not exist; `rowtrail transactions list` lists them\n",
		"abort nobody":    "rowtrail: transactional id \"nobody\" does not exist; `rowtrail transactions list` lists them\n",
		"abort orders 1 --start-offset 0": "rowtrail: no such transaction is open in orders-1; `rowtrail transactions find-hanging orders` shows " +
			"those that are\n",
		"abort orders 7 --start-offset 0": "rowtrail: there is no partition orders-7; `rowtrail topics` lists them\n",
		"find-hanging nope":               "rowtrail: topic \"nope\" does not exist; `rowtrail topics` lists them\n",
	} {
		if code, _, errs := runCLI(t, append(append([]string{"transactions"}, strings.Fields(command)...), "--server", server)...); code != ExitNotFound || errs != want {
			t.Errorf("%s: exit %d, %s", command, code, errs)
		}
	}
}

// A transaction that no coordinator knows of is found, and aborted where it hangs.
func TestHangingTransactions(t *testing.T) {
	server, node := startNode(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	admin := kadm.NewClient(producer(t, server))
	if _, err := admin.CreateTopic(ctx, 2, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	replica, err := node.Replica("orders", 1)
	if err != nil {
		t.Fatal(err)
	}
	// As another broker would have left it: nobody asked the coordinator.
	for id := range int64(2) {
		var b record.Builder
		b.Append(1_700_000_000_000, []byte("k"), []byte("v"))
		done := make(chan error, 1)
		replica.Append(ctx, b.Build(&record.Producer{ID: 4242 + id, Epoch: 3, Transactional: true}), -1,
			func(res cluster.AppendResult) { done <- res.Err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	hanging := runJSON[[]hangingLine](t, server, "find-hanging", "orders")
	want := hangingLine{Topic: "orders", Partition: 1, StartOffset: 0, ProducerID: 4242, ProducerEpoch: 3, CoordinatorEpoch: -1,
		LastWrite: time.UnixMilli(1_700_000_000_000).UTC()}
	if len(hanging) != 2 || hanging[0] != want {
		t.Fatalf("%+v", hanging)
	}
	if _, out, _ := runCLI(t, "transactions", "find-hanging", "--server", server); !strings.Contains(strings.Join(strings.Fields(out), " "),
		"LAST WRITE orders 1 0 4242 3 2023-11-14T22:13:20Z orders 1 1 4243 3") {
		t.Errorf("find-hanging:\n%s", out)
	}
	code, out, errs := runCLI(t, "transactions", "abort", "orders", "1", "--start-offset", "0", "--server", server)
	if code != ExitOK || out != "aborted the transaction at offset 0 of orders-1\n" {
		t.Fatalf("exit %d, %s%s", code, out, errs)
	}
	if m := replica.Log().Marks(); m.LastStable != 1 {
		t.Errorf("%+v", m)
	}
	if l := runJSON[hangingLine](t, server, "abort", "orders", "1", "--producer-id", "4243"); l.StartOffset != 1 {
		t.Errorf("%+v", l)
	}
	if m := replica.Log().Marks(); m.LastStable != m.HighWatermark {
		t.Errorf("%+v", m)
	}
}
