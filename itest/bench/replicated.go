package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/rowtrail/rowtrail/itest/process"
)

// Three processes of one machine write everything three times to one disk, so its bandwidth divided by three is the limit.
const (
	replicas        = 3
	replicatedFloor = 0.5 // of sequential write and sync, divided by the replicas
)

// replicated measures acks=all with three replicas on three processes, beside the disk and a JetStream stream of three replicas.
func replicated(ctx context.Context, cfg config) ([]line, error) {
	var lines []line
	for _, partitions := range []int32{1, 16} {
		more, err := replicatedCase(ctx, cfg, brokerCase{1024, partitions})
		if err != nil {
			return nil, fmt.Errorf("%d partitions: %w", partitions, err)
		}
		lines = append(lines, more...)
	}
	return lines, nil
}

func replicatedCase(ctx context.Context, cfg config, c brokerCase) ([]line, error) {
	dir, err := os.MkdirTemp("", "rowtrail-bench-replicated-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	d := time.Duration(cfg.brokerSeconds) * time.Second
	nats, err := natsReplicated(ctx, cfg, c, filepath.Join(dir, "nats"), d)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(filepath.Join(dir, "nats")); err != nil {
		return nil, err
	}
	ours, raw, _, err := besideDisk(dir, d, func(dir string) (measured, error) { return oursReplicated(ctx, cfg, c, dir, d) })
	if err != nil {
		return nil, err
	}
	const mb = 1e6
	top := ours.top.perSecond / mb
	limit := [2]float64{raw[0] / mb / replicas, raw[1] / mb / replicas}
	name := fmt.Sprintf("produce acks=all, %d replicas, %s", replicas, c)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return []line{
		throughput(name, "MB/s", "raw sequential write and sync of 1 MiB, divided by the replicas", top, limit, replicatedFloor),
		versus(name, "MB/s", "JetStream, 3 replicas, sync always", top, nats.RecordsPerSecond*float64(c.size)/mb, natsFloor),
		report(name+": acknowledgement at half load, p50", "ms", ms(ours.half.p50)),
		report(name+": acknowledgement at half load, p99", "ms", ms(ours.half.p99)),
		report(name+": device bytes per payload byte", "", ours.deviceRatio),
	}, nil
}

func natsReplicated(ctx context.Context, cfg config, c brokerCase, dir string, d time.Duration) (natsResult, error) {
	servers, err := startNATSCluster(ctx, cfg.peers, dir)
	if err != nil {
		return natsResult{}, err
	}
	defer stopAll(servers)
	return natsLoad(ctx, cfg.peers, servers[0].address, c, natsNodes, d.Seconds(), 0)
}

// startNodes runs a cluster of three nodes.
func startNodes(ctx context.Context, cfg config, dir string) (nodes []*process.Rowtrail, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, killAll(nodes))
		}
	}()
	var peers strings.Builder
	var addresses []string
	for i := range replicas {
		address, err := process.FreeAddress()
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
		fmt.Fprintf(&peers, "    - {id: %d, address: %q}\n", i+1, address)
	}
	for i, address := range addresses {
		home := filepath.Join(dir, fmt.Sprint("node", i+1))
		if err := os.Mkdir(home, 0o700); err != nil {
			return nodes, err
		}
		node, err := process.New(cfg.binary, home, process.Config{
			Node: map[string]string{"id": fmt.Sprint(i + 1), "rack": fmt.Sprint("rack", i+1), "min_free_bytes": "64MiB"},
			More: fmt.Sprintf("cluster:\n  listen: %q\n  peers:\n%s", address, &peers),
		})
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, node)
		if err := node.Start(); err != nil {
			return nodes, err
		}
	}
	for _, n := range nodes {
		if err := n.WaitReady(ctx); err != nil {
			return nodes, err
		}
	}
	return nodes, nil
}

func killAll(nodes []*process.Rowtrail) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.Kill())
	}
	return errors.Join(errs...)
}

func oursReplicated(ctx context.Context, cfg config, c brokerCase, dir string, d time.Duration) (m measured, err error) {
	nodes, err := startNodes(ctx, cfg, dir)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, killAll(nodes)) }()
	client, err := dial(nodes[0].Kafka)
	if err != nil {
		return m, err
	}
	_, err = kadm.NewClient(client).CreateTopic(ctx, c.partitions, replicas, nil, loadTopic)
	client.Close()
	if err != nil {
		return m, fmt.Errorf("create topic: %w", err)
	}
	before, err := deviceBytes(dir)
	if err != nil {
		return m, err
	}
	if m.top, err = produce(ctx, nodes[0].Kafka, c, d, 0); err != nil {
		return m, err
	}
	after, err := deviceBytes(dir)
	if err != nil {
		return m, err
	}
	m.deviceRatio = round3(float64(after-before) / float64(m.top.total))
	m.half, err = produce(ctx, nodes[0].Kafka, c, d/2, m.top.perSecond/float64(c.size)/2)
	return m, err
}
