package main

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// TestDemo runs the demo as `make demo` does: it must end well within two minutes with its last line, and leave no process.
func TestDemo(t *testing.T) { demoOf(t, "postgres") }

// TestDemoMySQL runs it on the servers that are asked for.
func TestDemoMySQL(t *testing.T) { servers.EachMySQLVersion(t, demoOf) }

func demoOf(t *testing.T, source string) {
	if testing.Short() {
		t.Skip("the demo takes half a minute; run without -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	binary := t.TempDir() + "/demo"
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	cmd := exec.CommandContext(ctx, binary, "-source", source)
	cmd.Dir = "../.."
	cmd.Env = os.Environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; !regexp.MustCompile(`^demo: ok changes=[1-9]\d* lost=0 duplicated=0 target=equal$`).MatchString(last) {
		t.Fatalf("last line %q\n%s", last, out)
	}
}
