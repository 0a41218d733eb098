package topicconfig

import (
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
)

func TestTableIsWhole(t *testing.T) {
	all := All()
	for i, p := range all {
		if i > 0 && all[i-1].Name >= p.Name {
			t.Errorf("%s is out of order", p.Name)
		}
		if !p.Accepts(p.Default) {
			t.Errorf("%s: default %q is not accepted", p.Name, p.Default)
		}
		if p.Doc == "" || p.Range == "" || p.Broker == "" {
			t.Errorf("%s is not described", p.Name)
		}
		if got := Lookup(p.Name); got == nil || got.Name != p.Name {
			t.Errorf("%s is not found", p.Name)
		}
		if got := LookupBroker(p.Broker); got == nil || got.Name != p.Name {
			t.Errorf("%s is not found by its broker's name %s", p.Name, p.Broker)
		}
	}
	all[0].Name = "changed"
	if All()[0].Name == "changed" {
		t.Error("a caller changed the table")
	}
	if Lookup("") != nil || Lookup("retention.hours") != nil || LookupBroker("num.partitions") != nil {
		t.Error("found what is not there")
	}
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"cleanup.policy", "compact", true},
		{"cleanup.policy", "compact,delete", true},
		{"cleanup.policy", "compact, delete", true},
		{"cleanup.policy", "", true},
		{"cleanup.policy", "keep", false},
		{"cleanup.policy", "compact,,", false},
		{"retention.ms", "-1", true},
		{"retention.ms", " 5 ", true},
		{"retention.ms", "-2", false},
		{"retention.bytes", "1e6", false},
		{"retention.bytes", "", false},
		{"max.message.bytes", "33554432", true},
		{"max.message.bytes", "33554433", false},
		{"min.cleanable.dirty.ratio", "0.5", true},
		{"min.cleanable.dirty.ratio", "1.1", false},
		{"min.cleanable.dirty.ratio", "NaN", false},
		{"message.timestamp.type", "LogAppendTime", true},
		{"message.timestamp.type", "never", false},
		{"remote.storage.enable", "false", true},
		{"remote.storage.enable", "true", false},
		{"unclean.leader.election.enable", "TRUE", true},
		{"segment.bytes", "1073741824", true},
		{"segment.bytes", "13", false},
		{"compression.gzip.level", "-1", true},
		{"compression.gzip.level", "0", false},
		{"compression.gzip.level", "9", true},
		{"compression.gzip.level", "10", false},
		{"compression.lz4.level", "17", true},
		{"compression.lz4.level", "18", false},
		{"compression.zstd.level", "-131072", true},
		{"compression.zstd.level", "23", false},
		{"compression.type", "uncompressed", true},
		{"compression.type", "none", false},
		{"min.insync.replicas", "0", false},
		{"leader.replication.throttled.replicas", "", true},
		{"leader.replication.throttled.replicas", "0:1,1:2", true},
		{"retention.hours", "1", false},
	} {
		err := CheckTopic(map[string]string{c.name: c.value})
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		}
	}
}

func TestLagsThatExcludeEachOther(t *testing.T) {
	topic := map[string]string{MinCompactionLagMs: "1000"}
	if err := CheckTopic(topic); err != nil {
		t.Error(err)
	}
	if err := CheckTopic(topic, map[string]string{MaxCompactionLagMs: "1000"}); err != nil {
		t.Errorf("the same: %v", err)
	}
	if err := CheckTopic(topic, map[string]string{MaxCompactionLagMs: "999"}); err == nil {
		t.Error("a default below the topic's minimum passed")
	}
}

func TestResolve(t *testing.T) {
	standard := Settings{
		Log: log.Config{RetentionBytes: -1, RetentionMs: -1, MaxMessageBytes: 1048588, DeleteRetentionMs: 86400000, MinDirtyRatio: 0.5,
			SegmentBytes: 1 << 30, SegmentMs: 604800000},
		Deletes: true, MinInsync: 1, BeforeMaxMs: 1<<63 - 1, AfterMaxMs: 3600000,
	}
	for _, c := range []struct {
		name   string
		layers []map[string]string
		want   func(*Settings)
	}{
		{"nothing set", nil, func(*Settings) {}},
		{"an empty layer", []map[string]string{nil, {}}, func(*Settings) {}},
		{"retention of nothing", []map[string]string{{"retention.bytes": "0", "retention.ms": "0"}},
			func(s *Settings) { s.Log.RetentionBytes, s.Log.RetentionMs = 1, 1 }},
		{"the first layer wins", []map[string]string{{"retention.ms": "5"}, {"retention.ms": "6", "retention.bytes": "7"}, {"retention.bytes": "8"}},
			func(s *Settings) { s.Log.RetentionMs, s.Log.RetentionBytes = 5, 7 }},
		{"compaction alone forgets no key", []map[string]string{{"cleanup.policy": "compact"}, {"retention.ms": "6", "retention.bytes": "7"}},
			func(s *Settings) { s.Log.Compact, s.Deletes = true, false }},
		{"both", []map[string]string{{"cleanup.policy": "compact, delete"}, {"retention.ms": "6"}},
			func(s *Settings) { s.Log.Compact, s.Log.RetentionMs = true, 6 }},
		{"no policy", []map[string]string{{"cleanup.policy": ""}, {"retention.ms": "6"}}, func(s *Settings) { s.Deletes = false }},
		{"compaction", []map[string]string{{"min.compaction.lag.ms": "1", "max.compaction.lag.ms": "2", "delete.retention.ms": "3",
			"min.cleanable.dirty.ratio": "0.25", "segment.bytes": "400", "segment.ms": "500"}},
			func(s *Settings) {
				s.Log.MinCompactionLagMs, s.Log.MaxCompactionLagMs, s.Log.DeleteRetentionMs = 1, 2, 3
				s.Log.MinDirtyRatio, s.Log.SegmentBytes, s.Log.SegmentMs = 0.25, 400, 500
			}},
		{"appends", []map[string]string{{"message.timestamp.type": "LogAppendTime", "max.message.bytes": "100", "min.insync.replicas": "2",
			"message.timestamp.after.max.ms": "5", "message.timestamp.before.max.ms": "6"}},
			func(s *Settings) {
				s.Log.LogAppendTime, s.Log.MaxMessageBytes, s.MinInsync, s.AfterMaxMs, s.BeforeMaxMs = true, 100, 2, 5, 6
			}},
		{"gzip", []map[string]string{{"compression.type": "gzip"}}, func(s *Settings) { s.Recode, s.Codec, s.Level = true, record.Gzip, -1 }},
		{"zstd", []map[string]string{{"compression.type": "zstd"}, {"compression.zstd.level": "7"}}, func(s *Settings) { s.Recode, s.Codec, s.Level = true, record.Zstd, 7 }},
		{"lz4", []map[string]string{{"compression.type": "lz4"}}, func(s *Settings) { s.Recode, s.Codec, s.Level = true, record.LZ4, 9 }},
		{"uncompressed", []map[string]string{{"compression.type": "uncompressed"}}, func(s *Settings) { s.Recode = true }},
		{"snappy", []map[string]string{{"compression.type": "snappy"}}, func(s *Settings) { s.Recode, s.Codec = true, record.Snappy }},
	} {
		want := standard
		c.want(&want)
		if got := Resolve(c.layers...); got != want {
			t.Errorf("%s:\n%+v, want\n%+v", c.name, got, want)
		}
	}
}

// KAFKA-18762: a topic whose min.insync.replicas is above its number of replicas asks for all of them.
func TestMinISR(t *testing.T) {
	for _, c := range []struct{ min, replicas, want int }{{1, 1, 1}, {2, 1, 1}, {2, 3, 2}, {3, 3, 3}, {9, 3, 3}} {
		s := Settings{MinInsync: c.min}
		if got := s.MinISR(c.replicas); got != c.want {
			t.Errorf("min.insync.replicas %d of %d replicas: %d, want %d", c.min, c.replicas, got, c.want)
		}
	}
}
