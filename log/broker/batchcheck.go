package broker

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/record"
)

const (
	// maxUnpackedBytes bounds the records of one batch when they are decompressed to look at their keys.
	maxUnpackedBytes = 64 << 20 // bytes
	// maxUnpacking is how many batches are decompressed at once; others wait.
	maxUnpacking = 2
	// maxRecordErrors is how many records of a refused batch are named.
	maxRecordErrors = 100
	// zstdSince is the first Produce version whose clients may send zstd.
	zstdSince = 7
	// checksumFrom is where the part of a batch begins that its checksum covers.
	checksumFrom = 21
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkBatch checks the one batch that a producer sends to a partition.
func checkBatch(raw []byte, version int16, limits topicLimits, now time.Time) (record.Header, error) {
	if int64(len(raw)) > int64(limits.maxMessageBytes) {
		return record.Header{}, refuse(kerr.MessageTooLarge,
			fmt.Sprintf("record batch of %d bytes exceeds the topic's max.message.bytes of %d", len(raw), limits.maxMessageBytes))
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
	case !limits.logAppendTime && !timely(h, limits, now):
		return h, refuse(kerr.InvalidTimestamp, "record timestamp is outside the topic's message.timestamp.before.max.ms or message.timestamp.after.max.ms")
	}
	return h, nil
}

// timely applies the topic's bounds on timestamps.
func timely(h record.Header, limits topicLimits, now time.Time) bool {
	if limits.beforeMaxMs == math.MaxInt64 && limits.afterMaxMs == math.MaxInt64 {
		return true
	}
	ms := now.UnixMilli()
	return ms-h.FirstTimestamp <= limits.beforeMaxMs && h.MaxTimestamp-ms <= limits.afterMaxMs
}

// checkKeys refuses a batch with a keyless record for a compacted topic, naming the records.
func (b *Broker) checkKeys(raw []byte, sp *kmsg.ProduceResponseTopicPartition) error {
	reader := b.readers.Get()
	defer b.readers.Put(reader)
	err := reader.Reset(raw)
	for i := int32(0); err == nil && reader.Next(); i++ {
		if reader.Record().Key == nil && len(sp.ErrorRecords) < maxRecordErrors {
			bad := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			bad.RelativeOffset = i
			text := "a record of a compacted topic needs a key"
			bad.ErrorMessage = &text
			sp.ErrorRecords = append(sp.ErrorRecords, bad)
		}
	}
	switch {
	case err == nil:
		err = reader.Err()
	case errors.Is(err, record.ErrTooLarge):
		return refuse(kerr.MessageTooLarge, fmt.Sprintf("records decompress to more than %d bytes", maxUnpackedBytes))
	}
	if err != nil {
		return refuse(kerr.InvalidRecord, err.Error())
	}
	if len(sp.ErrorRecords) > 0 {
		return refuse(kerr.InvalidRecord, "a compacted topic takes only records with a key")
	}
	return nil
}
