// Package process runs the rowtrail binary as a user would: a configuration file, a child process, its ports.
package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	readyTimeout = 60 * time.Second
	stopTimeout  = 40 * time.Second // more than node.shutdown_timeout
	quitTimeout  = 5 * time.Second
	postgres     = "postgres" // the type that tasks have unless they name one
	pollEvery    = 20 * time.Millisecond
)

// Rowtrail is a configured node; Start and Kill may follow each other many times.
type Rowtrail struct {
	Binary string
	Dir    string // holds rowtrail.yaml, data and log
	Kafka  string // host:port; of several brokers of another cluster: with commas between them
	HTTP   string

	command []string // what runs the binary, before its name
	cmd     *exec.Cmd
	done    chan error
}

// Connector is what the YAML says of a connector.
type Connector struct {
	Name   string
	Type   string // "": postgres
	Config map[string]string
}

// Sink is what the YAML says of a sink.
type Sink struct {
	Name   string
	Type   string // "": postgres
	Topics []string
	Config map[string]string
}

// Config is what differs between runs.
type Config struct {
	Kafka, HTTP string   // addresses; empty: free ports of loopback
	Command     []string // runs the binary: in a network namespace, say
	ListenMore  string   // YAML of keys of listen that are no text
	More        string   // YAML of sections that nothing else here speaks of

	Node       map[string]string
	Listen     map[string]string
	Log        map[string]string
	Brokers    []string // of another cluster that holds the log instead of this node
	KafkaMore  string   // YAML of further keys of log.kafka
	Connectors []Connector
	Sinks      []Sink
}

// New writes the configuration of a node into dir.
func New(binary, dir string, cfg Config) (*Rowtrail, error) {
	r := &Rowtrail{Binary: binary, Dir: dir, Kafka: cfg.Kafka, HTTP: cfg.HTTP, command: cfg.Command}
	if len(cfg.Brokers) > 0 {
		r.Kafka = strings.Join(cfg.Brokers, ",")
	}
	for _, address := range []*string{&r.Kafka, &r.HTTP} {
		if *address == "" {
			var err error
			if *address, err = FreeAddress(); err != nil {
				return nil, err
			}
		}
	}
	return r, os.WriteFile(r.ConfigFile(), []byte(r.yaml(cfg)), 0o600)
}

// ConfigFile is the node's YAML file.
func (r *Rowtrail) ConfigFile() string { return filepath.Join(r.Dir, "rowtrail.yaml") }

// LogFile holds the standard output and error of all starts.
func (r *Rowtrail) LogFile() string { return filepath.Join(r.Dir, "rowtrail.log") }

// DataDir is the node's data directory.
func (r *Rowtrail) DataDir() string { return filepath.Join(r.Dir, "data") }

func (r *Rowtrail) yaml(cfg Config) string {
	var b strings.Builder
	section := func(indent string, m map[string]string) {
		for k, v := range m {
			fmt.Fprintf(&b, "%s%s: %s\n", indent, k, strconv.Quote(v))
		}
	}
	nodeKeys := map[string]string{"id": "1"}
	listen := map[string]string{"http": r.HTTP}
	if len(cfg.Brokers) == 0 {
		nodeKeys["data_dir"], listen["kafka"] = r.DataDir(), r.Kafka
	}
	maps.Copy(nodeKeys, cfg.Node)
	b.WriteString("node:\n")
	section("  ", nodeKeys)
	maps.Copy(listen, cfg.Listen)
	b.WriteString("listen:\n")
	section("  ", listen)
	b.WriteString(cfg.ListenMore)
	if len(cfg.Log) > 0 || len(cfg.Brokers) > 0 {
		b.WriteString("log:\n")
		section("  ", cfg.Log)
	}
	if len(cfg.Brokers) > 0 {
		brokers, _ := json.Marshal(cfg.Brokers)
		fmt.Fprintf(&b, "  kafka:\n    brokers: %s\n%s", brokers, cfg.KafkaMore)
	}
	if len(cfg.Connectors) > 0 {
		b.WriteString("connectors:\n")
	}
	for _, c := range cfg.Connectors {
		fmt.Fprintf(&b, "  - name: %s\n    type: %s\n    config:\n", c.Name, cmp.Or(c.Type, postgres))
		section("      ", c.Config)
	}
	if len(cfg.Sinks) > 0 {
		b.WriteString("sinks:\n")
	}
	for _, s := range cfg.Sinks {
		topics, _ := json.Marshal(s.Topics)
		fmt.Fprintf(&b, "  - name: %s\n    type: %s\n    topics: %s\n    config:\n", s.Name, cmp.Or(s.Type, postgres), topics)
		section("      ", s.Config)
	}
	b.WriteString(cfg.More)
	return b.String()
}

// Start runs `rowtrail serve` and returns at once; WaitReady waits. The process dies with this one.
func (r *Rowtrail) Start() error {
	out, err := os.OpenFile(r.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	args := append(slices.Clone(r.command), r.Binary, "serve", "-c", r.ConfigFile())
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = r.Dir
	cmd.Stdout, cmd.Stderr = out, out
	// A process group of its own: Ctrl-C is for the parent, which then stops the node once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start rowtrail: %w", err)
	}
	r.cmd, r.done = cmd, make(chan error, 1)
	go func() { r.done <- cmd.Wait() }()
	return nil
}

// Runs says whether the process is there, and how it ended where it did by itself.
func (r *Rowtrail) Runs() (bool, error) {
	if r.cmd == nil {
		return false, nil
	}
	select {
	case exit := <-r.done:
		r.done <- exit
		return false, errOr(exit)
	default:
		return true, nil
	}
}

// PID of the running process.
func (r *Rowtrail) PID() int { return r.cmd.Process.Pid }

// Kill ends the process with SIGKILL.
func (r *Rowtrail) Kill() error {
	if r.cmd == nil {
		return nil
	}
	if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill rowtrail: %w", err)
	}
	<-r.done
	r.cmd = nil
	return nil
}

// Pause stops the process where it is (SIGSTOP); Resume lets it go on.
func (r *Rowtrail) Pause() error { return r.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (r *Rowtrail) Resume() error { return r.signal(syscall.SIGCONT) }

func (r *Rowtrail) signal(s syscall.Signal) error {
	if err := r.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("send %s to rowtrail: %w", s, err)
	}
	return nil
}

// Stop ends the process with SIGTERM and returns its error: nil when it ended with exit code 0.
func (r *Rowtrail) Stop() error {
	if r.cmd == nil {
		return nil
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop rowtrail: %w", err)
	}
	select {
	case err := <-r.done:
		r.cmd = nil
		if err != nil {
			return fmt.Errorf("stop rowtrail: %w; its last lines:\n%s", err, r.Tail(10))
		}
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("stop rowtrail: still running %s after SIGTERM; its goroutines are in %s", stopTimeout, r.LogFile()), r.quit())
	}
}

// quit has the process write its goroutines and ends it.
func (r *Rowtrail) quit() error {
	if err := r.cmd.Process.Signal(syscall.SIGQUIT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("quit rowtrail: %w", err)
	}
	select {
	case exit := <-r.done:
		r.done <- exit
	case <-time.After(quitTimeout):
	}
	return r.Kill()
}

// WaitReady waits until /readyz answers 200. It fails at once when the process has ended.
func (r *Rowtrail) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := r.get(ctx, "/readyz", nil)
		if err == nil {
			return nil
		}
		select {
		case exit := <-r.done:
			r.done <- exit
			return fmt.Errorf("rowtrail ended while starting: %w; its last lines:\n%s", errOr(exit), r.Tail(10))
		case <-ctx.Done():
			return fmt.Errorf("wait for rowtrail: %w; its last lines:\n%s", err, r.Tail(10))
		case <-time.After(pollEvery):
		}
	}
}

func errOr(err error) error {
	if err == nil {
		return errors.New("exit code 0")
	}
	return err
}

// JSON reads an admin endpoint into v.
func (r *Rowtrail) JSON(ctx context.Context, path string, v any) error { return r.get(ctx, path, v) }

// Metrics reads /metrics as text.
func (r *Rowtrail) Metrics(ctx context.Context) (string, error) {
	var text string
	err := r.get(ctx, "/metrics", &text)
	return text, err
}

func (r *Rowtrail) get(ctx context.Context, path string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.HTTP+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", path, resp.Status, strings.TrimSpace(string(body)))
	}
	switch v := v.(type) {
	case nil:
		return nil
	case *string:
		*v = string(body)
		return nil
	default:
		return json.Unmarshal(body, v)
	}
}

// CLI runs a subcommand against this node, where the node runs, and returns what it printed.
func (r *Rowtrail) CLI(ctx context.Context, args ...string) (string, error) {
	args = append(args, "-c", r.ConfigFile())
	command := append(slices.Clone(r.command), append([]string{r.Binary}, args...)...)
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("rowtrail %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// Client dials the node's Kafka listener.
func (r *Rowtrail) Client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(r.Kafka, ",")...)}, opts...)...)
}

// Tail is the last lines of the process's output.
func (r *Rowtrail) Tail(lines int) string {
	b, err := os.ReadFile(r.LogFile())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}

// Build compiles the binary into dir and returns its path, unless ROWTRAIL_BINARY names one.
func Build(dir string) (string, error) {
	if binary := os.Getenv("ROWTRAIL_BINARY"); binary != "" {
		return filepath.Abs(binary)
	}
	binary := filepath.Join(dir, "rowtrail")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/rowtrail/rowtrail/cmd/rowtrail").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build rowtrail: %w: %s", err, out)
	}
	return binary, nil
}

// Ports that are given out are below those that systems take for outgoing connections, and drawn: what asks next gets another one, though
// nobody listens yet.
const (
	firstPort = 10_000
	ports     = 22_000
	portTries = 200
)

// FreeAddress is an address of this machine that nobody listens at.
func FreeAddress() (string, error) {
	var err error
	for range portTries {
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(ports)))); err == nil { //nolint:gosec // no secret
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}
