package docs

import (
	"strings"
	"testing"
	"time"
)

// TestBrokerPageCommands runs every command of docs/broker.md in order, and sees the values go that the page says go.
func TestBrokerPageCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a round of compaction; run without -short")
	}
	r := newRunner(t)
	defer r.stop()
	answers := map[string]string{}
	for _, block := range shellBlocks(t, "docs/broker.md") {
		for _, line := range block {
			switch {
			case line == "make build":
				requireTarget(t, "build")
			case strings.Contains(line, " serve "):
				r.serve(line)
			default:
				answers[line] = r.run(line)
			}
		}
	}
	for command, want := range map[string]string{
		"kcat -C -b 127.0.0.1:9092 -t orders -o beginning -e":            "paid",
		"bin/rowtrail state prices":                                      "tea",
		"bin/rowtrail groups describe billing":                           "orders",
		"bin/rowtrail topics delete-records orders --before=-7d":         "add --execute",
		"curl -s http://127.0.0.1:8080/v1/topics/prices":                 `"dirtyRatio":1`,
		"bin/rowtrail groups reset billing --topic orders --to-earliest": "add --execute",
	} {
		if !strings.Contains(answers[command], want) {
			t.Errorf("%s: %q is not in %q", command, want, answers[command])
		}
	}
	versions := func(text string) int { return strings.Count(text, "tea") }
	history := "bin/rowtrail history prices tea"
	if versions(answers[history]) < 3 {
		t.Errorf("%s: %q", history, answers[history])
	}
	deadline := time.Now().Add(time.Minute)
	for versions(r.run("bin/rowtrail tail prices --from beginning")) != 1 || !strings.Contains(r.run("curl -s http://127.0.0.1:8080/v1/topics/prices"), `"lastRound"`) {
		if time.Now().After(deadline) {
			t.Fatal("the older values of a compacted topic are there after a minute")
		}
		time.Sleep(time.Second)
	}
}
