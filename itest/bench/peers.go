package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/process"
)

// peerFolder is the module that the peers are built from.
const peerFolder = "itest/bench/peers"

// buildPeers compiles kfake, nats-server and natsload into dir.
func buildPeers(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), "./kfake", "./natsload", "github.com/nats-io/nats-server/v2")
	cmd.Dir = peerFolder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the peers in %s (run the bench from the top folder): %w: %s", peerFolder, err, out)
	}
	return nil
}

// server is a peer's process.
type server struct {
	cmd     *exec.Cmd
	address string
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// startServer runs a peer and waits until its port answers.
func startServer(ctx context.Context, binary string, args func(port int) []string) (*server, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	s := &server{address: address}
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text)
	s.cmd = exec.Command(binary, args(port)...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		c, err := net.Dial("tcp", s.address)
		if err == nil {
			return s, c.Close()
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			s.stop()
			return nil, fmt.Errorf("%s does not answer: %w", binary, errors.Join(err, ctx.Err()))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func startKfake(ctx context.Context, dir string) (*server, error) {
	return startServer(ctx, filepath.Join(dir, "kfake"), func(port int) []string { return []string{"-port", strconv.Itoa(port)} })
}

// startNATS runs JetStream with a sync of every write, which is what acks=all means here.
func startNATS(ctx context.Context, dir, data string) (*server, error) {
	config := filepath.Join(data, "nats.conf")
	text := fmt.Sprintf("jetstream { store_dir: %q, sync_interval: always, max_file_store: 50GB }\n", filepath.Join(data, "jetstream"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return startServer(ctx, filepath.Join(dir, "nats-server"), func(port int) []string {
		return []string{"-c", config, "-a", "127.0.0.1", "-p", strconv.Itoa(port)}
	})
}

// natsResult is what natsload prints.
type natsResult struct {
	RecordsPerSecond float64 `json:"records_per_second"`
	P50              float64 `json:"p50_ms"`
	P99              float64 `json:"p99_ms"`
}

// natsNodes is how many servers a replicated stream has.
const natsNodes = 3

// startNATSCluster runs servers that keep every stream on all of them, each with a sync of every write.
func startNATSCluster(ctx context.Context, dir, data string) (servers []*server, err error) {
	defer func() {
		if err != nil {
			stopAll(servers)
		}
	}()
	var routes []string
	for range natsNodes {
		address, err := process.FreeAddress()
		if err != nil {
			return nil, err
		}
		routes = append(routes, address)
	}
	for i, route := range routes {
		home := filepath.Join(data, strconv.Itoa(i))
		if err := os.MkdirAll(home, 0o700); err != nil {
			return servers, err
		}
		var others []string
		for _, r := range routes {
			others = append(others, fmt.Sprintf("%q", "nats://"+r))
		}
		text := fmt.Sprintf("server_name: n%d\njetstream { store_dir: %q, sync_interval: always, max_file_store: 50GB }\n"+
			"cluster { name: bench, listen: %q, routes: [%s] }\n", i, filepath.Join(home, "jetstream"), route, strings.Join(others, ", "))
		config := filepath.Join(home, "nats.conf")
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return servers, err
		}
		s, err := startServer(ctx, filepath.Join(dir, "nats-server"), func(port int) []string {
			return []string{"-c", config, "-a", "127.0.0.1", "-p", strconv.Itoa(port)}
		})
		if err != nil {
			return servers, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func stopAll(servers []*server) {
	for _, s := range servers {
		s.stop()
	}
}

func natsLoad(ctx context.Context, dir, address string, c brokerCase, replicas int, seconds, rate float64) (natsResult, error) {
	var r natsResult
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "natsload"), "-url", "nats://"+address, "-replicas", strconv.Itoa(replicas),
		"-streams", strconv.Itoa(int(c.partitions)), "-size", strconv.Itoa(c.size), "-seconds", fmt.Sprint(seconds), "-rate", fmt.Sprint(rate)).Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return r, fmt.Errorf("load JetStream: %w", err)
	}
	return r, json.Unmarshal(out, &r)
}

// startNode runs Rowtrail on an empty data directory.
func startNode(ctx context.Context, cfg config, dir string) (*process.Rowtrail, error) {
	listen := map[string]string{}
	if cfg.profile != "" {
		listen["pprof"] = "true"
	}
	node, err := process.New(cfg.binary, dir, process.Config{Listen: listen, Node: map[string]string{"min_free_bytes": "64MiB"}})
	if err != nil {
		return nil, err
	}
	if err := node.Start(); err != nil {
		return nil, err
	}
	if err := node.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, node.Kill())
	}
	return node, nil
}

// dial makes the one client that every Kafka server is measured with.
func dial(address string, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(address), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(maxBuffered), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.FetchMaxBytes(16 << 20), kgo.FetchMaxPartitionBytes(8 << 20), kgo.RecordDeliveryTimeout(time.Minute)}, opts...)...)
}
