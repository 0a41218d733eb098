package connectors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// clientDefaultMaxBytes is the batch size that every broker takes by default.
const clientDefaultMaxBytes = 1000012

// A compacted topic, with delete or without, takes only records with a key.
const (
	policyConfig  = "cleanup.policy"
	policyCompact = "compact"
)

// minRecordBytes is the least limit of a topic that the client can work with.
const minRecordBytes = 1024

// TopicOptions are topic.creation.default.*.
type TopicOptions struct {
	Partitions  int32             // -1: the broker's default
	Replication int16             // -1: the broker's default
	Configs     map[string]string // any other topic.creation.default.<name>
}

// TopicKind says what a topic is for.
type TopicKind int

// Kinds of topics.
const (
	TopicData        TopicKind = iota // as topic.creation.default.* says
	TopicSingle                       // one partition
	TopicCompacted                    // one partition, compacted
	TopicTransaction                  // one partition, and every record of it is kept
)

// topics remembers the topics that exist.
type topics struct {
	admin  *kadm.Client
	log    *slog.Logger
	opts   TopicOptions
	shared bool // see Deps
	mu     sync.Mutex
	known  map[string]int32
	limit  sync.Map // topic name to int32
	keyed  sync.Map // topic names: compacted, so that every record needs a key
	tables sync.Map // topic name to the collection whose events it has
}

func newTopics(admin *kadm.Client, deps Deps, opts TopicOptions) *topics {
	if opts.Replication <= 0 {
		opts.Replication = -1
		if deps.Replication > 0 {
			opts.Replication = deps.Replication
		}
	}
	return &topics{admin: admin, log: deps.Logger, opts: opts, shared: deps.Shared, known: map[string]int32{}}
}

// maxBytes is the largest batch that a topic takes.
func (t *topics) maxBytes(topic string) int32 {
	if v, ok := t.limit.Load(topic); ok {
		return v.(int32)
	}
	return clientDefaultMaxBytes
}

// EnsureTopic makes sure that a topic exists and says how many partitions it has.
func (w *Writer) EnsureTopic(ctx context.Context, name string, kind TopicKind) (int32, error) {
	return w.topics.ensure(ctx, name, kind)
}

// EnsureTable makes sure that a table's topic exists, and notes how many partitions it has.
func (w *Writer) EnsureTable(ctx context.Context, t *Table) (err error) {
	if t.Partitions, err = w.topics.ensure(ctx, t.Topic, TopicData); err == nil {
		w.topics.tables.Store(t.Topic, t.Collection)
		_, t.keyedOnly = w.topics.keyed.Load(t.Topic)
	}
	return err
}

func (t *topics) ensure(ctx context.Context, name string, kind TopicKind) (int32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.known[name]; ok {
		return n, nil
	}
	n, err := t.partitions(ctx, name)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		if err = t.create(ctx, name, kind); err == nil {
			n, err = t.awaitPartitions(ctx, name)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("make sure that topic %s exists: %w", name, err)
	}
	if kind != TopicData && n != 1 {
		return 0, &Fault{
			Problem: fmt.Sprintf("topic %s has %d partitions but needs exactly 1 to keep its order", name, n),
			Remedy:  "choose another topic.prefix, or delete the topic with `rowtrail topics delete` (that resets the connector)",
		}
	}
	if err := t.readConfigs(ctx, name); err != nil {
		t.log.Warn("the topic's max.message.bytes and cleanup.policy are not known: its batches are kept below the client's default", "topic", name, "error", err)
	}
	t.known[name] = n
	return n, nil
}

func (t *topics) partitions(ctx context.Context, name string) (int32, error) {
	details, err := t.admin.ListTopics(ctx, name)
	if err != nil {
		return 0, err
	}
	d, ok := details[name]
	if !ok {
		return 0, kerr.UnknownTopicOrPartition
	}
	if d.Err != nil {
		return 0, d.Err
	}
	return int32(len(d.Partitions)), nil
}

func (t *topics) create(ctx context.Context, name string, kind TopicKind) error {
	partitions, configs := int32(1), map[string]*string{}
	set := func(k, v string) { configs[k] = &v }
	set("max.message.bytes", strconv.Itoa(maxRecordBytes))
	switch kind {
	case TopicData:
		partitions = t.opts.Partitions
		for k, v := range t.opts.Configs {
			set(k, v)
		}
	case TopicCompacted:
		set(policyConfig, policyCompact)
	case TopicTransaction:
		if t.shared { // each transaction has a key of its own, so compaction keeps them all; the built-in log does so anyway
			set(policyConfig, policyCompact)
		}
	}
	_, err := t.admin.CreateTopic(ctx, partitions, t.opts.Replication, configs, name)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

// awaitPartitions waits until the new topic is in the metadata.
func (t *topics) awaitPartitions(ctx context.Context, name string) (int32, error) {
	for range 100 {
		n, err := t.partitions(ctx, name)
		if err == nil && n > 0 {
			return n, nil
		}
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.LeaderNotAvailable) {
			return 0, err
		}
		if !sleep.For(ctx, topicPoll) {
			return 0, ctx.Err()
		}
	}
	return 0, fmt.Errorf("topic is created but does not appear: %w", kerr.UnknownTopicOrPartition)
}

// readConfigs learns how large a record may be, and whether it needs a key; without the right to ask, the client's default stands.
func (t *topics) readConfigs(ctx context.Context, name string) error {
	configs, err := t.admin.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return err
	}
	rc, err := configs.On(name, nil)
	if err != nil {
		return err
	}
	if rc.Err != nil {
		return rc.Err
	}
	for _, c := range rc.Configs {
		if c.Key == policyConfig && strings.Contains(c.MaybeValue(), policyCompact) {
			t.keyed.Store(name, true)
		}
		if c.Key != "max.message.bytes" || c.Value == nil {
			continue
		}
		n, err := strconv.ParseInt(*c.Value, 10, 32)
		if err != nil {
			return fmt.Errorf("read max.message.bytes: %w", err)
		}
		t.limit.Store(name, int32(min(max(n, minRecordBytes), maxRecordBytes)))
	}
	return nil
}

// partitioner is the Java client's for records with a row's key. Without one the record's own partition counts: keyless tables
// keep their order in one partition, and a truncate goes to each.
type partitioner struct{}

func (partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return &topicPartitioner{keyed: kgo.StickyKeyPartitioner(nil).ForTopic(topic)}
}

type topicPartitioner struct{ keyed kgo.TopicPartitioner }

// RequiresConsistency is true for every record: invariant 2 does not allow another partition when one is offline.
func (p *topicPartitioner) RequiresConsistency(*kgo.Record) bool { return true }

func (p *topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Key != nil && string(r.Key) != event.TruncateKey {
		return p.keyed.Partition(r, n)
	}
	return int(r.Partition)
}
