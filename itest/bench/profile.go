package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rowtrail/rowtrail/itest/process"
)

// profileNode saves CPU profiles of one second each in a folder ("": none) while a run goes on; the function it returns ends
// that. label is part of the files' names.
func profileNode(folder string, node *process.Rowtrail, label string) (stop func()) {
	if folder == "" {
		return func() {}
	}
	label = strings.NewReplacer(" ", "-", ",", "").Replace(label)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			var text string
			if node.JSON(ctx, "/debug/pprof/profile?seconds=1", &text) == nil {
				os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-%03d.pprof", label, n)), []byte(text), 0o644)
			}
		}
	}()
	return func() { cancel(); <-done }
}
