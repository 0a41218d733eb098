package broker

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
	"github.com/rowtrail/rowtrail/log/broker/turns"
	"github.com/rowtrail/rowtrail/log/record"
)

const (
	// maxUnpackedBytes bounds the records of one batch when they are decompressed to look at them.
	maxUnpackedBytes = 64 << 20 // bytes
	// maxUnpacking is how many batches are decompressed at once, and recompressed; others wait.
	maxUnpacking = 2
	// plainReaders is how many uncompressed batches are looked at at once.
	plainReaders = 16
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

// openers lend out what batches are looked at with, a few at a time. Hosts take turns.
type openers struct {
	unpacking, looking, recompressing *turns.Gate
	packed, plain                     *record.Pool
	rewriters                         *record.Rewriters
}

func newOpeners() *openers {
	return &openers{
		unpacking: turns.New(time.Now, maxUnpacking), packed: record.NewPool(maxUnpacking, maxUnpackedBytes),
		looking: turns.New(time.Now, plainReaders), plain: record.NewPool(plainReaders, maxUnpackedBytes),
		recompressing: turns.New(time.Now, maxUnpacking), rewriters: record.NewRewriters(maxUnpacking, maxUnpackedBytes),
	}
}

// check checks the batch that a producer sends to a partition of a topic with settings s, and returns what is stored of it: with
// its largest timestamp corrected, in the topic's codec. Its records are decompressed once at most.
func (b *Broker) check(ctx context.Context, r *request, raw []byte, s *topicconfig.Settings, now time.Time,
	sp *kmsg.ProduceResponseTopicPartition,
) ([]byte, record.Header, error) {
	h, err := checkBatch(raw, r.version, s.Log.MaxMessageBytes)
	if err != nil {
		return nil, h, err
	}
	if h.LogAppendTime() && !s.Log.LogAppendTime {
		return nil, h, refuse(kerr.InvalidTimestamp, "record batch claims the broker's time in a topic whose message.timestamp.type is CreateTime")
	}
	c := recordCheck{rules: rulesFor(s, now, r.internal), newest: noTimestamp, sp: sp}
	switch {
	case s.Recodes(h.Codec()):
		raw, err = b.recompress(ctx, r.shares.recompressing, raw, s, &c)
	case c.rules.needRecords(h, r.internal):
		err = b.checkRecords(ctx, r.shares, raw, h, &c)
	}
	if err == nil && c.seen > 0 && c.newest != h.MaxTimestamp {
		record.SetMaxTimestamp(raw, c.newest)
	}
	return raw, h, err
}

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

// needRecords tells whether a batch is opened. What a client says of its records is not taken on trust; a connector of this
// process is spared the decompression of its own batches, where no rule is left open by the header. The newest timestamp is
// in the header; the oldest is not, so a topic with a bound on it has every batch opened.
func (r recordRules) needRecords(h record.Header, internal bool) bool {
	return !internal || h.Codec() == record.None ||
		r.keys || r.ofTime && (r.first > math.MinInt64 || h.MaxTimestamp > r.last)
}

// checkRecords refuses a batch whose records are not what its header says, or break the topic's rules.
func (b *Broker) checkRecords(ctx context.Context, s *shares, raw []byte, h record.Header, c *recordCheck) error {
	gate, from := s.unpacking, b.opening.packed
	if h.Codec() == record.None {
		gate, from = s.looking, b.opening.plain // waits for nobody's decompression
	}
	leave, err := enter(context.WithoutCancel(ctx), gate) // what has arrived is appended, also while the broker stops
	if err != nil {
		return err
	}
	defer leave()
	reader := from.Get()
	defer from.Put(reader)
	err = reader.Reset(raw)
	for err == nil && reader.Next() {
		c.see(reader.Record())
	}
	if err == nil {
		err = reader.Err()
	}
	return c.verdict(err)
}

// recordCheck holds the records of one batch against the topic's rules.
type recordCheck struct {
	rules             recordRules
	seen              int32
	newest            int64 // the largest timestamp; one in the header that is not this is corrected, as in Kafka
	keyless, untimely bool
	sp                *kmsg.ProduceResponseTopicPartition // names the records that break a rule
}

func (c *recordCheck) see(r *record.Record) {
	at := c.seen
	c.seen++
	c.newest = max(c.newest, r.Timestamp)
	noKey := c.rules.keys && r.Key == nil
	badTime := c.rules.ofTime && r.Timestamp != noTimestamp && (r.Timestamp < c.rules.first || r.Timestamp > c.rules.last)
	if !noKey && !badTime {
		return
	}
	c.keyless, c.untimely = c.keyless || noKey, c.untimely || badTime && !noKey
	if len(c.sp.ErrorRecords) < maxRecordErrors {
		c.sp.ErrorRecords = append(c.sp.ErrorRecords, c.rules.broken(at, r.Timestamp, noKey))
	}
}

// verdict is what the batch is refused with; err is how going over its records ended.
func (c *recordCheck) verdict(err error) error {
	switch {
	case errors.Is(err, record.ErrTooLarge):
		return refuse(kerr.MessageTooLarge, fmt.Sprintf("records decompress to more than %d bytes", maxUnpackedBytes))
	case err != nil:
		return refuse(kerr.InvalidRecord, err.Error())
	case c.untimely: // as Kafka answers where both rules are broken
		return refuse(kerr.InvalidTimestamp, "record timestamps are outside the topic's message.timestamp.before.max.ms or message.timestamp.after.max.ms")
	case c.keyless:
		return refuse(kerr.InvalidRecord, "a compacted topic takes only records with a key")
	}
	return nil
}

// broken names a record that breaks a rule.
func (r recordRules) broken(at int32, timestamp int64, noKey bool) kmsg.ProduceResponseTopicPartitionErrorRecord {
	text := "a record of a compacted topic needs a key"
	if !noKey {
		text = fmt.Sprintf("timestamp %d is not between %d and %d", timestamp, r.first, r.last)
	}
	bad := kmsg.NewProduceResponseTopicPartitionErrorRecord()
	bad.RelativeOffset, bad.ErrorMessage = at, &text
	return bad
}
