package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where the suites' last results are kept, and the page that shows them; both below the repository's root.
const (
	resultsFile = "itest/conformance/results.json"
	clientsPage = "docs/clients.md"
	tableBegin  = "<!-- suites: written by `make conformance UPDATE=1` -->"
	tableEnd    = "<!-- end of suites -->"
)

// outcome is what the last run of a suite counted, and of which client.
type outcome struct {
	Client  string `json:"client"`
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed"`
	Skipped int    `json:"skipped"`
}

func (o outcome) String() string { return fmt.Sprintf("%d / %d / %d", o.Passed, o.Failed, o.Skipped) }

// outcomes are the last results by the names of suites.
type outcomes map[string]outcome

func readOutcomes(root string) (outcomes, error) {
	o := outcomes{}
	b, err := os.ReadFile(filepath.Join(root, resultsFile))
	if errors.Is(err, os.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return nil, fmt.Errorf("%s: %w", resultsFile, err)
	}
	return o, nil
}

// record takes in a result; it replaces the one of the suite's run before.
func (o outcomes) record(s Suite, r *Result) {
	failed := r.Failed
	if r.Err != nil {
		failed = max(failed, 1)
	}
	o[s.Name] = outcome{Client: s.Client, Passed: r.Passed, Failed: failed, Skipped: r.Skipped}
}

// lacks names what the page cannot show: suites that have not run with the client that is pinned, or failed, and results of
// suites that are no more.
func (o outcomes) lacks(suites []Suite) (list []string) {
	known := map[string]bool{}
	for _, s := range suites {
		known[s.Name] = true
		switch got, ok := o[s.Name]; {
		case !ok:
			list = append(list, s.Name+" has no result")
		case got.Client != s.Client:
			list = append(list, fmt.Sprintf("%s: the result is of %s, and %s is pinned", s.Name, got.Client, s.Client))
		case got.Failed > 0 || got.Passed == 0:
			list = append(list, fmt.Sprintf("%s did not pass: %s", s.Name, got))
		}
	}
	for name := range o {
		if !known[name] {
			list = append(list, name+" is no suite any more")
		}
	}
	return list
}

// update writes the results and the page.
func (o outcomes) update(root string, suites []Suite) error {
	known := map[string]bool{}
	for _, s := range suites {
		known[s.Name] = true
	}
	for name := range o {
		if !known[name] {
			delete(o, name)
		}
	}
	b, err := json.MarshalIndent(o, "", "  ") // sorted by name
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, resultsFile), append(b, '\n'), 0o644); err != nil {
		return err
	}
	file := filepath.Join(root, clientsPage)
	before, _, after, err := cutPage(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(before+tableBegin+o.table(suites)+tableEnd+after), 0o644)
}

// table is what stands between the two marks of the page.
func (o outcomes) table(suites []Suite) string {
	var b strings.Builder
	b.WriteString("\n| suite | client | judges | passed / failed / skipped |\n| --- | --- | --- | --- |\n")
	for _, s := range suites {
		result := "has not run"
		if got, ok := o[s.Name]; ok {
			result = got.String()
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s.Name, s.Client, s.Judges, result)
	}
	b.WriteString("\n")
	return b.String()
}

// cutPage parts a page at the marks of its table.
func cutPage(file string) (before, table, after string, err error) {
	page, err := os.ReadFile(file)
	if err != nil {
		return "", "", "", err
	}
	before, rest, ok := strings.Cut(string(page), tableBegin)
	table, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		return "", "", "", fmt.Errorf("%s lacks the lines %q and %q", file, tableBegin, tableEnd)
	}
	return before, table, after, nil
}
