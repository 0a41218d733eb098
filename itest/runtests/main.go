// Command runtests runs go test over the packages it is given and prints what a reader needs: one line per package, the
// whole output of what failed, every skip with its reason, and a closing line that counts passed, failed and skipped tests.
//
//	go run ./itest/runtests -timeout 30m ./...
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sort"
	"strings"
	"time"
)

// event is one line of `go test -json`.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// slowest is how many of the slowest tests the summary names.
const slowest = 8

type result struct {
	name    string
	elapsed float64
}

type summary struct {
	passed, failed, skipped int
	skips                   []string
	failures                []string
	times                   []result
	output                  map[string][]string // output of running tests and packages
}

func main() {
	args := append([]string{"test", "-json"}, os.Args[1:]...)
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests: start go test:", err)
		os.Exit(2)
	}
	started := time.Now()
	s := &summary{output: map[string][]string{}}
	scanner := bufio.NewScanner(out)
	scanner.Buffer(make([]byte, 0, 1<<20), 16<<20)
	for scanner.Scan() {
		var e event
		if json.Unmarshal(scanner.Bytes(), &e) != nil {
			fmt.Println(scanner.Text()) // a build error, printed as it is
			continue
		}
		s.add(e)
	}
	scanErr := scanner.Err()
	err = cmd.Wait()
	s.print(time.Since(started))
	if scanErr != nil {
		fmt.Fprintln(os.Stderr, "runtests: read test output:", scanErr)
	}
	if err != nil || scanErr != nil || s.failed > 0 {
		os.Exit(1)
	}
}

func (s *summary) add(e event) {
	id := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		s.output[id] = append(s.output[id], e.Output)
		// Progress of long tests and the servers in use are shown as they come.
		if text := strings.TrimSpace(e.Output); strings.HasPrefix(text, "itest:") {
			fmt.Println(text)
		}
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	lines := s.output[id]
	delete(s.output, id)
	short := strings.TrimPrefix(e.Package, "github.com/rowtrail/rowtrail/")
	if e.Test == "" {
		s.finishPackage(e, short, lines)
		return
	}
	switch e.Action {
	case "pass":
		s.passed++
	case "skip":
		s.skipped++
		s.skips = append(s.skips, fmt.Sprintf("%s %s: %s", short, e.Test, reason(lines)))
	case "fail":
		s.failed++
		s.failures = append(s.failures, short+" "+e.Test)
		fmt.Printf("--- FAIL: %s %s (%.1fs)\n%s", short, e.Test, e.Elapsed, strings.Join(lines, ""))
	}
	s.times = append(s.times, result{short + " " + e.Test, e.Elapsed})
}

func (s *summary) finishPackage(e event, short string, lines []string) {
	switch e.Action {
	case "fail":
		fmt.Printf("FAIL %s (%.1fs)\n%s", short, e.Elapsed, strings.Join(lines, ""))
		for id, unfinished := range s.output { // of the test that its process ended in
			if strings.HasPrefix(id, e.Package+" ") {
				fmt.Print(strings.Join(unfinished, ""))
				delete(s.output, id)
			}
		}
		s.failures = append(s.failures, short)
		if s.failed == 0 {
			s.failed++ // a package that failed outside any test: build error, crash
		}
	case "pass":
		fmt.Printf("ok   %s (%.1fs)\n", short, e.Elapsed)
	}
}

// reason is the text a test gave t.Skip: the last indented line of its output.
func reason(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		text := strings.TrimSpace(lines[i])
		if text != "" && !strings.HasPrefix(text, "---") && !strings.HasPrefix(text, "===") {
			return text
		}
	}
	return "no reason given"
}

func (s *summary) print(took time.Duration) {
	sort.Slice(s.times, func(i, j int) bool { return s.times[i].elapsed > s.times[j].elapsed })
	if len(s.times) > slowest {
		s.times = s.times[:slowest]
	}
	fmt.Printf("\nslowest tests:\n")
	for _, r := range s.times {
		fmt.Printf("  %6.1fs %s\n", r.elapsed, r.name)
	}
	if len(s.skips) > 0 {
		fmt.Println("skipped, and why:")
		for _, text := range s.skips {
			fmt.Println("  " + text)
		}
	}
	if len(s.failures) > 0 {
		fmt.Println("failed:")
		for _, text := range s.failures {
			fmt.Println("  " + text)
		}
	}
	fmt.Printf("took %s\n%d passed, %d failed, %d skipped\n", took.Round(time.Second), s.passed, s.failed, s.skipped)
}
