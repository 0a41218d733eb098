package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// storedBytes is the history that the consuming cases read: it fits into the page cache.
	storedBytes = 512 << 20
)

// fill stores storedBytes of records.
func fill(ctx context.Context, address, topic string, c brokerCase) error {
	client, err := dial(address, kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	payload := make([]byte, c.size)
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	var failed atomic.Pointer[error]
	for range storedBytes / c.size {
		client.Produce(ctx, &kgo.Record{Value: payload}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return fmt.Errorf("fill %s: %w", address, *err)
	}
	return nil
}

// readAll reads the topic from the start to what fill stored, and returns payload bytes per second.
func readAll(ctx context.Context, address, topic string, c brokerCase) (perSecond float64, err error) {
	var read atomic.Int64
	start := time.Now()
	if err := readOnce(ctx, address, topic, c, &read); err != nil {
		return 0, err
	}
	return float64(read.Load()) / time.Since(start).Seconds(), nil
}

// readOnce reads what fill stored from the start and counts payload bytes. rate bounds bytes per second; 0: none.
func readOnce(ctx context.Context, address, topic string, c brokerCase, read *atomic.Int64) error {
	client, err := dial(address, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer client.Close()
	mine := 0
	for mine < storedBytes/c.size*c.size {
		fetches := client.PollRecords(ctx, 100_000)
		if err := errors.Join(fetches.Err(), ctx.Err()); err != nil {
			return fmt.Errorf("read %s: %w", address, err)
		}
		n := fetches.NumRecords() * c.size
		mine += n
		read.Add(int64(n))
	}
	return nil
}

// consuming reads what is in the page cache: kfake, Rowtrail, kfake again.
func consuming(ctx context.Context, cfg config) ([]line, error) {
	var lines []line
	for _, c := range brokerCases() {
		l, err := consumeCase(ctx, cfg, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func consumeCase(ctx context.Context, cfg config, c brokerCase) (line, error) {
	dir, err := os.MkdirTemp("", "rowtrail-bench-consume-")
	if err != nil {
		return line{}, err
	}
	defer os.RemoveAll(dir)
	fake, err := startKfake(ctx, cfg.peers)
	if err != nil {
		return line{}, err
	}
	defer fake.stop()
	node, err := startNode(ctx, cfg, dir)
	if err != nil {
		return line{}, err
	}
	defer node.Kill()
	for _, address := range []string{fake.address, node.Kafka} {
		if err := createTopic(ctx, address, loadTopic, c.partitions); err != nil {
			return line{}, err
		}
		if err := fill(ctx, address, loadTopic, c); err != nil {
			return line{}, err
		}
	}
	const mb = 1e6
	rate := func(address string) (float64, error) { // the second of two reads, so that the first one warms up
		if _, err := readAll(ctx, address, loadTopic, c); err != nil {
			return 0, err
		}
		perSecond, err := readAll(ctx, address, loadTopic, c)
		return perSecond / mb, err
	}
	var peer [2]float64
	if peer[0], err = rate(fake.address); err != nil {
		return line{}, err
	}
	stop := profileNode(cfg.profile, node, "consume "+c.String())
	ours, err := rate(node.Kafka)
	stop()
	if err != nil {
		return line{}, err
	}
	if peer[1], err = rate(fake.address); err != nil {
		return line{}, err
	}
	return throughput("consume from the page cache, "+c.String(), "MB/s", "kfake, in memory", ours, peer, consumeFloor), nil
}
