package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"

	"github.com/rowtrail/rowtrail/itest/process"
)

// kcatVersion is what Debian and Ubuntu bring; the suite checks it.
const kcatVersion = "1.7"

func kcatSuites(string) ([]Suite, error) {
	return []Suite{{
		Name: "kcat/commands", Client: "kcat " + kcatVersion,
		Judges: "metadata, codecs, headers, nulls, times, groups, transactions",
		Tools:  []Tool{{"kcat", []string{"kcat"}}}, Run: kcat,
	}}, nil
}

// kcatStep is one command line of kcat, and the whole output that it must have.
type kcatStep struct {
	args  []string
	stdin string
	want  string // all of standard output; or, with match, an expression that it matches
	match bool
}

func kcatSteps() []kcatStep {
	produce := func(topic, stdin string, more ...string) kcatStep {
		return kcatStep{args: append([]string{"-P", "-t", topic}, more...), stdin: stdin}
	}
	consume := func(topic, want string, more ...string) kcatStep {
		return kcatStep{args: append([]string{"-C", "-t", topic, "-e", "-q", "-o", "beginning"}, more...), want: want}
	}
	steps := []kcatStep{{args: []string{"-V"}, want: regexp.QuoteMeta("Version " + kcatVersion), match: true}}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		topic, value := "codec-"+codec, strings.Repeat("the same again and again ", 40)
		steps = append(steps,
			produce(topic, "a:"+value+"\nb:"+value+"\n", "-K:", "-X", "compression.codec="+codec),
			consume(topic, "a:"+value+"\nb:"+value+"\n", "-K:"))
	}
	return append(steps,
		// %S and %K are lengths; -1 is null.
		produce("nulls", "k:\n:v\n", "-K:", "-Z"),
		consume("nulls", "1 k -1 \n-1  1 v\n", "-f", "%K %k %S %s\n"),
		produce("headers", "v\n", "-H", "a=1", "-H", "a=2", "-H", "b"),
		consume("headers", "a=1,a=2,b=NULL\n", "-f", "%h\n"),
		produce("group", "1\n2\n3\n"),
		kcatStep{args: []string{"-G", "readers", "-q", "-c", "3", "-X", "auto.offset.reset=earliest", "group"}, want: "1\n2\n3\n"},
		produce("group", "4\n5\n"),
		kcatStep{args: []string{"-G", "readers", "-q", "-c", "2", "-X", "auto.offset.reset=earliest", "group"}, want: "4\n5\n"},
		kcatStep{args: []string{"-G", "others", "-q", "-c", "5", "-X", "auto.offset.reset=earliest", "group"}, want: "1\n2\n3\n4\n5\n"},
		consume("group", "4\n5\n", "-o", "-2"),
		consume("group", "2\n3\n", "-o", "1", "-c", "2"),
		produce("transactions", "1\n2\n", "-X", "transactional.id=kcat"),
		consume("transactions", "1\n2\n", "-X", "isolation.level=read_committed"),
		produce("idempotent", "1\n2\n", "-X", "enable.idempotence=true"),
		consume("idempotent", "0 1\n1 2\n", "-f", "%o %s\n"),
		kcatStep{args: []string{"-Q", "-t", "group:0:0"}, want: `group \[0\] offset 0\n`, match: true},
		kcatStep{args: []string{"-Q", "-t", "group:0:-1"}, want: `group \[0\] offset 5\n`, match: true},
		kcatStep{args: []string{"-L", "-t", "group"}, want: `topic "group" with 1 partitions:\s+partition 0, leader 1, replicas: 1, isrs: 1`, match: true},
	)
}

// kcat runs its steps one after the other against one node.
func kcat(ctx context.Context, env *Env, r *Result) error {
	node, err := env.Node(ctx, process.Config{})
	if err != nil {
		return err
	}
	for _, step := range kcatSteps() {
		args := append([]string{"-b", node.Kafka}, step.args...)
		got, err := kcatRun(ctx, args, step.stdin)
		line := "kcat " + strings.Join(args, " ")
		r.Output = line + "\n" + got
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", line, err)
		case step.match && !regexp.MustCompile(step.want).MatchString(got):
			return fmt.Errorf("%s: the output does not match %s", line, step.want)
		case !step.match && got != step.want:
			return fmt.Errorf("%s: the output is not %q", line, step.want)
		}
		r.Passes()
	}
	return kcatMetadata(ctx, node, r)
}

// kcatMetadata looks at the metadata that kcat prints as JSON.
func kcatMetadata(ctx context.Context, node *process.Rowtrail, r *Result) error {
	out, err := kcatRun(ctx, []string{"-b", node.Kafka, "-L", "-J"}, "")
	if err != nil {
		return err
	}
	r.Output = out
	var got struct {
		ControllerID int `json:"controllerid"`
		Brokers      []struct {
			ID   int    `json:"id"`
			Name string `json:"name"`
		} `json:"brokers"`
		Topics []struct {
			Topic      string `json:"topic"`
			Partitions []struct {
				Leader int `json:"leader"`
			} `json:"partitions"`
		} `json:"topics"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		return fmt.Errorf("kcat -L -J: %w", err)
	}
	if got.ControllerID != 1 || len(got.Brokers) != 1 || got.Brokers[0].ID != 1 || got.Brokers[0].Name != node.Kafka {
		return fmt.Errorf("kcat -L -J: brokers %+v, controller %d", got.Brokers, got.ControllerID)
	}
	names := map[string]int{}
	for _, t := range got.Topics {
		names[t.Topic] = len(t.Partitions)
	}
	if names["group"] != 1 || names["codec-zstd"] != 1 || names["__consumer_offsets"] == 0 {
		return fmt.Errorf("kcat -L -J: partitions of topics %v", names)
	}
	r.Passes()
	return nil
}

// kcatRun answers standard output, and standard error with an error.
func kcatRun(ctx context.Context, args []string, stdin string) (string, error) {
	cmd := exec.CommandContext(ctx, "kcat", args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(out), nil
}
