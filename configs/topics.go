package configs

import (
	"strconv"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
)

// TopicDefaults are the properties that topics have where they do not say otherwise, by Kafka's names and in its notation.
func (l Log) TopicDefaults() map[string]string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return map[string]string{
		topicconfig.CleanupPolicy:      l.CleanupPolicy,
		topicconfig.CompressionType:    l.CompressionType,
		topicconfig.DeleteRetentionMs:  number(int64(l.DeleteRetentionMs)),
		topicconfig.MaxCompactionLagMs: number(int64(l.MaxCompactionLagMs)),
		topicconfig.MaxMessageBytes:    number(int64(l.MaxMessageBytes)),
		topicconfig.TimestampAfterMax:  number(int64(l.TimestampAfterMax)),
		topicconfig.TimestampBeforeMax: number(int64(l.TimestampBeforeMax)),
		topicconfig.TimestampType:      l.TimestampType,
		topicconfig.MinDirtyRatio:      strconv.FormatFloat(float64(l.MinDirtyRatio), 'g', -1, 64),
		topicconfig.MinCompactionLagMs: number(int64(l.MinCompactionLagMs)),
		topicconfig.MinInsyncReplicas:  number(int64(l.MinInsyncReplicas)),
		topicconfig.RetentionBytes:     number(int64(l.RetentionBytes)),
		topicconfig.RetentionMs:        number(int64(l.RetentionMs)),
		topicconfig.SegmentBytes:       number(int64(l.SegmentBytes)),
		topicconfig.SegmentMs:          number(int64(l.SegmentMs)),
	}
}
