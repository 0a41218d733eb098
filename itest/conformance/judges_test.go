package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/toolchain"
)

// wholeOutput is what an application without faults makes of the events.
func wholeOutput(s *shopEvents) map[string][]*kgo.Record {
	out := map[string][]*kgo.Record{}
	add := func(topic, key, value string) {
		out[topic] = append(out[topic], &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value), Offset: int64(len(out[topic]))})
	}
	counts, sums := map[string]int{}, map[string]int64{}
	for _, event := range s.events {
		f := strings.Split(event, ",")
		user, product := f[0], f[2]
		amount, _ := strconv.ParseInt(f[3], 10, 64)
		counts[user]++
		sums[product] += amount
		add("counts", user, strconv.Itoa(counts[user]))
		add("sums", product, strconv.FormatInt(sums[product], 10))
		add("enriched", user, strings.Join(f[1:], ",")+","+s.names[user])
		add("named", user, fmt.Sprintf("%s %d", s.names[user], counts[user]))
	}
	return out
}

func TestStreamsJudgesPassTheWholeOutputAndRefuseEveryFault(t *testing.T) {
	s := newShopEvents(7)
	s.more(500)
	whole := wholeOutput(s)
	judges := map[string]func([]*kgo.Record) error{
		"counts": s.checkCounts, "sums": s.checkSums, "enriched": s.checkEnriched, "named": s.checkNamed,
	}
	for topic, judge := range judges {
		records := whole[topic]
		if err := judge(records); err != nil {
			t.Errorf("%s: a whole output is refused: %v", topic, err)
		}
		wrong := slices.Clone(records)
		wrong[len(wrong)-1] = &kgo.Record{Topic: topic, Key: wrong[len(wrong)-1].Key, Value: []byte("0,wrong")}
		if judge(wrong) == nil {
			t.Errorf("%s: a wrong last value passes", topic)
		}
		if topic == "named" {
			continue // a changelog: only its last values count
		}
		if judge(records[:len(records)-1]) == nil {
			t.Errorf("%s: a lost record passes", topic)
		}
		if judge(append(slices.Clone(records), records[len(records)-1])) == nil {
			t.Errorf("%s: a doubled record passes", topic)
		}
	}
}

// verifiableLines are the outputs of a producer and a consumer without faults.
func verifiableLines() (sent, consumed []string) {
	for i := range verifiableMessages {
		p, offset := i%3, i/3
		sent = append(sent, fmt.Sprintf(`{"name":"producer_send_success","value":"%d","partition":%d,"offset":%d}`, i, p, offset))
		consumed = append(consumed, fmt.Sprintf(`{"name":"record_data","value":"%d","partition":%d,"offset":%d}`, i, p, offset))
	}
	return append(sent, `{"name":"shutdown_complete"}`), append(consumed, `{"name":"shutdown_complete"}`)
}

func judgeVerifiable(sent, consumed []string) error {
	v := newVerifiableRun()
	for _, line := range sent {
		v.sent(line)
	}
	for _, line := range consumed {
		v.consumed(line)
	}
	return v.judge(&Result{})
}

func TestVerifiableJudgePassesAWholeRunAndRefusesEveryFault(t *testing.T) {
	sent, consumed := verifiableLines()
	if err := judgeVerifiable(sent, consumed); err != nil {
		t.Fatalf("a whole run is refused: %v", err)
	}
	again := slices.Insert(slices.Clone(consumed), 300, consumed[200:300]...)
	if err := judgeVerifiable(sent, again); err != nil {
		t.Errorf("a reader that goes back to its commit is refused: %v", err)
	}
	faults := map[string]func(sent, consumed []string) ([]string, []string){
		"a lost record": func(s, c []string) ([]string, []string) { return s, slices.Delete(c, 100, 101) },
		"a lost send":   func(s, c []string) ([]string, []string) { return slices.Delete(s, 100, 101), c },
		"a refused send": func(s, c []string) ([]string, []string) {
			return append(s, `{"name":"producer_send_error","value":"5"}`), c
		},
		"no close":           func(s, c []string) ([]string, []string) { return s, c[:len(c)-1] },
		"records exchanged":  func(s, c []string) ([]string, []string) { c[0], c[3] = c[3], c[0]; return s, c },
		"values exchanged":   func(s, c []string) ([]string, []string) { c[0] = strings.Replace(c[0], `"0"`, `"3"`, 1); return s, c },
		"a record rewritten": func(s, c []string) ([]string, []string) { return s, append(c, strings.Replace(c[9], `"9"`, `"8"`, 1)) },
		"a reordered send": func(s, c []string) ([]string, []string) {
			s[0], s[3] = strings.Replace(s[0], `"0"`, `"3"`, 1), strings.Replace(s[3], `"3"`, `"0"`, 1)
			c[0], c[3] = strings.Replace(c[0], `"0"`, `"3"`, 1), strings.Replace(c[3], `"3"`, `"0"`, 1)
			return s, c
		},
	}
	for name, fault := range faults {
		s, c := fault(slices.Clone(sent), slices.Clone(consumed))
		if judgeVerifiable(s, c) == nil {
			t.Errorf("%s passes", name)
		}
	}
}

func TestWatchWaitsForAConditionAndForItsContext(t *testing.T) {
	w, n := newWatch(), 0
	go func() {
		for range 100 {
			w.update(func() { n++ })
		}
	}()
	if err := w.until(t.Context(), "100", func() bool { return n == 100 }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := w.until(ctx, "101", func() bool { return n == 101 }); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "101") {
		t.Errorf("the wait for what never comes ended with %v", err)
	}
}

func TestHashTellsWhetherAClientHasToBeBuiltAgain(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		sum, err := toolchain.HashFiles(dir)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := write("a", "1")
	if write("a", "1") != first {
		t.Error("the same files have another sum")
	}
	if write("a", "2") == first || write("a", "1") != first || write("b", "") == first {
		t.Error("a changed or a new file has no part in the sum")
	}
}

func TestAMissingToolThatCannotBeInstalledIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := (&toolchain.Chain{}).Need(t.Context(), toolsOf([]Tool{{"mvn", []string{"maven"}}}...))
	if err == nil || !strings.Contains(err.Error(), "mvn") || !strings.Contains(err.Error(), "maven") {
		t.Errorf("a missing tool gives %v", err)
	}
}

func TestResultsOfClientsAreCounted(t *testing.T) {
	r := &Result{}
	r.count("pass one\nnoise passes\nskip two: API 68\nfail three\npass four\n")
	if r.Passed != 2 || r.Failed != 2 {
		t.Errorf("counted %+v", r)
	}
}

func TestResultsOfGoTestsAreCountedAndUnknownSkipsNamed(t *testing.T) {
	const out = "--- PASS: TestA (0.01s)\n    --- PASS: TestA/sub (0.00s)\n    --- SKIP: TestA/other (0.00s)\n--- FAIL: TestB (0.02s)\n" +
		"--- SKIP: TestC (0.00s)\n--- SKIP: TestD (0.00s)\n"
	r := &Result{}
	unexpected := r.countGo(out, map[string]string{"TestC": "a reason"})
	if r.Passed != 1 || r.Failed != 1 || r.Skipped != 1 || !slices.Equal(unexpected, []string{"TestA/other", "TestD"}) {
		t.Errorf("counted %+v, skips without a reason %q", r, unexpected)
	}
}

func TestListOfLibrdkafkaHasEveryNumberOnceAndAReasonForEachThatIsLeftOut(t *testing.T) {
	run, excluded, err := librdkafkaTests(librdkafkaList)
	if err != nil || len(run) < 75 || len(excluded) == 0 {
		t.Errorf("%d tests run, %d do not: %v", len(run), len(excluded), err)
	}
	for _, wrong := range []string{"0001\n0001", "001", "0001 - ", "0001 because"} {
		if _, _, err := librdkafkaTests(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
