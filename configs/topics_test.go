package configs

import (
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
)

// The defaults that a file without a log section gives topics are those of the table of topic properties.
func TestTopicDefaultsAreTheTables(t *testing.T) {
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	defaults := c.Log.TopicDefaults()
	for name, value := range defaults {
		if p := topicconfig.Lookup(name); p == nil || p.Default != value {
			t.Errorf("%s: %q, the table says %+v", name, value, p)
		}
	}
	for _, f := range Fields() {
		name, ok := strings.CutPrefix(f.Path, "log.")
		if ok && topicconfig.Lookup(name) != nil && defaults[name] == "" {
			t.Errorf("%s is in the file and does not reach topics", name)
		}
	}
}

func TestTopicDefaultsOfAFile(t *testing.T) {
	c, err := Parse("f", []byte("log: {cleanup.policy: 'compact,delete', retention.ms: 7d, min.cleanable.dirty.ratio: 0.25, compression.type: zstd, max.compaction.lag.ms: 1h, min.insync.replicas: 2}"), testEnv(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	got := c.Log.TopicDefaults()
	for name, want := range map[string]string{
		"cleanup.policy": "compact,delete", "retention.ms": "604800000", "min.cleanable.dirty.ratio": "0.25", "compression.type": "zstd",
		"max.compaction.lag.ms": "3600000", "min.insync.replicas": "2",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

func TestTopicDefaultsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"log: {cleanup.policy: keep}":                                 `f:1: log.cleanup.policy: "keep" is not accepted; write a list of delete, compact, or empty`,
		"log: {min.cleanable.dirty.ratio: 2}":                         `f:1: log.min.cleanable.dirty.ratio: "2" is not a number from 0 to 1; write one, as 0.5`,
		"log: {min.compaction.lag.ms: 2h, max.compaction.lag.ms: 1h}": "f:1: log.min.compaction.lag.ms: is above log.max.compaction.lag.ms; lower it, or raise the other",
		"log: {compression.type: zst}":                                `f:1: log.compression.type: "zst" is not known; did you mean zstd?`,
		"log: {message.timestamp.after.max.ms: -1}":                   "f:1: log.message.timestamp.after.max.ms: -1 is out of range; write at least 0",
		"log: {min.insync.replicas: 0}":                               "f:1: log.min.insync.replicas: 0 is out of range; write at least 1",
	} {
		_, err := Parse("f", []byte(text), testEnv(nil, nil))
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n%v, want\n%s", text, err, want)
		}
	}
}
