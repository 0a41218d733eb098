package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/toolchain"
)

// javaProject is the Maven project of the Java judges.
const javaProject = "itest/clients/java"

func javaTools() []Tool {
	return []Tool{{"javac", []string{"default-jdk-headless"}}, {"mvn", []string{"maven"}}}
}

// javaPins are the versions that the project's pom.xml fixes.
type javaPins struct {
	Kafka string `xml:"properties>kafka.version"`
}

func readJavaPins(root string) (javaPins, error) {
	var pins javaPins
	pom, err := os.ReadFile(filepath.Join(root, javaProject, "pom.xml"))
	if err != nil {
		return pins, fmt.Errorf("run this in the repository's root: %w", err)
	}
	if err := xml.Unmarshal(pom, &pins); err != nil {
		return pins, fmt.Errorf("%s/pom.xml: %w", javaProject, err)
	}
	return pins, nil
}

// classPath has the project's classes and the jars they need.
func (j *java) classPath() string {
	return filepath.Join(j.dir, "classes") + ":" + filepath.Join(j.dir, "lib", "*")
}

// java is the family's state: its project is compiled once per run.
type java struct {
	root    string
	version string
	once    sync.Once
	dir     string // classes and jars
	err     error
}

func javaSuites(root string) ([]Suite, error) {
	pins, err := readJavaPins(root)
	if err != nil {
		return nil, err
	}
	j := &java{root: root, version: pins.Kafka}
	clients, streams, tools := "kafka-clients "+pins.Kafka, "kafka-streams "+pins.Kafka, "kafka-tools "+pins.Kafka
	suites := []Suite{
		{Name: "java/produce", Client: clients, Judges: "codecs, acks, headers, idempotence, limits, timestamps", Run: j.tests("ProduceTest")},
		{Name: "java/consume", Client: clients, Judges: "seeks, offsets of times, pauses, commits, resets", Run: j.tests("ConsumeTest")},
		{Name: "java/groups", Client: clients, Judges: "classic groups: sharing, cooperative and static members", Run: j.tests("GroupTest")},
		{Name: "java/consumer-protocol", Client: clients, Judges: "the same groups with group.protocol=consumer (KIP-848)", Run: j.tests("ConsumerProtocolTest")},
		{Name: "java/transactions", Client: clients, Judges: "isolation, fencing, timeouts, offsets in transactions, abort by an operator", Run: j.tests("TransactionTest")},
		{Name: "java/admin", Client: clients, Judges: "topics, settings, records, offsets, groups, cluster", Run: j.tests("AdminTopicsTest", "AdminGroupsTest", "AdminClusterTest")},
		{Name: "java/compaction", Client: clients, Judges: "last values, offsets, tombstones and aborted records of compacted topics", Run: j.tests("CompactionTest")},
		{Name: "java/verifiable", Client: tools, Judges: "VerifiableProducer and VerifiableConsumer over SIGKILLs of the node", Run: j.verifiable},
		{Name: "java/copier", Client: tools, Judges: "TransactionalMessageCopier, it and the node killed: exactly once", Run: j.copier},
		{Name: "java/streams", Client: streams, Judges: "count and joins with exactly_once_v2, killed and restarted, against a plain computation", Run: j.streams},
		{Name: "java/commands", Client: tools, Judges: "kafka-topics, kafka-configs, kafka-consumer-groups and others as a user runs them", Run: j.commands},
		{Name: "java/kafka-as-log", Client: "kafka_2.13 " + pins.Kafka, Judges: "Apache Kafka itself as the log (log.kafka) of a connector and a sink over SIGKILLs of the node", Run: j.kafkaAsLog},
	}
	for i := range suites {
		suites[i].Tools, suites[i].Build = javaTools(), j.build
	}
	return suites, nil
}

// build compiles the project and copies the jars it needs, once; not again while neither pom.xml nor a source changed.
func (j *java) build(ctx context.Context, env *Env) error {
	j.once.Do(func() {
		j.dir = filepath.Join(env.Cache, "java")
		if j.err = toolchain.BuildMaven(ctx, filepath.Join(j.root, javaProject), j.dir); j.err != nil {
			j.err = fmt.Errorf("build %s: %w", javaProject, j.err)
		}
	})
	return j.err
}

// command is the command line that runs a class of the project or of its jars.
func (j *java) command(properties []string, class string, more ...string) []string {
	args := []string{
		"java",
		// Short-lived programs beside a broker on few cores.
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-cp", j.classPath(),
	}
	for _, p := range properties {
		args = append(args, "-D"+p)
	}
	return append(append(args, class), more...)
}

// tests runs JUnit classes against a node of their own.
func (j *java) tests(classes ...string) func(context.Context, *Env, *Result) error {
	return func(ctx context.Context, env *Env, r *Result) error {
		node, err := env.Node(ctx, process.Config{})
		if err != nil {
			return err
		}
		r.Output, err = output(ctx, env.Dir, j.command([]string{"bootstrap=" + node.Kafka}, "rowtrail.conformance.RunTests", classes...)...)
		r.count(r.Output)
		return err
	}
}
