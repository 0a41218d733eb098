package cluster

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/log"
)

// Topic configuration keys that change what a partition does.
const (
	configCleanupPolicy   = "cleanup.policy"
	configRetentionBytes  = "retention.bytes"
	configRetentionMs     = "retention.ms"
	configMaxMessageBytes = "max.message.bytes"
	configTimestampType   = "message.timestamp.type"
)

// configRule says which values a key takes.
type configRule struct {
	min, max int64    // integers, when words is nil
	float    bool     // a number from 0 to 1
	words    []string // one of these
	list     bool     // a comma separated list of words
	free     bool
}

func integers(lo, hi int64) configRule { return configRule{min: lo, max: hi} }

func boolean() configRule { return configRule{words: []string{"true", "false"}} }

// topicConfigRules is Kafka's set of topic settings. Those that have no meaning for this storage (segments, index
// intervals) are kept and reported, as clients set them routinely; what they promise holds without them.
func topicConfigRules() map[string]configRule {
	return map[string]configRule{
		configCleanupPolicy:                       {words: []string{"delete", "compact"}, list: true},
		"compression.gzip.level":                  integers(-1, 9),
		"compression.lz4.level":                   integers(1, 17),
		"compression.type":                        {words: []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"}},
		"compression.zstd.level":                  integers(-131072, 22),
		"delete.retention.ms":                     integers(0, math.MaxInt64),
		"file.delete.delay.ms":                    integers(0, math.MaxInt64),
		"flush.messages":                          integers(1, math.MaxInt64),
		"flush.ms":                                integers(0, math.MaxInt64),
		"follower.replication.throttled.replicas": {free: true},
		"index.interval.bytes":                    integers(0, math.MaxInt32),
		"leader.replication.throttled.replicas":   {free: true},
		"local.retention.bytes":                   integers(-2, math.MaxInt64),
		"local.retention.ms":                      integers(-2, math.MaxInt64),
		"max.compaction.lag.ms":                   integers(1, math.MaxInt64),
		configMaxMessageBytes:                     integers(0, log.MaxBatchBytes),
		"message.downconversion.enable":           boolean(),
		"message.timestamp.after.max.ms":          integers(0, math.MaxInt64),
		"message.timestamp.before.max.ms":         integers(0, math.MaxInt64),
		"message.timestamp.difference.max.ms":     integers(0, math.MaxInt64),
		configTimestampType:                       {words: []string{"CreateTime", "LogAppendTime"}},
		"min.cleanable.dirty.ratio":               {float: true},
		"min.compaction.lag.ms":                   integers(0, math.MaxInt64),
		"min.insync.replicas":                     integers(1, math.MaxInt32),
		"preallocate":                             boolean(),
		"remote.storage.enable":                   {words: []string{"false"}},
		configRetentionBytes:                      integers(-1, math.MaxInt64),
		configRetentionMs:                         integers(-1, math.MaxInt64),
		"segment.bytes":                           integers(14, math.MaxInt64),
		"segment.index.bytes":                     integers(4, math.MaxInt32),
		"segment.jitter.ms":                       integers(0, math.MaxInt64),
		"segment.ms":                              integers(1, math.MaxInt64),
		"unclean.leader.election.enable":          boolean(),
	}
}

// checkTopicConfig refuses unknown keys and values out of range, the first in key order.
func checkTopicConfig(config map[string]string) error {
	rules := topicConfigRules()
	for _, key := range slices.Sorted(maps.Keys(config)) {
		rule, ok := rules[key]
		if !ok {
			return fmt.Errorf("set topic config: unknown key %q: %w", key, ErrInvalidConfig)
		}
		if problem := rule.check(config[key]); problem != "" {
			return fmt.Errorf("set topic config: %s=%q: %s: %w", key, config[key], problem, ErrInvalidConfig)
		}
	}
	return nil
}

// check returns what is wrong with a value, or "".
func (r configRule) check(value string) string {
	switch {
	case r.free:
		return ""
	case r.words != nil:
		parts := []string{value}
		if r.list {
			parts = strings.Split(value, ",")
		}
		for _, p := range parts {
			if !slices.Contains(r.words, strings.TrimSpace(p)) {
				return "use one of " + strings.Join(r.words, ", ")
			}
		}
		return ""
	case r.float:
		if f, err := strconv.ParseFloat(value, 64); err != nil || !(f >= 0 && f <= 1) {
			return "use a number from 0 to 1"
		}
		return ""
	}
	if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err != nil || n < r.min || n > r.max {
		return fmt.Sprintf("use a whole number from %d to %d", r.min, r.max)
	}
	return ""
}

// partitionConfig is what a topic's settings mean to its partitions. config has passed checkTopicConfig.
func partitionConfig(defaults log.Config, config map[string]string) log.Config {
	c := defaults
	number := func(key string, set func(int64)) {
		if v, ok := config[key]; ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
				set(n)
			}
		}
	}
	// 0 means "as little as possible" in a topic's settings and "no limit" in log.Config.
	number(configRetentionBytes, func(n int64) { c.RetentionBytes = nonZero(n) })
	number(configRetentionMs, func(n int64) { c.RetentionMs = nonZero(n) })
	number(configMaxMessageBytes, func(n int64) { c.MaxMessageBytes = int32(nonZero(n)) })
	if v, ok := config[configTimestampType]; ok {
		c.LogAppendTime = v == "LogAppendTime"
	}
	if v, ok := config[configCleanupPolicy]; ok {
		c.Compact = strings.Contains(v, "compact")
		if !strings.Contains(v, "delete") {
			c.RetentionBytes, c.RetentionMs = -1, -1 // compaction alone never forgets a key
		}
	}
	return c
}

func nonZero(n int64) int64 {
	if n == 0 {
		return 1
	}
	return n
}
