// Package externallog runs connectors and sinks whose log is another Kafka cluster (log.kafka): Apache Kafka itself, from its jars, or a
// second Rowtrail. A shop writes, processes are killed, paused and moved, and in the end every committed change must stand in
// that log exactly once, whole and in order, and the target must equal the source.
package externallog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/toolchain"
)

const (
	javaProject  = "itest/clients/java"
	kafkaStart   = 2 * time.Minute // on a loaded machine
	kafkaStop    = 30 * time.Second
	buildTimeout = 15 * time.Minute
)

// Jars are the server's, fetched by the project's Maven file into cache, once.
func Jars(ctx context.Context, root, cache string) (classPath string, err error) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	var tools toolchain.Chain
	if err := tools.Need(ctx, []toolchain.Tool{{Name: "javac", Packages: []string{"default-jdk-headless"}}, {Name: "mvn", Packages: []string{"maven"}}}); err != nil {
		return "", err
	}
	pom := filepath.Join(root, javaProject, "pom.xml")
	text, err := os.ReadFile(pom)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "java")
	stamp, lib := filepath.Join(dir, "pom.built"), filepath.Join(dir, "lib", "*")
	if built, err := os.ReadFile(stamp); err == nil && string(built) == string(text) {
		return lib, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", pom, "-Doutput="+dir, "compile")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch Apache Kafka's jars: %w: %s", err, out)
	}
	return lib, os.WriteFile(stamp, text, 0o644)
}

// Security is the TLS of a listener, and who logs in to those that want it.
type Security struct {
	Cert, Key      string // PEM files
	User, Password string
}

// Kafka is a node of Apache Kafka that is broker and controller in one (KRaft).
type Kafka struct {
	Address       string // in the clear, without a log-in
	SASLSSL       string // over TLS, with a log-in by SCRAM
	SASLPlaintext string // in the clear, with a log-in by PLAIN

	classPath, dir string
	cmd            *exec.Cmd
	done           chan error
}

// StartKafka formats a directory, starts a node on it and waits until it answers. Without a user it has no listener that wants a log-in.
func StartKafka(ctx context.Context, classPath, dir string, security Security) (*Kafka, error) {
	addresses, err := freeAddresses(4)
	if err != nil {
		return nil, err
	}
	k := &Kafka{Address: addresses[0], classPath: classPath, dir: dir}
	listeners, secured, users := "PLAINTEXT://"+k.Address, []string(nil), []string(nil)
	if security.User != "" {
		k.SASLSSL, k.SASLPlaintext = addresses[2], addresses[3]
		listeners += ",SASL_SSL://" + k.SASLSSL + ",SASL_PLAINTEXT://" + k.SASLPlaintext
		if secured, users, err = k.secure(security); err != nil {
			return nil, err
		}
	}
	settings := append([]string{
		"process.roles=broker,controller", "node.id=1", "controller.listener.names=CONTROLLER",
		"controller.quorum.voters=1@" + addresses[1],
		"listeners=" + listeners + ",CONTROLLER://" + addresses[1], "advertised.listeners=" + listeners,
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
		"log.dirs=" + filepath.Join(dir, "kafka"),
		// One node, on few cores beside others. All else is as Kafka ships it, group.initial.rebalance.delay.ms too.
		"offsets.topic.replication.factor=1", "offsets.topic.num.partitions=5",
		"transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1", "transaction.state.log.num.partitions=5",
	}, secured...)
	if err := os.WriteFile(k.config(), []byte(strings.Join(settings, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	format := k.java(ctx, "kafka.tools.StorageTool", append([]string{"format", "-t", "cm93dHJhaWwtaXRlc3QtMQ", "-c", k.config()}, users...)...)
	if out, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("format Apache Kafka's directory: %w: %s", err, out)
	}
	if err := k.start(); err != nil {
		return nil, err
	}
	return k, k.await(ctx)
}

// secure are the settings of the listeners that want a log-in, and the arguments of a format that knows the user.
func (k *Kafka) secure(s Security) (settings, users []string, err error) {
	store := filepath.Join(k.dir, "server.pem")
	if err := concatenate(store, s.Key, s.Cert); err != nil {
		return nil, nil, err
	}
	const ssl, plaintext, module = "listener.name.sasl_ssl.", "listener.name.sasl_plaintext.", "org.apache.kafka.common.security."
	settings = []string{
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + store,
		ssl + "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512", plaintext + "sasl.enabled.mechanisms=PLAIN",
		fmt.Sprintf("%splain.sasl.jaas.config=%splain.PlainLoginModule required user_%s=%q;", plaintext, module, s.User, s.Password),
	}
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		settings = append(settings, fmt.Sprintf("%s%s.sasl.jaas.config=%sscram.ScramLoginModule required;", ssl, strings.ToLower(mechanism), module))
		users = append(users, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, s.User, s.Password))
	}
	return settings, users, nil
}

// concatenate writes files behind each other into one.
func concatenate(to string, files ...string) error {
	var all []byte
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all = append(all, b...)
	}
	return os.WriteFile(to, all, 0o600)
}

func (k *Kafka) config() string { return filepath.Join(k.dir, "server.properties") }

func (k *Kafka) java(ctx context.Context, class string, args ...string) *exec.Cmd {
	all := append([]string{
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", k.classPath, class,
	}, args...)
	cmd := exec.CommandContext(ctx, "java", all...)
	cmd.Dir = k.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd
}

func (k *Kafka) start() error {
	log, err := os.OpenFile(filepath.Join(k.dir, "kafka.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	k.cmd = k.java(context.Background(), "kafka.Kafka", k.config())
	k.cmd.Stdout, k.cmd.Stderr = log, log
	if err := k.cmd.Start(); err != nil {
		return fmt.Errorf("start Apache Kafka: %w", err)
	}
	k.done = make(chan error, 1)
	go func(cmd *exec.Cmd, done chan error) { done <- cmd.Wait() }(k.cmd, k.done)
	return nil
}

func (k *Kafka) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kafkaStart)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Address))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		err := client.Ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case exit := <-k.done:
			k.done <- exit
			return fmt.Errorf("start Apache Kafka: it ended: %w: %s", exit, k.tail())
		case <-ctx.Done():
			return fmt.Errorf("start Apache Kafka: %w: %s", err, k.tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (k *Kafka) tail() string {
	text, _ := os.ReadFile(filepath.Join(k.dir, "kafka.log"))
	return string(text[max(0, len(text)-2000):])
}

// Close ends the node.
func (k *Kafka) Close() error {
	if err := k.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop Apache Kafka: %w", err)
	}
	select {
	case <-k.done: // its exit code says that it was stopped by a signal
	case <-time.After(kafkaStop):
		_ = k.cmd.Process.Kill()
		<-k.done
	}
	return nil
}

func freeAddresses(n int) ([]string, error) {
	var all []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}
