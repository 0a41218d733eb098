package topicconfig

import (
	"math"
	"slices"

	"github.com/rowtrail/rowtrail/log"
)

// Names of the properties that change what is done here.
const (
	CleanupPolicy      = "cleanup.policy"
	CompressionType    = "compression.type"
	GzipLevel          = "compression.gzip.level"
	Lz4Level           = "compression.lz4.level"
	ZstdLevel          = "compression.zstd.level"
	DeleteRetentionMs  = "delete.retention.ms"
	MaxCompactionLagMs = "max.compaction.lag.ms"
	MaxMessageBytes    = "max.message.bytes"
	TimestampAfterMax  = "message.timestamp.after.max.ms"
	TimestampBeforeMax = "message.timestamp.before.max.ms"
	TimestampType      = "message.timestamp.type"
	MinDirtyRatio      = "min.cleanable.dirty.ratio"
	MinCompactionLagMs = "min.compaction.lag.ms"
	MinInsyncReplicas  = "min.insync.replicas"
	RetentionBytes     = "retention.bytes"
	RetentionMs        = "retention.ms"
	SegmentBytes       = "segment.bytes"
	SegmentMs          = "segment.ms"
)

// Values of properties.
const (
	PolicyDelete  = "delete"
	PolicyCompact = "compact"
	LogAppendTime = "LogAppendTime"
	CreateTime    = "CreateTime"

	CompressionProducer = "producer"
	CompressionNone     = "uncompressed"
)

const maxInt64 = "9223372036854775807"

// All lists every property that is known, by name. Others are refused.
func All() []Property { return slices.Clone(properties) }

// properties is sorted by name. Defaults are those of Kafka 4, except that nothing is deleted by age: a log that is the
// system of record forgets only what it is told to.
//
//nolint:gochecknoglobals // immutable table
var properties = []Property{
	list(CleanupPolicy, PolicyDelete, "log.cleanup.policy", []string{PolicyDelete, PolicyCompact},
		"delete: old records go by retention.ms and retention.bytes. compact: the last record of every key is kept. Both may be given. Empty: nothing is ever removed."),
	except(integer(GzipLevel, "-1", GzipLevel, -1, 9, "Level of gzip compression where compression.type is gzip."), 0),
	integer(Lz4Level, "9", Lz4Level, 1, 17, "Level of lz4 compression where compression.type is lz4."),
	oneOf(CompressionType, CompressionProducer, CompressionType,
		[]string{CompressionNone, "zstd", "lz4", "snappy", "gzip", CompressionProducer},
		"producer: batches are stored as they were sent. Otherwise batches of another codec are compressed anew as they are produced."),
	integer(ZstdLevel, "3", ZstdLevel, -131072, 22, "Level of zstd compression where compression.type is zstd."),
	long(DeleteRetentionMs, "86400000", "log.cleaner.delete.retention.ms", 0,
		"How long a tombstone is kept in a compacted topic after compaction first saw it, in milliseconds."),
	inert(long("file.delete.delay.ms", "60000", "log.segment.delete.delay.ms", 0, "Time before a file is deleted, in milliseconds.")),
	inert(long("flush.messages", maxInt64, "log.flush.interval.messages", 1,
		"Records between forced syncs; acks=all is always synced.")),
	inert(long("flush.ms", maxInt64, "log.flush.interval.ms", 0,
		"Time between forced syncs, in milliseconds; acks=all is always synced.")),
	inert(anything("follower.replication.throttled.replicas", "Replicas throttled as followers.")),
	inert(integer("index.interval.bytes", "4096", "log.index.interval.bytes", 0, math.MaxInt32, "Bytes between index entries.")),
	inert(anything("leader.replication.throttled.replicas", "Replicas throttled as leaders.")),
	inert(long("local.retention.bytes", "-2", "log.local.retention.bytes", -2, "Bytes kept beside tiered storage.")),
	inert(long("local.retention.ms", "-2", "log.local.retention.ms", -2, "Time kept beside tiered storage, in milliseconds.")),
	long(MaxCompactionLagMs, maxInt64, "log.cleaner.max.compaction.lag.ms", 1,
		"The longest time that a record stays uncompacted, in milliseconds."),
	integer(MaxMessageBytes, "1048588", "message.max.bytes", 0, log.MaxBatchBytes,
		"The largest record batch that is accepted, after compression, in bytes."),
	inert(boolean("message.downconversion.enable", "log.message.downconversion.enable",
		"Whether batches are rewritten for old clients.", "true", "false")),
	long(TimestampAfterMax, "3600000", "log.message.timestamp.after.max.ms", 0,
		"How far a record's timestamp may be ahead of the broker's clock, in milliseconds. Connectors of the same process are not bound by it: they write the times of their source."),
	long(TimestampBeforeMax, maxInt64, "log.message.timestamp.before.max.ms", 0,
		"How far a record's timestamp may be behind the broker's clock, in milliseconds. Connectors of the same process are not bound by it."),
	inert(long("message.timestamp.difference.max.ms", maxInt64, "log.message.timestamp.difference.max.ms", 0,
		"Predecessor of message.timestamp.before.max.ms and message.timestamp.after.max.ms.")),
	oneOf(TimestampType, CreateTime, "log.message.timestamp.type", []string{CreateTime, LogAppendTime},
		"Whether a record's timestamp is the producer's or the time of the append."),
	ratio(MinDirtyRatio, "0.5", "log.cleaner.min.cleanable.ratio",
		"The share of a log that must be uncompacted before it is compacted."),
	long(MinCompactionLagMs, "0", "log.cleaner.min.compaction.lag.ms", 0,
		"The shortest time that a record stays uncompacted, in milliseconds."),
	integer(MinInsyncReplicas, "1", MinInsyncReplicas, 1, math.MaxInt32,
		"Replicas that must have a record on disk before acks=all is answered; at most as many as the topic has."),
	inert(boolean("preallocate", "log.preallocate", "Whether files are allocated in advance.", "true", "false")),
	boolean("remote.storage.enable", "remote.log.storage.system.enable", "There is no tiered storage.", "false"),
	long(RetentionBytes, "-1", "log.retention.bytes", -1,
		"Bytes that a partition keeps with cleanup.policy delete; -1: no limit."),
	long(RetentionMs, "-1", "log.retention.ms", -1,
		"Time that a partition keeps records with cleanup.policy delete, in milliseconds; -1: no limit."),
	integer(SegmentBytes, "1073741824", "log.segment.bytes", 14, math.MaxInt32,
		"How much must be uncompacted before a compacted topic is compacted; more than 1 MiB counts as 1 MiB. Retention works by record batch."),
	inert(integer("segment.index.bytes", "10485760", "log.index.size.max.bytes", 4, math.MaxInt32, "Size of an index file.")),
	inert(long("segment.jitter.ms", "0", "log.roll.jitter.ms", 0, "Spread of the time between files, in milliseconds.")),
	long(SegmentMs, "604800000", "log.roll.ms", 1,
		"Age at which a record of a compacted topic makes compaction possible before segment.bytes is reached, in milliseconds; more than ten minutes count as ten. Retention works by record batch."),
	inert(boolean("unclean.leader.election.enable", "unclean.leader.election.enable",
		"A replica without all acknowledged records never leads, whatever is set.", "true", "false")),
}
