package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/rowtrail/rowtrail/itest/toolchain"
)

// comparison is one run over all servers and modes.
type comparison struct {
	options options
	engine  *engine
	binary  string
	matrix  *matrix
	entries []entry
	logf    func(string, ...any)
}

func (c *comparison) server(ctx context.Context, name string) (err error) {
	start, ok := starts()[name]
	if !ok {
		return errors.New("no such server")
	}
	s, err := start(ctx, c.logf)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := c.start(ctx, name); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.engine.close()) }()
	list := modes(name)
	if c.options.modes.MatchString(list[0].name) {
		if err := s.open(ctx, "properties"); err != nil {
			return err
		}
		if err := c.properties(ctx, name, s, &list[0]); err != nil {
			return err
		}
	}
	for i := range list {
		m := &list[i]
		if !c.options.modes.MatchString(m.name) {
			continue
		}
		began := time.Now()
		if err := c.mode(ctx, name, s, m, i); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		c.logf("debezium: %s %s %.1fs", name, m.name, time.Since(began).Seconds())
	}
	return nil
}

// start starts Debezium's engine with the server's connector.
func (c *comparison) start(ctx context.Context, server string) error {
	version, err := toolchain.DebeziumVersion(".", profile(server))
	if err != nil {
		return err
	}
	c.logf("debezium: %s, Debezium %s", server, version)
	dir := filepath.Join(c.options.cache, "java-"+profile(server))
	if err := toolchain.BuildDebezium(ctx, ".", dir, profile(server)); err != nil {
		return err
	}
	logFile := filepath.Join(c.options.cache, "java-"+server+".log")
	if err := os.RemoveAll(logFile); err != nil {
		return err
	}
	c.engine, err = startEngine(ctx, dir, logFile)
	return err
}

// mode captures all tables in one mode and compares.
func (c *comparison) mode(ctx context.Context, server string, s source, m *mode, place int) error {
	database := fmt.Sprintf("m%d", place)
	if err := s.open(ctx, database); err != nil {
		return err
	}
	cases := s.cases(m, c.options.seed)
	statements := []string{setUpEnd()}
	for _, k := range cases {
		statements = append(statements, k.setUp...)
	}
	if err := s.exec(ctx, statements...); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	end := s.dataTopic(endTable)
	props := common(prefixDebezium, m)
	maps.Copy(props, s.debezium())
	maps.Copy(props, engineProps(database))
	if err := c.engine.capture(props, prefixDebezium+"."+end); err != nil {
		return err
	}
	dir, err := emptyDir(c.options.cache, server+"-"+database)
	if err != nil {
		return err
	}
	n, err := startNode(ctx, c.binary, dir, s, m)
	if err != nil {
		return err
	}
	defer func() { _ = n.Kill() }()
	if err := n.waitStreaming(ctx); err != nil {
		return err
	}
	theirs := &collected{}
	ready := func(t *collected) bool { return len(t.plain) > 0 && s.ready(m, &t.plain[len(t.plain)-1]) }
	if err := c.await(ctx, theirs, ready); err != nil {
		return err
	}
	for _, k := range cases {
		if err := s.exec(ctx, k.stream...); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	if err := s.exec(ctx, writeEnd()); err != nil {
		return err
	}
	if err := c.await(ctx, theirs, func(t *collected) bool { return t.end }); err != nil {
		return err
	}
	for _, prefix := range []string{prefixPlain, prefixSchemas} {
		ours, err := n.read(ctx, prefix, end)
		if err != nil {
			return err
		}
		others := theirs.plain
		if prefix == prefixSchemas {
			others = theirs.schemas
		}
		if c.options.keep {
			if err := errors.Join(keep(dir, prefix+"-rowtrail.json", ours), keep(dir, prefix+"-debezium.json", others)); err != nil {
				return err
			}
		}
		c.matrix.compare(server, m, prefix == prefixSchemas, cases, s, upTo(ours, end), upTo(others, end), c.entries)
	}
	return n.end()
}

// emptyDir makes a directory anew.
func emptyDir(cache, name string) (string, error) {
	dir := filepath.Join(cache, name)
	return dir, errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755))
}

// engineProps are what the embedded engine needs beyond a connector's properties.
func engineProps(name string) map[string]string {
	return map[string]string{
		"name":           name,
		"offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore", "offset.flush.interval.ms": "1000",
		"schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
		"poll.interval.ms":        "20", "errors.max.retries": "0",
		// By default the engine ends at an event that it cannot make; so that the others are compared, it leaves the event out.
		"event.processing.failure.handling.mode": "warn", "offset.flush.timeout.ms": "5000",
	}
}

// collected is what came from Debezium.
type collected struct {
	plain, schemas []record
	end            bool
}

// await collects events until done.
func (c *comparison) await(ctx context.Context, t *collected, done func(*collected) bool) error {
	deadline := time.Now().Add(endTimeout)
	for !done(t) {
		e, err := c.engine.next(ctx, deadline)
		if err != nil {
			return err
		}
		if e.End {
			t.end = true
			continue
		}
		plain, err := parseRecord(e.Topic, e.Plain, prefixDebezium)
		if err != nil {
			return err
		}
		schemas, err := parseRecord(e.Topic, e.Schemas, prefixDebezium)
		if err != nil {
			return err
		}
		t.plain, t.schemas = append(t.plain, plain), append(t.schemas, schemas)
	}
	return nil
}

// upTo leaves out the row that ends all, and its transaction, which one side may have said more of than the other.
func upTo(list []record, end string) []record {
	var out []record
	last := -1
	for _, r := range list {
		if r.topic == end {
			continue
		}
		if r.topic == topicTransaction && field(payload(r.value), "status") == "BEGIN" {
			last = len(out)
		}
		out = append(out, r)
	}
	if last >= 0 {
		kept := out[:last]
		for _, r := range out[last:] {
			if r.topic != topicTransaction {
				kept = append(kept, r)
			}
		}
		out = kept
	}
	return out
}

// keep writes what a side wrote, for a person to look at.
func keep(dir, name string, list []record) error {
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	lines := json.NewEncoder(f)
	lines.SetEscapeHTML(false)
	for _, r := range list {
		if err := lines.Encode(map[string]any{"topic": r.topic, "key": r.key, "value": r.value, "headers": r.headers}); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}
