package main

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/itest/checker/load"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	sampleEvery   = 250 * time.Millisecond
	sampleTimeout = time.Second
)

// rounds are those of compaction on one topic that the node's metrics told of: what a node does between two looks, and before
// it is killed, is not counted.
type rounds struct {
	line *regexp.Regexp
	mu   sync.Mutex
	seen map[string]bool // partition and time
}

func newRounds(topic string) *rounds {
	return &rounds{seen: map[string]bool{},
		line: regexp.MustCompile(`(?m)^rowtrail_partition_last_compaction_seconds\{partition="\d+",topic="` + regexp.QuoteMeta(topic) + `"\} \S+$`)}
}

func (r *rounds) take(metrics string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.line.FindAllString(metrics, -1) {
		r.seen[line] = true
	}
}

func (r *rounds) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// watch looks until the context ends. A node that is down or paused tells nothing.
func (r *rounds) watch(ctx context.Context, node *process.Rowtrail) {
	for ctx.Err() == nil {
		asked, cancel := context.WithTimeout(ctx, sampleTimeout)
		if text, err := node.Metrics(asked); err == nil {
			r.take(text)
		}
		cancel()
		sleep.For(ctx, sampleEvery)
	}
}

// await waits for the first round.
func (r *rounds) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, load.Settle)
	defer cancel()
	for r.count() == 0 {
		if !sleep.For(ctx, sampleEvery) {
			return fmt.Errorf("no round of compaction on %s: %w", load.StateTopic, ctx.Err())
		}
	}
	return nil
}
