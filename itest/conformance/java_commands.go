package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/rowtrail/rowtrail/itest/process"
)

// step is one command line of Kafka's tools. {broker} in its arguments is the node's address.
type step struct {
	class string // below org.apache.kafka.tools
	args  string
	stdin string
	want  string // a regular expression that the output matches
	fails bool   // a command that has to refuse
}

func commandSteps(dir string) []step {
	return []step{
		{class: "BrokerApiVersionsCommand", args: "--bootstrap-server {broker}", want: `Produce\(0\): 0 to 13 \[usable: 13\]`},
		{class: "ClusterTool", args: "cluster-id --bootstrap-server {broker}", want: `Cluster ID: \S{22}`},
		{class: "FeatureCommand", args: "--bootstrap-server {broker} describe", want: `(?s).*`},
		{class: "TopicCommand", args: "--bootstrap-server {broker} --create --topic orders --partitions 3 --config retention.ms=86400000", want: `Created topic orders\.`},
		{class: "TopicCommand", args: "--bootstrap-server {broker} --create --topic orders", want: `TopicExistsException`, fails: true},
		{class: "TopicCommand", args: "--bootstrap-server {broker} --describe --topic orders", want: `(?s)Topic: orders\s+TopicId: \S{22}\s+PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention\.ms=86400000.*Partition: 2\s+Leader: 1\s+Replicas: 1\s+Isr: 1`},
		{class: "TopicCommand", args: "--bootstrap-server {broker} --alter --topic orders --partitions 4", want: `(?s).*`},
		{class: "TopicCommand", args: "--bootstrap-server {broker} --list", want: `(?m)^orders$`},
		{class: "ConfigCommand", args: "--bootstrap-server {broker} --alter --entity-type topics --entity-name orders --add-config max.message.bytes=2000000", want: `Completed updating config for topic orders`},
		{class: "ConfigCommand", args: "--bootstrap-server {broker} --describe --entity-type topics --entity-name orders", want: `max\.message\.bytes=2000000 sensitive=false`},
		{class: "ConsoleProducer", args: "--bootstrap-server {broker} --topic orders --reader-property parse.key=true --reader-property key.separator=:", stdin: "k1:first\nk1:second\nk2:third\n", want: `(?s).*`},
		{class: "consumer.ConsoleConsumer", args: "--bootstrap-server {broker} --topic orders --from-beginning --max-messages 3 --group printer --formatter-property print.key=true", want: `(?s)k1\tfirst.*k1\tsecond|k2\tthird`},
		{class: "ProducerPerformance", args: "--topic orders --num-records 5000 --record-size 200 --throughput -1 --bootstrap-server {broker} --command-property compression.type=lz4", want: `5000 records sent`},
		{class: "ConsumerPerformance", args: "--bootstrap-server {broker} --topic orders --num-records 5003 --group perf", want: `, 5003, `},
		{class: "GetOffsetShell", args: "--bootstrap-server {broker} --topic orders --time latest", want: `(?m)^orders:3:\d+$`},
		{class: "consumer.group.ConsumerGroupCommand", args: "--bootstrap-server {broker} --list", want: `(?m)^printer$`},
		{class: "consumer.group.ConsumerGroupCommand", args: "--bootstrap-server {broker} --describe --group perf", want: `(?m)^perf\s+orders\s+\d\s+(\d+)\s+\d+\s+0\s`},
		{class: "consumer.group.ConsumerGroupCommand", args: "--bootstrap-server {broker} --group perf --topic orders --reset-offsets --to-earliest --execute", want: `(?m)^perf\s+orders\s+\d\s+0\s*$`},
		{class: "consumer.group.ConsumerGroupCommand", args: "--bootstrap-server {broker} --delete --group printer", want: `Deletion of requested consumer groups \('printer'\) was successful`},
		{class: "GroupsCommand", args: "--bootstrap-server {broker} --list", want: `(?m)^perf\s+Classic\s+consumer`},
		{class: "TransactionsCommand", args: "--bootstrap-server {broker} list", want: `TransactionalId\s+Coordinator\s+ProducerId\s+TransactionState`},
		{class: "TransactionsCommand", args: "--bootstrap-server {broker} describe-producers --topic orders --partition 0", want: `ProducerId\s+ProducerEpoch`},
		{class: "DeleteRecordsCommand", args: "--bootstrap-server {broker} --offset-json-file " + filepath.Join(dir, "delete.json"), want: `partition: orders-0\s+low_watermark: 1`},
		{class: "GetOffsetShell", args: "--bootstrap-server {broker} --topic-partitions orders:0 --time earliest", want: `(?m)^orders:0:1$`},
		{class: "LogDirsCommand", args: "--bootstrap-server {broker} --describe --topic-list orders", want: `"partition":"orders-0","size":\d+`},
		{class: "LeaderElectionCommand", args: "--bootstrap-server {broker} --election-type preferred --topic orders --partition 0", want: `(?i)valid replica already elected|Successfully completed`},
		{class: "reassign.ReassignPartitionsCommand", args: "--bootstrap-server {broker} --list", want: `No partition reassignments found`},
		{class: "TopicCommand", args: "--bootstrap-server {broker} --delete --topic orders", want: `(?s).*`},
		{class: "TopicCommand", args: "--bootstrap-server {broker} --describe --topic orders", want: `Topic 'orders' does not exist as expected`, fails: true},
	}
}

// commands runs Kafka's command-line tools one after the other, as an operator does.
func (j *java) commands(ctx context.Context, env *Env, r *Result) error {
	node, err := env.Node(ctx, process.Config{})
	if err != nil {
		return err
	}
	records := `{"partitions": [{"topic": "orders", "partition": 0, "offset": 1}], "version": 1}`
	if err := os.WriteFile(filepath.Join(env.Dir, "delete.json"), []byte(records), 0o644); err != nil {
		return err
	}
	var errs []error
	for _, s := range commandSteps(env.Dir) {
		if err := j.step(ctx, env, node, s); err != nil {
			r.Failed++
			errs = append(errs, err)
			continue
		}
		r.Passes()
	}
	return errors.Join(errs...)
}

func (j *java) step(ctx context.Context, env *Env, node *process.Rowtrail, s step) error {
	argv := j.command(nil, "org.apache.kafka.tools."+s.class, strings.Fields(strings.ReplaceAll(s.args, "{broker}", node.Kafka))...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdin = env.Dir, strings.NewReader(s.stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if (err != nil) != s.fails {
		return fmt.Errorf("%s %s: error %w; it printed:\n%s", s.class, s.args, err, out)
	}
	if !regexp.MustCompile(s.want).Match(out) {
		return fmt.Errorf("%s %s: its output does not match %q:\n%s", s.class, s.args, s.want, out)
	}
	return nil
}
