package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/itest/pipeline"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// TestKill is the one-minute kill test: 20,000 source transactions, 50 SIGKILLs, 3 restarts of each database.
func TestKill(t *testing.T) { kill(t, "postgres") }

// TestKillMySQL is the same on the servers that are asked for.
func TestKillMySQL(t *testing.T) { servers.EachMySQLVersion(t, kill) }

func kill(t *testing.T, source string) {
	if testing.Short() {
		t.Skip("the kill test takes over a minute; run without -short")
	}
	binary, err := process.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	logf := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	plan := PlanFor(time.Minute, seed, binary, logf)
	if plan.Kind, err = pipeline.KindOf(source); err != nil {
		t.Fatal(err)
	}
	result, err := Run(context.Background(), plan)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if err := result.Err(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if result.Audit.Transactions < 15_000 || result.Kills < 50 {
		t.Fatalf("seed %d: only %d transactions with changes and %d kills", seed, result.Audit.Transactions, result.Kills)
	}
	fmt.Printf("itest: kill test: %d transactions, %d changes, %d kills: lost=0 duplicated=0 torn=0\n", result.Audit.Transactions, result.Audit.Changes, result.Kills)
}
