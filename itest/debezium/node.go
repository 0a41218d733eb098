package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// Prefixes of topics: of Rowtrail's two connectors, with Connect schemas and without, and of Debezium's one.
const (
	prefixPlain    = "plain"
	prefixSchemas  = "schemas"
	prefixDebezium = "debezium"
)

// status is what /v1/connectors says of a connector.
type status struct{ Name, State, Error string }

const (
	stateFailed    = "failed"
	stateRetrying  = "retrying"
	stateStreaming = "streaming"

	// positionHeader is the one header of Rowtrail's that is no JSON.
	positionHeader = "rowtrail.position"
)

const (
	loadTimeout = 90 * time.Second
	statusPause = 50 * time.Millisecond
)

// node is a Rowtrail node with the two connectors of a mode.
type node struct{ *process.Rowtrail }

func startNode(ctx context.Context, binary, dir string, c connection, m *mode) (*node, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var yaml strings.Builder
	yaml.WriteString("connectors:\n")
	for _, prefix := range []string{prefixPlain, prefixSchemas} {
		typ, own := c.rowtrail(prefix)
		props := common(prefix, m)
		maps.Copy(props, own)
		enable := "false"
		if prefix == prefixSchemas {
			enable = "true"
		}
		props["key.converter.schemas.enable"], props["value.converter.schemas.enable"] = enable, enable
		props["topic.creation.default.partitions"] = "1" // the order of a table is one order
		config, err := json.Marshal(props)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&yaml, "  - name: %s\n    type: %s\n    config: %s\n", prefix, typ, config)
	}
	r, err := process.New(binary, dir, process.Config{More: yaml.String()})
	if err != nil {
		return nil, err
	}
	if err := r.Start(); err != nil {
		return nil, err
	}
	n := &node{r}
	if err := n.WaitReady(ctx); err != nil {
		return nil, err
	}
	return n, nil
}

// common are the properties that both sides are given alike.
func common(prefix string, m *mode) map[string]string {
	props := maps.Clone(m.props)
	maps.DeleteFunc(props, func(_, v string) bool { return v == "" })
	props["topic.prefix"] = prefix
	return props
}

// waitStreaming waits until both connectors have loaded all tables.
func (n *node) waitStreaming(ctx context.Context) error {
	deadline := time.Now().Add(loadTimeout)
	for {
		var list []status
		if err := n.JSON(ctx, "/v1/connectors", &list); err != nil {
			return fmt.Errorf("read the state of the connectors: %w", err)
		}
		streaming := 0
		for _, s := range list {
			if s.State == stateFailed || s.State == stateRetrying {
				return fmt.Errorf("connector %s is %s: %s", s.Name, s.State, s.Error)
			}
			if s.State == stateStreaming {
				streaming++
			}
		}
		if streaming == 2 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the initial load did not end: %+v", list)
		}
		if !sleep.For(ctx, statusPause) {
			return ctx.Err()
		}
	}
}

// read returns the records of a prefix, once the row that ends all is there.
func (n *node) read(ctx context.Context, prefix, end string) ([]record, error) {
	client, err := n.Client(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := n.awaitEnd(ctx, kadm.NewClient(client), prefix, end)
	if err != nil {
		return nil, err
	}
	starts := map[string]map[int32]kgo.Offset{}
	for topic := range ends {
		starts[topic] = map[int32]kgo.Offset{0: kgo.NewOffset().AtStart()}
	}
	client.AddConsumePartitions(starts)
	var list []record
	for len(ends) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read the log: %w", err)
		}
		var failed error
		fetches.EachRecord(func(r *kgo.Record) {
			if end, ok := ends[r.Topic]; ok && r.Offset+1 >= end {
				delete(ends, r.Topic)
			}
			if r.Attrs.IsControl() || failed != nil {
				return
			}
			var rec record
			if rec, failed = ownRecord(r, prefix); failed == nil {
				list = append(list, rec)
			}
		})
		if failed != nil {
			return nil, failed
		}
	}
	return list, nil
}

// awaitEnd waits for the last row and returns where each topic ends then.
func (n *node) awaitEnd(ctx context.Context, admin *kadm.Client, prefix, end string) (map[string]int64, error) {
	deadline := time.Now().Add(endTimeout)
	for {
		topics, err := admin.ListTopics(ctx)
		if err != nil {
			return nil, fmt.Errorf("list topics: %w", err)
		}
		var names []string
		for _, name := range topics.Names() {
			if name == prefix || strings.HasPrefix(name, prefix+".") || name == heartbeats+prefix {
				names = append(names, name)
			}
		}
		// A topic that is being made has no leader yet: then an error says so, and it is asked again.
		offsets, err := admin.ListCommittedOffsets(ctx, names...)
		open := false // a log transaction becomes visible in one topic after the other
		if last, lastErr := admin.ListEndOffsets(ctx, names...); err == nil && lastErr == nil {
			last.Each(func(o kadm.ListedOffset) {
				visible, _ := offsets.Lookup(o.Topic, o.Partition)
				open = open || visible.Offset < o.Offset
			})
		}
		if o, ok := offsets.Lookup(prefix+"."+end, 0); err == nil && ok && o.Offset > 0 && !open {
			ends := map[string]int64{}
			offsets.Each(func(o kadm.ListedOffset) {
				if o.Offset > 0 {
					ends[o.Topic] = o.Offset
				}
			})
			return ends, nil
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("the last row did not arrive in %s.%s; the node's log is %s", prefix, end, n.LogFile()), err)
		}
		if err := n.failed(ctx); err != nil {
			return nil, err
		}
		if !sleep.For(ctx, statusPause) {
			return nil, ctx.Err()
		}
	}
}

// failed is the error of a connector that has failed.
func (n *node) failed(ctx context.Context) error {
	var list []status
	if err := n.JSON(ctx, "/v1/connectors", &list); err != nil {
		return err
	}
	for _, s := range list {
		if s.State == stateFailed {
			return fmt.Errorf("connector %s failed: %s", s.Name, s.Error)
		}
	}
	return nil
}

func (n *node) end() error {
	if err := n.Kill(); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(n.Dir, "data"))
}

// ownRecord reads a record of Rowtrail's log.
func ownRecord(r *kgo.Record, prefix string) (record, error) {
	raw := engineRecord{Key: r.Key, Value: r.Value, Headers: map[string]json.RawMessage{}}
	for _, h := range r.Headers {
		raw.Headers[h.Key] = h.Value
		if h.Key == positionHeader {
			raw.Headers[h.Key] = json.RawMessage(`"binary"`)
		}
	}
	return parseRecord(r.Topic, raw, prefix)
}
