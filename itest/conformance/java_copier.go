package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	copierInput, copierOutput = "copier-in", "copier-out"
	copierMessages            = 6_000
	copierKills               = 4  // of these, every second is the node's
	copierStarts              = 12 // more starts than kills explain means that the copier keeps failing by itself
)

// copier runs TransactionalMessageCopier, which consumes, produces and commits offsets in one transaction and aborts some at
// random. Killed and restarted, and the node too, it copies every record exactly once and in order.
func (j *java) copier(ctx context.Context, env *Env, r *Result) error {
	node, err := env.Node(ctx, process.Config{})
	if err != nil {
		return err
	}
	for _, topic := range []string{copierInput, copierOutput} {
		if err := createTopic(ctx, node, topic, 1, nil); err != nil {
			return err
		}
	}
	if err := fillInOrder(ctx, node, copierInput, copierMessages); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(env.Seed, 2))
	kills, starts := 0, 0
	for done := false; !done; starts++ {
		if starts == copierStarts {
			return fmt.Errorf("TransactionalMessageCopier did not come to its end in %d starts; see %s", starts, filepath.Join(env.Dir, "copier.log"))
		}
		if done, err = j.copyOnce(ctx, env, node, rng, &kills); err != nil {
			return err
		}
	}
	if kills < copierKills {
		return fmt.Errorf("the copier ended after %d of %d kills: it has too little to copy", kills, copierKills)
	}
	r.Passes()
	records, err := readCommitted(ctx, node, copierOutput)
	if err != nil {
		return err
	}
	for i, rec := range records {
		if string(rec.Value) != strconv.Itoa(i) {
			r.Failed++
			return fmt.Errorf("record %d of the output, at offset %d, is %s: lost, doubled or reordered", i, rec.Offset, rec.Value)
		}
	}
	if len(records) != copierMessages {
		r.Failed++
		return fmt.Errorf("the output has %d records, the input %d", len(records), copierMessages)
	}
	r.Passes()
	return nil
}

// copyOnce starts the copier, and kills it or the node while it copies. It tells whether the copier came to its end.
func (j *java) copyOnce(ctx context.Context, env *Env, node *process.Rowtrail, rng *rand.Rand, kills *int) (done bool, err error) {
	progress := newWatch()
	processed, ended := 0, false
	copier, err := start(ctx, env.Dir, "copier.log", func(line string) {
		var status struct {
			Total int `json:"totalProcessed"`
		}
		if json.Unmarshal([]byte(line), &status) == nil {
			progress.update(func() { processed = status.Total })
		}
	}, j.command(nil, "org.apache.kafka.tools.TransactionalMessageCopier",
		"--broker-list", node.Kafka, "--input-topic", copierInput, "--input-partition", "0", "--output-topic", copierOutput,
		"--transactional-id", "copier", "--consumer-group", "copier", "--transaction-size", "40", "--enable-random-aborts",
		// A copier that was killed after it sent its offsets leaves them pending, and the next one waits for them before it
		// fences the first: until this timeout.
		"--use-group-metadata", "--transaction-timeout", "10000")...)
	if err != nil {
		return false, err
	}
	result := make(chan error, 1)
	go func() {
		err := copier.Wait()
		progress.update(func() { ended = true })
		result <- err
	}()
	for *kills < copierKills {
		var at int
		var over bool
		progress.update(func() { at = processed + copierMessages/(2*copierKills) })
		if err := progress.until(ctx, fmt.Sprintf("%d copied records", at), func() bool { over = ended; return processed >= at || ended }); err != nil {
			return false, err
		}
		if over {
			break
		}
		// A moment inside of a transaction, not just after one.
		time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
		*kills++
		if *kills%2 == 1 {
			copier.cmd.Process.Kill()
			<-result
			return false, nil
		}
		if err := node.Kill(); err != nil {
			return false, err
		}
		if err := restart(ctx, node); err != nil {
			return false, err
		}
	}
	return <-result == nil, nil
}

// fillInOrder writes the numbers from 0 to a topic's partition 0.
func fillInOrder(ctx context.Context, node *process.Rowtrail, topic string, count int) error {
	cl, err := node.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	var records []*kgo.Record
	for i := range count {
		records = append(records, &kgo.Record{Topic: topic, Key: []byte(strconv.Itoa(i % 100)), Value: []byte(strconv.Itoa(i))})
	}
	return cl.ProduceSync(ctx, records...).FirstErr()
}
