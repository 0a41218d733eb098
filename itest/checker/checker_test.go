package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
)

// TestMinute is the one-minute version of the checker.
func TestMinute(t *testing.T) {
	if testing.Short() {
		t.Skip("the checker takes over a minute; run without -short")
	}
	binary, err := process.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	logf := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	result, err := Run(context.Background(), Plan{Duration: time.Minute, Seed: seed, Binary: binary, Logf: logf})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if err := result.Err(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	// A run that did nothing proves nothing. How much one does is the machine's; an idle one does a hundred times this.
	if result.Committed < 5 || result.Aborted < 1 || result.Sent < 50 || result.Edges < 50 || result.Kills < 1 || result.Network.Copied < 1 {
		t.Fatalf("seed %d: too little happened: %s", seed, result)
	}
	fmt.Printf("itest: checker: %s\n", result)
}

// Rounds of compaction are those of the topic, each once.
func TestRoundsAreThoseOfTheTopic(t *testing.T) {
	r := newRounds("state")
	r.take("# HELP rowtrail_partition_last_compaction_seconds x\n" +
		"rowtrail_partition_last_compaction_seconds{partition=\"0\",topic=\"state\"} 17.5\n" +
		"rowtrail_partition_last_compaction_seconds{partition=\"0\",topic=\"__consumer_offsets\"} 18\n" +
		"rowtrail_partition_dirty_bytes{partition=\"0\",topic=\"state\"} 3\n")
	if got := r.count(); got != 1 {
		t.Fatalf("%d rounds", got)
	}
	r.take("rowtrail_partition_last_compaction_seconds{partition=\"0\",topic=\"state\"} 17.5\n" +
		"rowtrail_partition_last_compaction_seconds{partition=\"1\",topic=\"state\"} 17.5\n" +
		"rowtrail_partition_last_compaction_seconds{partition=\"1\",topic=\"state\"} 19\n")
	if got := r.count(); got != 3 {
		t.Errorf("%d rounds", got)
	}
}
