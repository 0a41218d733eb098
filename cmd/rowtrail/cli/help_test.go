package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite the generated files")

const (
	cliDoc   = "../../../docs/cli.md"
	docBegin = "<!-- commands: generated from the help texts by `go test ./cmd/rowtrail/cli -run TestHelp -update` -->\n"
	docEnd   = "<!-- end of commands -->\n"
)

// TestHelp is the golden test of every help text, and keeps docs/cli.md in step with them.
func TestHelp(t *testing.T) {
	var b strings.Builder
	root := (&app{}).root()
	commands := []*cobra.Command{root}
	for _, c := range root.Commands() {
		commands = append(append(commands, c), c.Commands()...)
	}
	for _, c := range commands {
		name := strings.TrimPrefix(c.CommandPath(), "rowtrail ")
		if name == "help" || name == "completion" {
			continue
		}
		var out, errs bytes.Buffer
		arguments := []string{"--help"}
		if c.HasParent() {
			arguments = append(strings.Fields(name), "--help")
			if c.Example == "" || c.Short == "" {
				t.Errorf("%s has no example or no summary", name)
			}
		}
		if code := Run(arguments, &out, &errs, "test"); code != ExitOK || errs.Len() > 0 {
			t.Errorf("%s --help: exit %d, %s", name, code, errs.String())
		}
		fmt.Fprintf(&b, "## `%s`\n\n```text\n%s```\n\n", c.CommandPath(), out.String())
	}
	doc, err := os.ReadFile(cliDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(doc), docBegin)
	_, after, closed := strings.Cut(rest, docEnd)
	if !found || !closed {
		t.Fatalf("%s lost its markers", cliDoc)
	}
	want := before + docBegin + b.String() + docEnd + after
	if *update {
		if err := os.WriteFile(cliDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(doc) != want {
		t.Errorf("%s is stale: run go test ./cmd/rowtrail/cli -run TestHelp -update", cliDoc)
	}
}
