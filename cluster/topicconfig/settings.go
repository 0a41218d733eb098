package topicconfig

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
)

// Settings are what a topic's properties mean.
type Settings struct {
	Log log.Config
	// Deletes says that cleanup.policy removes records by age and size.
	Deletes bool

	// MinInsync is min.insync.replicas; MinISR says what it asks of a partition.
	MinInsync int
	// BeforeMaxMs and AfterMaxMs bound a record's timestamp around the broker's clock.
	BeforeMaxMs, AfterMaxMs int64
	// Recode says that batches are stored in Codec, made with Level; otherwise they stay as they were sent.
	Recode bool
	Codec  record.Codec
	Level  int
}

// Recodes tells whether a batch in a codec is to be compressed anew.
func (s *Settings) Recodes(codec record.Codec) bool { return s.Recode && codec != s.Codec }

// MinISR is how many replicas must be in sync for acks=all: a topic cannot ask for more than it has.
func (s *Settings) MinISR(replicas int) int { return min(s.MinInsync, replicas) }

// Resolve puts layers of properties over the table's defaults, the first layer that has a property wins. Values have passed
// Check.
func Resolve(layers ...map[string]string) Settings {
	r := resolver(layers)
	s := Settings{
		Log: log.Config{
			// 0 means "as little as possible" in a topic's properties and "no limit" in log.Config.
			RetentionBytes:     nonZero(r.number(RetentionBytes)),
			RetentionMs:        nonZero(r.number(RetentionMs)),
			MaxMessageBytes:    int32(nonZero(r.number(MaxMessageBytes))), //nolint:gosec // checked against the table's range
			LogAppendTime:      r.text(TimestampType) == LogAppendTime,
			MinCompactionLagMs: r.number(MinCompactionLagMs),
			MaxCompactionLagMs: unlimited(r.number(MaxCompactionLagMs)),
			DeleteRetentionMs:  r.number(DeleteRetentionMs),
			MinDirtyRatio:      r.ratio(MinDirtyRatio),
			SegmentBytes:       r.number(SegmentBytes),
			SegmentMs:          r.number(SegmentMs),
		},
		MinInsync:   int(r.number(MinInsyncReplicas)),
		BeforeMaxMs: r.number(TimestampBeforeMax),
		AfterMaxMs:  r.number(TimestampAfterMax),
	}
	for policy := range strings.SplitSeq(r.text(CleanupPolicy), ",") {
		switch strings.TrimSpace(policy) {
		case PolicyCompact:
			s.Log.Compact = true
		case PolicyDelete:
			s.Deletes = true
		}
	}
	if !s.Deletes { // compaction alone never forgets a key, and no policy forgets nothing
		s.Log.RetentionBytes, s.Log.RetentionMs = -1, -1
	}
	s.Recode = true
	switch r.text(CompressionType) {
	case CompressionProducer:
		s.Recode = false
	case CompressionNone:
		s.Codec = record.None
	case "gzip":
		s.Codec, s.Level = record.Gzip, int(r.number(GzipLevel))
	case "snappy":
		s.Codec = record.Snappy
	case "lz4":
		s.Codec, s.Level = record.LZ4, int(r.number(Lz4Level))
	case "zstd":
		s.Codec, s.Level = record.Zstd, int(r.number(ZstdLevel))
	}
	return s
}

// CheckTopic refuses unknown properties, values out of range (the first in order of names) and values that exclude each
// other, under the layers of defaults that the topic will have.
func CheckTopic(config map[string]string, defaults ...map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if err := Check(name, config[name]); err != nil {
			return err
		}
	}
	s := Resolve(append([]map[string]string{config}, defaults...)...)
	if hi := s.Log.MaxCompactionLagMs; hi > 0 && s.Log.MinCompactionLagMs > hi {
		return fmt.Errorf("%s of %d is above %s of %d: raise the latter or lower the former",
			MinCompactionLagMs, s.Log.MinCompactionLagMs, MaxCompactionLagMs, hi)
	}
	return nil
}

// resolver finds values in layers of properties.
type resolver []map[string]string

func (r resolver) text(name string) string {
	for _, layer := range r {
		if v, ok := layer[name]; ok {
			return strings.TrimSpace(v)
		}
	}
	if p := Lookup(name); p != nil {
		return p.Default
	}
	return ""
}

func (r resolver) number(name string) int64 {
	n, _ := strconv.ParseInt(r.text(name), 10, 64) // passed Check
	return n
}

func (r resolver) ratio(name string) float64 {
	f, _ := strconv.ParseFloat(r.text(name), 64) // passed Check
	return f
}

func nonZero(n int64) int64 {
	if n == 0 {
		return 1
	}
	return n
}

// unlimited turns the largest number, which Kafka has for "no limit", into log.Config's 0.
func unlimited(n int64) int64 {
	if n == math.MaxInt64 {
		return 0
	}
	return n
}
