package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// childEnv makes this test binary behave as rowtrail, so that signals and locks meet a real process.
const childEnv = "ROWTRAIL_CLI_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(Run(os.Args[1:], os.Stdout, os.Stderr, "child"))
	}
	os.Exit(m.Run())
}

func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// node is a `rowtrail serve` in a process of its own.
type node struct {
	cmd         *exec.Cmd
	Kafka, HTTP string
	logFile     string // standard error
	done        chan struct{}
}

func serveNode(t *testing.T, dir, more string) *node {
	t.Helper()
	file := write(t, fmt.Sprintf("node: {data_dir: %q, min_free_bytes: 1MiB}\nlisten: {kafka: \"127.0.0.1:0\", http: \"127.0.0.1:0\", pprof: true}\n%s", dir, more))
	n := &node{cmd: command("serve", "-c", file, "-o", "json"), done: make(chan struct{})}
	n.logFile = filepath.Join(t.TempDir(), "stderr")
	errs, err := os.Create(n.logFile)
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	n.cmd.Stderr = errs
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		if lines.Scan() {
			first <- lines.Text()
		}
		close(first)
		for lines.Scan() {
		}
		_ = n.cmd.Wait() // its exit code is in ProcessState
		close(n.done)
	}()
	t.Cleanup(func() {
		_ = n.cmd.Process.Kill()
		<-n.done
	})
	select {
	case line := <-first:
		if err := json.Unmarshal([]byte(line), n); err != nil {
			<-n.done
			t.Fatalf("serve said %q: %v\n%s", line, err, n.log(t))
		}
	case <-time.After(30 * time.Second):
		t.Fatal("serve said nothing for 30 s")
	}
	return n
}

// log is what the node wrote to standard error so far.
func (n *node) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(n.logFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (n *node) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// exit waits for the end and returns the exit code.
func (n *node) exit(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-n.done:
		return n.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("still running after %s", within)
		return -1
	}
}

func produce(t *testing.T, address, topic, key, value string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestStopsGracefullyAndKeepsWhatItHas(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for round, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL, syscall.SIGTERM} {
		n := serveNode(t, dir, "")
		produce(t, n.Kafka, "things", fmt.Sprintf(`{"id":%d}`, round), "v")
		code, out, errs := runCLI(t, "tail", "things", "--server", n.Kafka, "--from", "beginning", "-o", "json")
		if code != 0 || len(lines(out)) != round+1 {
			t.Errorf("round %d: exit %d\n%s%s", round, code, out, errs)
		}
		n.signal(t, s)
		code = n.exit(t, 20*time.Second)
		if s == syscall.SIGKILL {
			continue
		}
		if code != ExitOK || !strings.Contains(n.log(t), `"msg":"stopped"`) {
			t.Errorf("%s: exit %d\n%s", s, code, n.log(t))
		}
	}
}

// TestSecondSignalEndsAtOnce: the first waits for a running request, the second does not.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	n := serveNode(t, t.TempDir(), "")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+"/debug/pprof/trace?seconds=60", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request) // headers come at once, the trace goes on
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	n.signal(t, syscall.SIGTERM)
	time.Sleep(200 * time.Millisecond)
	n.signal(t, syscall.SIGTERM) // a supervisor's second copy of the same wish
	select {
	case <-n.done:
		t.Fatalf("did not wait for the request\n%s", n.log(t))
	case <-time.After(1500 * time.Millisecond):
	}
	n.signal(t, syscall.SIGTERM)
	if code := n.exit(t, 5*time.Second); code != ExitError || !strings.Contains(n.log(t), "second signal (terminated): stopped at once; nothing acknowledged is lost") {
		t.Errorf("exit %d\n%s", code, n.log(t))
	}
}

// TestBadInputs: each is one line that names the remedy, and exit code 1.
func TestBadInputs(t *testing.T) {
	dir := t.TempDir()
	n := serveNode(t, dir, "")
	newer := t.TempDir()
	if err := os.MkdirAll(filepath.Join(newer, "log"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(newer, "log", "FORMAT"), []byte("rowtrail-log 999\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, yaml, want string }{
		{"data directory locked by another process", fmt.Sprintf("node: {data_dir: %q}\nlisten: {kafka: \"127.0.0.1:0\", http: \"\"}\n", dir),
			fmt.Sprintf("rowtrail: open node.data_dir: data directory is in use: %s/log is open in process %d; stop it or choose another data directory", dir, n.cmd.Process.Pid)},
		{"data directory of a newer format", fmt.Sprintf("node: {data_dir: %q}\nlisten: {kafka: \"127.0.0.1:0\", http: \"\"}\n", newer),
			"says version 999 and this release reads up to 1; upgrade rowtrail"},
		{"port taken", fmt.Sprintf("node: {data_dir: %q}\nlisten: {kafka: %q, http: \"\"}\n", t.TempDir(), n.Kafka),
			"the port is taken by another process; stop it, or set listen.kafka to a free port"},
		{"unknown key", "nod: {id: 1}\n", ":1: nod: unknown key; did you mean node?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := command("serve", "-c", write(t, c.yaml))
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			text := strings.TrimSuffix(errs.String(), "\n")
			if cmd.ProcessState.ExitCode() != ExitError || !strings.Contains(text, c.want) || strings.Contains(text, "\n") || out.Len() > 0 {
				t.Errorf("%v\n%s\nwant %s", err, text, c.want)
			}
		})
	}
}
