package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/itest/netns"
	"github.com/rowtrail/rowtrail/itest/process"
)

// TestTwoMinutes is the two-minute version of the chaos suite.
func TestTwoMinutes(t *testing.T) {
	if testing.Short() {
		t.Skip("chaos takes over two minutes; run without -short")
	}
	if err := netns.Permitted(); err != nil {
		t.Skip(err)
	}
	binary, err := process.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	logf := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	result, err := Run(context.Background(), Plan{Duration: 2 * time.Minute, Seed: seed, Binary: binary, Logf: logf})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if err := result.Err(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	// A run that did nothing proves nothing. How much one does is the machine's; an idle one does twenty times this.
	if len(result.Faults) < 3 || result.Committed < 20 || result.Sent < 200 || result.Edges < 200 || result.Acked < 300 || result.Asked < 300 || result.Compared < 100 {
		t.Fatalf("seed %d: too little happened: %s", seed, result)
	}
	fmt.Printf("itest: chaos: %s\n", result)
}
