package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readPatience is how long a record that must be there may take to come.
const readPatience = 30 * time.Second

// createTopic makes a topic with the given settings.
func createTopic(ctx context.Context, node *process.Rowtrail, topic string, partitions int32, configs map[string]string) error {
	cl, err := node.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	values := map[string]*string{}
	for k, v := range configs {
		values[k] = &v
	}
	_, err = kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, values, topic)
	return err
}

// readCommitted reads whole topics up to their last stable offsets, partition by partition in offset order.
func readCommitted(ctx context.Context, node *process.Rowtrail, topics ...string) ([]*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	cl, err := node.Client(kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("end offsets of %v: %w", topics, err)
	}
	type partition struct {
		topic string
		id    int32
	}
	left := map[partition]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[partition{o.Topic, o.Partition}] = o.Offset
		}
	})
	starts, err := kadm.NewClient(cl).ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("start offsets of %v: %w", topics, err)
	}
	starts.Each(func(o kadm.ListedOffset) {
		if p := (partition{o.Topic, o.Partition}); o.Offset >= left[p] {
			delete(left, p)
		}
	})
	var all []*kgo.Record
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %v with the ends %v not reached: %w", topics, left, err)
		}
		// Control records are kept so that the end is seen; a marker may be the last record.
		fetches.EachRecord(func(rec *kgo.Record) {
			p := partition{rec.Topic, rec.Partition}
			if end, open := left[p]; open && rec.Offset >= end-1 {
				delete(left, p)
			}
			if !rec.Attrs.IsControl() {
				all = append(all, rec)
			}
		})
	}
	return all, nil
}
