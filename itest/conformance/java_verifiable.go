package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rowtrail/rowtrail/itest/process"
)

const (
	verifiableTopic    = "verifiable"
	verifiableMessages = 12_000
	verifiableRate     = "1500" // messages a second, so that kills fall into the middle
	verifiableKills    = 2
)

// verifiableEvent is a line that VerifiableProducer and VerifiableConsumer print.
type verifiableEvent struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Message   string `json:"message"`
	Exception string `json:"exception"`
}

type place struct {
	partition int32
	offset    int64
}

// verifiableRun is what both programs reported.
type verifiableRun struct {
	*watch
	acked     map[string]place // value -> where the producer was told it is
	errors    []string
	produced  bool             // the producer ended by itself
	read      map[place]string // where -> value
	next      map[int32]int64  // per partition, the offset that has to come next
	violation []string
	shutdown  bool
}

func newVerifiableRun() *verifiableRun {
	return &verifiableRun{watch: newWatch(), acked: map[string]place{}, read: map[place]string{}, next: map[int32]int64{}}
}

// verifiable runs VerifiableProducer and VerifiableConsumer over kills of the node: what was acknowledged is read, where
// the producer was told it is, in the order it was sent, once.
func (j *java) verifiable(ctx context.Context, env *Env, r *Result) error {
	node, err := env.Node(ctx, process.Config{})
	if err != nil {
		return err
	}
	if err := createTopic(ctx, node, verifiableTopic, 3, nil); err != nil {
		return err
	}
	// The tool's own default is no retries, which turns idempotence off.
	config := filepath.Join(env.Dir, "producer.properties")
	if err := os.WriteFile(config, []byte("enable.idempotence=true\nretries=1000000\nmax.in.flight.requests.per.connection=5\n"), 0o644); err != nil {
		return err
	}
	v := newVerifiableRun()
	consumer, err := start(ctx, env.Dir, "consumer.log", v.consumed, j.command(nil, "org.apache.kafka.tools.VerifiableConsumer",
		"--bootstrap-server", node.Kafka, "--topic", verifiableTopic, "--group-id", "verifiable", "--verbose", "--session-timeout", "10000")...)
	if err != nil {
		return err
	}
	producer, err := start(ctx, env.Dir, "producer.log", v.sent, j.command(nil, "org.apache.kafka.tools.VerifiableProducer",
		"--bootstrap-server", node.Kafka, "--topic", verifiableTopic, "--max-messages", strconv.Itoa(verifiableMessages),
		"--throughput", verifiableRate, "--command-config", config)...)
	if err != nil {
		return errors.Join(err, consumer.Kill())
	}
	if err := v.storm(ctx, env, node); err != nil {
		return errors.Join(err, producer.Kill(), consumer.Kill())
	}
	if err := producer.Wait(); err != nil {
		return errors.Join(fmt.Errorf("VerifiableProducer: %w", err), consumer.Kill())
	}
	err = v.until(ctx, "all records to be read", func() bool { return len(v.read) >= verifiableMessages })
	if err = errors.Join(err, consumer.Stop()); err != nil {
		return fmt.Errorf("VerifiableConsumer read %d of %d: %w", len(v.read), verifiableMessages, err)
	}
	return v.judge(r)
}

// storm kills the node while both programs are at work.
func (v *verifiableRun) storm(ctx context.Context, env *Env, node *process.Rowtrail) error {
	rng := rand.New(rand.NewPCG(env.Seed, 1))
	for i := range verifiableKills {
		at := verifiableMessages*(i+1)/(verifiableKills+2) + rng.IntN(verifiableMessages/8)
		if err := v.until(ctx, fmt.Sprintf("%d acknowledged messages and a read one", at), func() bool {
			return len(v.acked) >= at && len(v.read) > 0 // both programs are at work
		}); err != nil {
			return err
		}
		if err := node.Kill(); err != nil {
			return err
		}
		if err := restart(ctx, node); err != nil {
			return err
		}
	}
	return v.until(ctx, "the producer's end", func() bool { return v.produced })
}

// sent takes a line of the producer.
func (v *verifiableRun) sent(line string) {
	var e verifiableEvent
	if json.Unmarshal([]byte(line), &e) != nil {
		return
	}
	v.update(func() {
		switch e.Name {
		case "producer_send_success":
			if at, twice := v.acked[e.Value]; twice {
				v.violation = append(v.violation, fmt.Sprintf("message %s was acknowledged at %v and %v", e.Value, at, place{e.Partition, e.Offset}))
			}
			v.acked[e.Value] = place{e.Partition, e.Offset}
		case "producer_send_error":
			v.errors = append(v.errors, e.Value+": "+e.Exception+": "+e.Message)
		case "shutdown_complete":
			v.produced = true
		}
	})
}

// consumed takes a line of the consumer.
func (v *verifiableRun) consumed(line string) {
	var e verifiableEvent
	if json.Unmarshal([]byte(line), &e) != nil {
		return
	}
	v.update(func() {
		switch e.Name {
		case "record_data":
			at := place{e.Partition, e.Offset}
			if before, again := v.read[at]; again {
				if before != e.Value { // a reader that goes back to its last commit finds the same records
					v.violation = append(v.violation, fmt.Sprintf("%v held %s and later %s", at, before, e.Value))
				}
				return
			}
			if e.Offset != v.next[e.Partition] {
				v.violation = append(v.violation, fmt.Sprintf("%v was read when offset %d was due", at, v.next[e.Partition]))
			}
			v.next[e.Partition] = e.Offset + 1
			v.read[at] = e.Value
		case "shutdown_complete":
			v.shutdown = true
		}
	})
}

func (v *verifiableRun) judge(r *Result) error {
	check := func(ok bool, format string, args ...any) {
		if ok {
			r.Passes()
		} else {
			r.Failed++
			v.violation = append(v.violation, fmt.Sprintf(format, args...))
		}
	}
	r.Failed += len(v.violation)
	check(len(v.errors) == 0, "%d sends failed, the first: %v", len(v.errors), v.errors)
	check(len(v.acked) == verifiableMessages, "%d of %d messages were acknowledged", len(v.acked), verifiableMessages)
	check(len(v.read) == verifiableMessages, "%d records of %d messages were read", len(v.read), verifiableMessages)
	check(v.shutdown, "the consumer did not say that it had closed")
	missing, last := 0, map[int32]int64{}
	ordered := true
	for i := range verifiableMessages {
		at, ok := v.acked[strconv.Itoa(i)]
		if !ok {
			continue
		}
		if v.read[at] != strconv.Itoa(i) {
			missing++
		}
		if before, seen := last[at.partition]; seen && at.offset <= before {
			ordered = false
		}
		last[at.partition] = at.offset
	}
	check(missing == 0, "%d acknowledged messages are not where the producer was told they are", missing)
	check(ordered, "messages of one partition are not in the order they were sent")
	if len(v.violation) > 0 {
		return fmt.Errorf("%d violations, the first: %s", len(v.violation), v.violation[0])
	}
	return nil
}
