package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/itest/checker/load"
	"github.com/rowtrail/rowtrail/itest/nodes"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// The header of a record batch, as far as it is needed to go on behind it.
const (
	batchBase      = 0
	batchLength    = 8
	batchOverhead  = 12 // what the length does not count
	batchLastDelta = 23
	batchHeader    = 61
)

const fetchBytes = 8 << 20

// copies reads every partition that is not compacted from each of its replicas, and says where one has other bytes than the others.
func copies(ctx context.Context, c *nodes.Cluster, topics []string) (wrong []string, batches int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*load.Settle)
	defer cancel()
	cl, err := c.Client()
	if err != nil {
		return nil, 0, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	details, err := adm.Metadata(ctx, topics...)
	if err != nil {
		return nil, 0, err
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, 0, err
	}
	for _, t := range details.Topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			end, _ := ends.Lookup(t.Topic, p.Partition)
			if err := errors.Join(t.Err, p.Err, end.Err); err != nil {
				return nil, 0, fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, err)
			}
			var first []batch
			for i, id := range p.Replicas {
				got, err := readCopy(ctx, cl.Broker(int(id)), t, p.Partition, end.Offset)
				if err != nil {
					return nil, 0, fmt.Errorf("read %s-%d from node %d: %w", t.Topic, p.Partition, id, err)
				}
				if i == 0 {
					first = got
				} else if text := differ(first, got); text != "" {
					wrong = append(wrong, fmt.Sprintf("%s-%d: of nodes %d and %d: %s", t.Topic, p.Partition, p.Replicas[0], id, text))
				}
				batches += len(got)
			}
		}
	}
	return wrong, batches, nil
}

// batch is one as a replica has it.
type batch struct {
	base, last int64
	sum        uint64
}

func differ(a, b []batch) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("the batches %d to %d and %d to %d are not the same (checksums %x and %x)", a[i].base, a[i].last, b[i].base, b[i].last, a[i].sum, b[i].sum)
		}
	}
	if len(a) != len(b) {
		return fmt.Sprintf("%d and %d batches", len(a), len(b))
	}
	return ""
}

// readCopy reads a partition from one replica up to an offset.
func readCopy(ctx context.Context, broker *kgo.Broker, t kadm.TopicDetail, partition int32, end int64) ([]batch, error) {
	var all []batch
	for at := int64(0); at < end; {
		raw, err := fetchRaw(ctx, broker, t, partition, at)
		switch {
		case errors.Is(err, kerr.OffsetNotAvailable) || errors.Is(err, kerr.OffsetOutOfRange) && at > 0 || err == nil && len(raw) == 0:
			// It has not heard yet how far the leader is.
			if !sleep.For(ctx, 50*time.Millisecond) {
				return nil, fmt.Errorf("it ends at %d, and the leader at %d", at, end)
			}
			continue
		case err != nil:
			return nil, err
		}
		for len(raw) >= batchHeader {
			size := batchOverhead + int(binary.BigEndian.Uint32(raw[batchLength:]))
			if size > len(raw) {
				break
			}
			base := int64(binary.BigEndian.Uint64(raw[batchBase:])) //nolint:gosec // an offset
			last := base + int64(binary.BigEndian.Uint32(raw[batchLastDelta:]))
			if base >= end {
				return all, nil
			}
			all = append(all, batch{base, last, crc64.Checksum(raw[:size], crc64.MakeTable(crc64.ECMA))})
			at, raw = last+1, raw[size:]
		}
	}
	return all, nil
}

// fetchRaw asks one node, leader or not, for the bytes at an offset.
func fetchRaw(ctx context.Context, broker *kgo.Broker, t kadm.TopicDetail, partition int32, at int64) ([]byte, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, fetchBytes
	req.SessionEpoch = -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = t.Topic, t.ID
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes, part.CurrentLeaderEpoch = partition, at, fetchBytes, -1
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	resp, err := broker.RetriableRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	answer := resp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return nil, err
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			return p.RecordBatches, kerr.ErrorForCode(p.ErrorCode)
		}
	}
	return nil, errors.New("an answer without the partition")
}
