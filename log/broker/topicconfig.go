package broker

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicProperty is one property that a topic can be given.
type TopicProperty struct {
	Name    string
	Type    kmsg.ConfigType
	Default string
	// Broker is the name that Kafka gives the same setting on a broker.
	Broker string
	// Range says which values are accepted.
	Range string
	Doc   string
	// Inert properties are accepted, so that other tools' topic definitions work, and change nothing here.
	Inert bool

	check func(value string) bool
}

// defaultMaxMessageBytes is Kafka's.
const defaultMaxMessageBytes = 1048588

const (
	noEffect = " Accepted for compatibility; has no effect."
	maxInt64 = "9223372036854775807"
)

// TopicProperties lists every property that is known, by name. Others are refused.
func TopicProperties() []TopicProperty { return slices.Clone(topicProperties) }

//nolint:gochecknoglobals // immutable table
var topicProperties = []TopicProperty{
	listProp("cleanup.policy", "delete", "log.cleanup.policy", []string{"delete", "compact"},
		"delete: old records go by retention.ms and retention.bytes. compact: the last record of every key is kept. Both may be given."),
	inert(intProp("compression.gzip.level", "-1", "compression.gzip.level", -1, "Level of gzip compression.")),
	inert(intProp("compression.lz4.level", "9", "compression.lz4.level", 1, "Level of lz4 compression.")),
	inert(oneOf("compression.type", "producer", "compression.type", []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"},
		"Batches are stored as the producer compressed them, whatever is set.")),
	inert(intProp("compression.zstd.level", "3", "compression.zstd.level", -131072, "Level of zstd compression.")),
	longProp("delete.retention.ms", "86400000", "log.cleaner.delete.retention.ms", 0, math.MaxInt64,
		"How long a tombstone is kept in a compacted topic, in milliseconds."),
	inert(longProp("file.delete.delay.ms", "60000", "log.segment.delete.delay.ms", 0, math.MaxInt64,
		"Time before a file is deleted, in milliseconds.")),
	inert(longProp("flush.messages", maxInt64, "log.flush.interval.messages", 1, math.MaxInt64,
		"Records between forced syncs; acks=all is always synced.")),
	inert(longProp("flush.ms", maxInt64, "log.flush.interval.ms", 0, math.MaxInt64,
		"Time between forced syncs, in milliseconds; acks=all is always synced.")),
	inert(textProp("follower.replication.throttled.replicas", "", "follower.replication.throttled.replicas", "Replicas throttled as followers.")),
	inert(intProp("index.interval.bytes", "4096", "log.index.interval.bytes", 0, "Bytes between index entries.")),
	inert(textProp("leader.replication.throttled.replicas", "", "leader.replication.throttled.replicas", "Replicas throttled as leaders.")),
	inert(longProp("local.retention.bytes", "-2", "log.local.retention.bytes", -2, math.MaxInt64, "Bytes kept beside tiered storage.")),
	inert(longProp("local.retention.ms", "-2", "log.local.retention.ms", -2, math.MaxInt64, "Time kept beside tiered storage, in milliseconds.")),
	longProp("max.compaction.lag.ms", maxInt64, "log.cleaner.max.compaction.lag.ms", 1, math.MaxInt64,
		"The longest time that a record stays uncompacted, in milliseconds."),
	intProp("max.message.bytes", "1048588", "message.max.bytes", 0,
		"The largest record batch that is accepted, after compression, in bytes."),
	inert(oneOf("message.downconversion.enable", "false", "log.message.downconversion.enable", []string{"true", "false"}, "Whether batches are rewritten for old clients.")),
	longProp("message.timestamp.after.max.ms", maxInt64, "log.message.timestamp.after.max.ms", 0, math.MaxInt64,
		"How far a record's timestamp may be ahead of the broker's clock, in milliseconds."),
	longProp("message.timestamp.before.max.ms", maxInt64, "log.message.timestamp.before.max.ms", 0, math.MaxInt64,
		"How far a record's timestamp may be behind the broker's clock, in milliseconds."),
	oneOf("message.timestamp.type", "CreateTime", "log.message.timestamp.type", []string{"CreateTime", "LogAppendTime"},
		"Whether a record's timestamp is the producer's or the time of the append."),
	doubleProp("min.cleanable.dirty.ratio", "0.5", "log.cleaner.min.cleanable.ratio",
		"The share of a log that must be uncompacted before it is compacted."),
	longProp("min.compaction.lag.ms", "0", "log.cleaner.min.compaction.lag.ms", 0, math.MaxInt64,
		"The shortest time that a record stays uncompacted, in milliseconds."),
	intProp("min.insync.replicas", "1", "min.insync.replicas", 1,
		"Replicas that must have a record on disk before acks=all is answered."),
	inert(oneOf("preallocate", "false", "log.preallocate", []string{"true", "false"}, "Whether files are allocated in advance.")),
	oneOf("remote.storage.enable", "false", "remote.log.storage.system.enable", []string{"false"},
		"There is no tiered storage."),
	longProp("retention.bytes", "-1", "log.retention.bytes", -1, math.MaxInt64,
		"Bytes that a partition keeps with cleanup.policy delete; -1: no limit."),
	longProp("retention.ms", "-1", "log.retention.ms", -1, math.MaxInt64,
		"Time that a partition keeps records with cleanup.policy delete, in milliseconds; -1: no limit."),
	inert(intProp("segment.bytes", "1073741824", "log.segment.bytes", 14, "Size of a log file. Retention works by record batch.")),
	inert(intProp("segment.index.bytes", "10485760", "log.index.size.max.bytes", 4, "Size of an index file.")),
	inert(longProp("segment.jitter.ms", "0", "log.roll.jitter.ms", 0, math.MaxInt64, "Spread of the time between files, in milliseconds.")),
	inert(longProp("segment.ms", "604800000", "log.roll.ms", 1, math.MaxInt64, "Time between files, in milliseconds. Retention works by record batch.")),
	inert(oneOf("unclean.leader.election.enable", "false", "unclean.leader.election.enable", []string{"true", "false"},
		"A replica without all acknowledged records never leads, whatever is set.")),
}

// defaultOf is what a property is where a topic does not set it; static says that this node's configuration says so.
func (b *Broker) defaultOf(p *TopicProperty) (value string, static bool) {
	d := b.opts.TopicDefaults
	limit := func(n int64) string { return strconv.FormatInt(cmp.Or(max(n, -1), -1), 10) }
	switch value = p.Default; p.Name {
	case "retention.ms":
		value = limit(d.RetentionMs)
	case "retention.bytes":
		value = limit(d.RetentionBytes)
	case "max.message.bytes":
		if d.MaxMessageBytes > 0 {
			value = strconv.Itoa(int(d.MaxMessageBytes))
		}
	case "message.timestamp.type":
		if d.LogAppendTime {
			value = "LogAppendTime"
		}
	case "cleanup.policy":
		if d.Compact {
			value = "compact"
		}
	}
	return value, value != p.Default
}

func topicProperty(name string) *TopicProperty {
	i, ok := slices.BinarySearchFunc(topicProperties, name, func(p TopicProperty, n string) int { return strings.Compare(p.Name, n) })
	if !ok {
		return nil
	}
	return &topicProperties[i]
}

// checkTopicProperty refuses an unknown name or a value out of range, naming it.
func checkTopicProperty(name string, value string) error {
	p := topicProperty(name)
	if p == nil {
		return refuse(kerr.InvalidConfig, fmt.Sprintf("unknown topic configuration %q", name))
	}
	if !p.check(value) {
		return refuse(kerr.InvalidConfig, fmt.Sprintf("invalid value %q for %s: it must be %s", value, name, p.Range))
	}
	return nil
}

// topicLimits are the properties that Produce looks at.
type topicLimits struct {
	maxMessageBytes         int32
	minInsync               int
	compacted               bool
	logAppendTime           bool
	beforeMaxMs, afterMaxMs int64
}

// limitsOf reads a topic's configuration; what is not set has its default.
func (b *Broker) limitsOf(config map[string]string) topicLimits {
	l := topicLimits{
		maxMessageBytes: defaultMaxMessageBytes, minInsync: 1,
		compacted: b.opts.TopicDefaults.Compact, logAppendTime: b.opts.TopicDefaults.LogAppendTime,
		beforeMaxMs: math.MaxInt64, afterMaxMs: math.MaxInt64,
	}
	if n := b.opts.TopicDefaults.MaxMessageBytes; n > 0 {
		l.maxMessageBytes = n
	}
	if len(config) == 0 {
		return l
	}
	number := func(name string, def int64) int64 {
		if s, ok := config[name]; ok {
			if n, err := strconv.ParseInt(s, 10, 64); err == nil {
				return n
			}
		}
		return def
	}
	l.maxMessageBytes = int32(number("max.message.bytes", int64(l.maxMessageBytes)))
	l.minInsync = int(number("min.insync.replicas", 1))
	l.beforeMaxMs = number("message.timestamp.before.max.ms", math.MaxInt64)
	l.afterMaxMs = number("message.timestamp.after.max.ms", math.MaxInt64)
	if policy, set := config["cleanup.policy"]; set {
		l.compacted = strings.Contains(policy, "compact")
	}
	if kind, set := config["message.timestamp.type"]; set {
		l.logAppendTime = kind == "LogAppendTime"
	}
	return l
}

func inert(p TopicProperty) TopicProperty {
	p.Inert = true
	p.Doc += noEffect
	return p
}

func longProp(name, def, broker string, lo, hi int64, doc string) TopicProperty {
	text := fmt.Sprintf("an integer of at least %d", lo)
	return TopicProperty{Name: name, Type: kmsg.ConfigTypeLong, Default: def, Broker: broker, Range: text, Doc: doc,
		check: func(v string) bool {
			n, err := strconv.ParseInt(v, 10, 64)
			return err == nil && n >= lo && n <= hi
		}}
}

func intProp(name, def, broker string, lo int64, doc string) TopicProperty {
	p := longProp(name, def, broker, lo, math.MaxInt32, doc)
	p.Type, p.Range = kmsg.ConfigTypeInt, fmt.Sprintf("an integer from %d to %d", lo, math.MaxInt32)
	return p
}

func doubleProp(name, def, broker, doc string) TopicProperty {
	return TopicProperty{Name: name, Type: kmsg.ConfigTypeDouble, Default: def, Broker: broker, Range: "a number from 0 to 1", Doc: doc,
		check: func(v string) bool {
			f, err := strconv.ParseFloat(v, 64)
			return err == nil && f >= 0 && f <= 1
		}}
}

func oneOf(name, def, broker string, values []string, doc string) TopicProperty {
	p := TopicProperty{Name: name, Type: kmsg.ConfigTypeString, Default: def, Broker: broker, Range: strings.Join(values, " or "), Doc: doc,
		check: func(v string) bool { return slices.Contains(values, v) }}
	if slices.Contains(values, "false") {
		p.Type = kmsg.ConfigTypeBoolean
	}
	return p
}

func listProp(name, def, broker string, values []string, doc string) TopicProperty {
	return TopicProperty{Name: name, Type: kmsg.ConfigTypeList, Default: def, Broker: broker,
		Range: "a list of " + strings.Join(values, ", "), Doc: doc,
		check: func(v string) bool {
			for item := range strings.SplitSeq(v, ",") {
				if !slices.Contains(values, strings.TrimSpace(item)) {
					return false
				}
			}
			return true
		}}
}

func textProp(name, def, broker, doc string) TopicProperty {
	return TopicProperty{Name: name, Type: kmsg.ConfigTypeList, Default: def, Broker: broker, Range: "text", Doc: doc,
		check: func(string) bool { return true }}
}
