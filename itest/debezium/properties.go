package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/rowtrail/rowtrail/itest/process"
)

// properties gives Rowtrail every property that Debezium's connector has: each is taken, has no effect that a log says, or is refused with
// what to do instead. One that is not known at all is a difference.
func (c *comparison) properties(ctx context.Context, server string, s source, m *mode) error {
	names, err := c.engine.properties(ctx, s.debezium()["connector.class"])
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New("the connector has no properties")
	}
	typ, props := s.rowtrail(prefixPlain)
	for _, name := range names {
		if _, given := props[name]; !given {
			props[name] = "1"
		}
	}
	dir, err := emptyDir(c.options.cache, server+"-properties")
	if err != nil {
		return err
	}
	n, err := process.New(c.binary, dir, process.Config{Connectors: []process.Connector{{Name: "c", Type: typ, Config: props}}})
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, c.binary, "check", "-c", n.ConfigFile(), "-o", "json").Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("check properties: %w", err)
	}
	var report struct {
		Findings []struct{ Subject, Problem, Remedy string }
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return fmt.Errorf("check properties: %w: %.300s", err, out)
	}
	for _, name := range names {
		at := cell{server: server, mode: m.name, kase: "properties", op: opOther}
		c.matrix.at(at).events++
		for _, f := range report.Findings {
			text := f.Subject + " " + f.Problem + " " + f.Remedy
			if strings.Contains(text, "is unknown") && strings.HasSuffix(f.Subject, "."+name) {
				c.matrix.add(at, &difference{server: server, mode: m, kase: at.kase, op: at.op, path: "property " + name, ours: "is unknown", theirs: "is taken"}, c.entries)
			}
		}
	}
	return nil
}
