package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	streamsUsers      = 60
	streamsProducts   = 20
	streamsRounds     = 4     // in each, something is killed while it works
	streamsRound      = 2_500 // events
	streamsPartitions = 3
	streamsNodeKill   = 2 // the round in which the node is killed rather than the application
)

func streamsOutputs() []string { return []string{"counts", "sums", "enriched", "named"} }

// shopEvents are the input of the application, and what a plain computation makes of it.
type shopEvents struct {
	rng    *rand.Rand
	names  map[string]string
	events []string         // user,id,product,amount
	counts map[string]int   // by user
	sums   map[string]int64 // by product
}

func newShopEvents(seed uint64) *shopEvents {
	s := &shopEvents{rng: rand.New(rand.NewPCG(seed, 3)), names: map[string]string{}, counts: map[string]int{}, sums: map[string]int64{}}
	for i := range streamsUsers {
		s.names["user"+strconv.Itoa(i)] = fmt.Sprintf("name-%d-%d", i, s.rng.IntN(1000))
	}
	return s
}

// more makes events; few users have most of them.
func (s *shopEvents) more(count int) []*kgo.Record {
	var records []*kgo.Record
	for range count {
		user := "user" + strconv.Itoa(s.rng.IntN(1+s.rng.IntN(streamsUsers)))
		product, amount := "product"+strconv.Itoa(s.rng.IntN(streamsProducts)), s.rng.Int64N(1000)
		event := fmt.Sprintf("%d,%s,%d", len(s.events), product, amount)
		s.events = append(s.events, user+","+event)
		s.counts[user]++
		s.sums[product] += amount
		records = append(records, &kgo.Record{Topic: "events", Key: []byte(user), Value: []byte(event)})
	}
	return records
}

// streams runs the application over kills of its process and of the node, and compares every output with the plain computation.
func (j *java) streams(ctx context.Context, env *Env, r *Result) error {
	node, err := env.Node(ctx, process.Config{})
	if err != nil {
		return err
	}
	for _, topic := range append([]string{"events", "users"}, streamsOutputs()...) {
		if err := createTopic(ctx, node, topic, streamsPartitions, nil); err != nil {
			return err
		}
	}
	cl, err := node.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	input := newShopEvents(env.Seed)
	var users []*kgo.Record
	for user, name := range input.names {
		// Older than all events, so that each of them finds its user.
		users = append(users, &kgo.Record{Topic: "users", Key: []byte(user), Value: []byte(name), Timestamp: time.Now().Add(-time.Hour)})
	}
	if err := cl.ProduceSync(ctx, users...).FirstErr(); err != nil {
		return err
	}
	app, err := j.startStreams(ctx, env, node)
	if err != nil {
		return err
	}
	for round := range streamsRounds {
		if err := cl.ProduceSync(ctx, input.more(streamsRound)...).FirstErr(); err != nil {
			return errors.Join(err, app.Kill())
		}
		// Somewhere in the middle of the round's events.
		at := round*streamsRound + streamsRound/10 + input.rng.IntN(streamsRound/2)
		if err := waitOutput(ctx, node, "counts", int64(at)); err != nil {
			return errors.Join(err, app.Kill())
		}
		if round == streamsNodeKill {
			if err := errors.Join(node.Kill(), restart(ctx, node)); err != nil {
				return errors.Join(err, app.Kill())
			}
			continue
		}
		if err := app.Kill(); err != nil {
			return err
		}
		if app, err = j.startStreams(ctx, env, node); err != nil {
			return err
		}
	}
	for _, topic := range []string{"counts", "sums", "enriched"} {
		if err := waitOutput(ctx, node, topic, int64(len(input.events))); err != nil {
			return errors.Join(err, app.Kill())
		}
	}
	if err := app.Stop(); err != nil {
		return err
	}
	return input.judge(ctx, node, r)
}

func (j *java) startStreams(ctx context.Context, env *Env, node *process.Rowtrail) (*Command, error) {
	return start(ctx, env.Dir, "streams.log", nil,
		j.command(nil, "rowtrail.conformance.StreamsApp", node.Kafka, filepath.Join(env.Dir, "state"))...)
}

// waitOutput waits until a topic holds that many committed records.
func waitOutput(ctx context.Context, node *process.Rowtrail, topic string, count int64) error {
	cl, err := node.Client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer cl.Close()
	for read := int64(0); read < count; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("wait for %d records in %s, %d are there: %w", count, topic, read, ctx.Err())
		}
		read += int64(fetches.NumRecords())
	}
	return nil
}

// judge compares the outputs, and looks at the topics the application made for itself.
func (s *shopEvents) judge(ctx context.Context, node *process.Rowtrail, r *Result) error {
	var errs []error
	check := func(what string, err error) {
		if err == nil {
			r.Passes()
			return
		}
		r.Failed++
		errs = append(errs, fmt.Errorf("%s: %w", what, err))
	}
	outputs := map[string][]*kgo.Record{}
	for _, topic := range streamsOutputs() {
		records, err := readCommitted(ctx, node, topic)
		if err != nil {
			return err
		}
		outputs[topic] = records
	}
	check("counts", s.checkCounts(outputs["counts"]))
	check("sums", s.checkSums(outputs["sums"]))
	check("enriched", s.checkEnriched(outputs["enriched"]))
	check("named", s.checkNamed(outputs["named"]))
	check("changelog", s.checkChangelog(ctx, node))
	check("topics", checkStreamsTopics(ctx, node))
	return errors.Join(errs...)
}

// checkCounts wants 1, 2, 3, ... of every user: a count that is doubled, missing or late shows.
func (s *shopEvents) checkCounts(records []*kgo.Record) error {
	got := map[string]int{}
	for _, rec := range records {
		user := string(rec.Key)
		got[user]++
		if string(rec.Value) != strconv.Itoa(got[user]) {
			return fmt.Errorf("%s of %s at %d/%d where %d was due", rec.Value, user, rec.Partition, rec.Offset, got[user])
		}
	}
	for user, want := range s.counts {
		if got[user] != want {
			return fmt.Errorf("%s is counted up to %d, it has %d events", user, got[user], want)
		}
	}
	return nil
}

func (s *shopEvents) checkSums(records []*kgo.Record) error {
	if len(records) != len(s.events) {
		return fmt.Errorf("%d changes of %d events", len(records), len(s.events))
	}
	last := lastValues(records)
	for product, want := range s.sums {
		if last[product] != strconv.FormatInt(want, 10) {
			return fmt.Errorf("%s sums to %s, its events to %d", product, last[product], want)
		}
	}
	return nil
}

// checkEnriched wants every event once, with its user's name.
func (s *shopEvents) checkEnriched(records []*kgo.Record) error {
	seen := make([]bool, len(s.events))
	for _, rec := range records {
		id, err := strconv.Atoi(strings.SplitN(string(rec.Value), ",", 2)[0])
		if err != nil || id >= len(seen) {
			return fmt.Errorf("no event is %q", rec.Value)
		}
		if seen[id] {
			return fmt.Errorf("event %d is there twice", id)
		}
		seen[id] = true
		user := string(rec.Key)
		if want := s.events[id] + "," + s.names[user]; user+","+string(rec.Value) != want {
			return fmt.Errorf("%s of %s, not %s", rec.Value, user, want)
		}
	}
	if len(records) != len(s.events) {
		return fmt.Errorf("%d of %d events", len(records), len(s.events))
	}
	return nil
}

func (s *shopEvents) checkNamed(records []*kgo.Record) error {
	last := lastValues(records)
	if len(last) != len(s.counts) {
		return fmt.Errorf("%d users, %d have events", len(last), len(s.counts))
	}
	for user, count := range s.counts {
		if want := fmt.Sprintf("%s %d", s.names[user], count); last[user] != want {
			return fmt.Errorf("%s is %q, not %q", user, last[user], want)
		}
	}
	return nil
}

// checkChangelog folds the changelog of the counts, from which the application restores its store.
func (s *shopEvents) checkChangelog(ctx context.Context, node *process.Rowtrail) error {
	records, err := readCommitted(ctx, node, "shop-counts-changelog")
	if err != nil {
		return err
	}
	last := lastValues(records)
	for user, want := range s.counts {
		if v := last[user]; len(v) != 8 || binary.BigEndian.Uint64([]byte(v)) != uint64(want) {
			return fmt.Errorf("%s is %x, not %d", user, v, want)
		}
	}
	return nil
}

// checkStreamsTopics looks at settings that the application asked for, and at the records it deletes behind itself.
func checkStreamsTopics(ctx context.Context, node *process.Rowtrail) error {
	cl, err := node.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	topics, err := adm.ListTopics(ctx)
	if err != nil {
		return err
	}
	found := map[string]int{}
	for _, topic := range topics.Names() {
		kind := topic[strings.LastIndex(topic, "-")+1:]
		want := map[string]string{"changelog": "compact", "repartition": "delete"}[kind]
		if !strings.HasPrefix(topic, "shop-") || want == "" {
			continue
		}
		found[kind]++
		configs, err := adm.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			return err
		}
		for _, c := range configs[0].Configs {
			if c.Key == "cleanup.policy" && c.MaybeValue() != want {
				return fmt.Errorf("%s has cleanup.policy=%s, not %s", topic, c.MaybeValue(), want)
			}
		}
		if kind != "repartition" {
			continue
		}
		starts, err := adm.ListStartOffsets(ctx, topic)
		if err != nil {
			return err
		}
		deleted := int64(0)
		starts.Each(func(o kadm.ListedOffset) { deleted += o.Offset })
		if deleted == 0 {
			return fmt.Errorf("no record of %s was deleted", topic)
		}
	}
	if found["changelog"] == 0 || found["repartition"] == 0 {
		return fmt.Errorf("changelog and repartition topics of the application: %v", found)
	}
	return nil
}

// lastValues folds records to the last value of every key.
func lastValues(records []*kgo.Record) map[string]string {
	last := map[string]string{}
	for _, rec := range records {
		last[string(rec.Key)] = string(rec.Value)
	}
	return last
}
