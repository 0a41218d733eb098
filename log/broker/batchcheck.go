package broker

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
	"github.com/rowtrail/rowtrail/log/record"
)

const (
	// maxUnpackedBytes bounds the records of one batch when they are decompressed to look at them.
	maxUnpackedBytes = 64 << 20 // bytes
	// maxUnpacking is how many batches are decompressed at once; others wait.
	maxUnpacking = 2
	// maxRecordErrors is how many records of a refused batch are named.
	maxRecordErrors = 100
	// zstdSince is the first Produce version whose clients may send zstd.
	zstdSince = 7
	// checksumFrom is where the part of a batch begins that its checksum covers.
	checksumFrom = 21
	// noTimestamp is the timestamp of a record without one.
	noTimestamp = -1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkBatch checks what the header of the one batch says that a producer sends to a partition.
func checkBatch(raw []byte, version int16, maxBytes int32) (record.Header, error) {
	if int64(len(raw)) > int64(maxBytes) {
		return record.Header{}, refuse(kerr.MessageTooLarge,
			fmt.Sprintf("record batch of %d bytes exceeds the topic's max.message.bytes of %d", len(raw), maxBytes))
	}
	h, err := record.Validate(raw, record.Checks{})
	if err != nil {
		// Clients send a corrupt batch again, so one that arrived as it was meant gets another code.
		code := kerr.CorruptMessage
		if batch, _, nextErr := record.Next(raw); nextErr == nil && crc32.Checksum(batch[checksumFrom:], castagnoli) == h.CRC {
			code = kerr.InvalidRecord
		}
		return h, refuse(code, err.Error())
	}
	switch {
	case h.BaseOffset != 0:
		return h, refuse(kerr.InvalidRecord, "base offset of a produced record batch is not 0")
	case h.Count == 0:
		return h, refuse(kerr.InvalidRecord, "record batch is empty")
	case h.Codec() == record.Zstd && version < zstdSince:
		return h, refuse(kerr.UnsupportedCompressionType, "zstd needs Produce version 7 or newer")
	}
	return h, nil
}

// recordRules are a topic's rules for single records.
type recordRules struct {
	keys        bool  // every record needs a key
	first, last int64 // bounds of timestamps
	ofTime      bool  // the bounds hold
}

// rulesFor are the rules of a topic for a batch that arrives at now. A connector of this process is not bound in time: its
// records bear the times of its source, whose clock is another, and refusing one would stop the connector for good.
func rulesFor(s *topicconfig.Settings, now time.Time, internal bool) recordRules {
	r := recordRules{keys: s.Log.Compact, first: math.MinInt64, last: math.MaxInt64}
	if s.Log.LogAppendTime || internal {
		return r
	}
	ms := now.UnixMilli()
	if s.BeforeMaxMs < math.MaxInt64 {
		r.first, r.ofTime = ms-s.BeforeMaxMs, true
	}
	if s.AfterMaxMs < math.MaxInt64-ms {
		r.last, r.ofTime = ms+s.AfterMaxMs, true
	}
	return r
}

// needRecords tells whether the header leaves open that all records keep the rules. The newest timestamp is in the header;
// the oldest is not, so a topic with a bound on it has every batch opened.
func (r recordRules) needRecords(h record.Header) bool {
	return r.keys || r.ofTime && (r.first > math.MinInt64 || h.MaxTimestamp > r.last)
}

// checkRecords refuses a batch with records that break the topic's rules, naming them.
func (b *Broker) checkRecords(raw []byte, rules recordRules, sp *kmsg.ProduceResponseTopicPartition) error {
	reader := b.readers.Get()
	defer b.readers.Put(reader)
	err := reader.Reset(raw)
	keyless, untimely := false, false
	for i := int32(0); err == nil && reader.Next(); i++ {
		r := reader.Record()
		text := ""
		switch {
		case rules.keys && r.Key == nil:
			keyless, text = true, "a record of a compacted topic needs a key"
		case rules.ofTime && r.Timestamp != noTimestamp && (r.Timestamp < rules.first || r.Timestamp > rules.last):
			untimely, text = true, fmt.Sprintf("timestamp %d is not between %d and %d", r.Timestamp, rules.first, rules.last)
		default:
			continue
		}
		if len(sp.ErrorRecords) < maxRecordErrors {
			bad := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			bad.RelativeOffset, bad.ErrorMessage = i, &text
			sp.ErrorRecords = append(sp.ErrorRecords, bad)
		}
	}
	switch {
	case err == nil:
		err = reader.Err()
	case errors.Is(err, record.ErrTooLarge):
		return refuse(kerr.MessageTooLarge, fmt.Sprintf("records decompress to more than %d bytes", maxUnpackedBytes))
	}
	switch {
	case err != nil:
		return refuse(kerr.InvalidRecord, err.Error())
	case untimely: // as Kafka answers where both rules are broken
		return refuse(kerr.InvalidTimestamp, "record timestamps are outside the topic's message.timestamp.before.max.ms or message.timestamp.after.max.ms")
	case keyless:
		return refuse(kerr.InvalidRecord, "a compacted topic takes only records with a key")
	}
	return nil
}
