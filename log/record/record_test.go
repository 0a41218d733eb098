package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// compress rewrites a built batch with its records compressed, as a producer would send it.
func compress(t testing.TB, batch []byte, codec Codec) []byte {
	t.Helper()
	byCodec := map[Codec]kgo.CompressionCodec{
		Gzip: kgo.GzipCompression(), Snappy: kgo.SnappyCompression(), LZ4: kgo.Lz4Compression(), Zstd: kgo.ZstdCompression(),
	}
	c, err := kgo.DefaultCompressor(byCodec[codec])
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	body, used := c.Compress(&buf, batch[HeaderLen:])
	if Codec(used) != codec {
		t.Fatalf("compressed with codec %d, not %d", used, codec)
	}
	return reframe(batch, body, codec)
}

func reframe(batch, body []byte, codec Codec) []byte {
	out := append(slices.Clone(batch[:HeaderLen]), body...)
	binary.BigEndian.PutUint32(out[lengthAt:], uint32(len(out)-lengthEnd))
	attributes := binary.BigEndian.Uint16(out[attributesAt:])
	binary.BigEndian.PutUint16(out[attributesAt:], attributes&^attrCodec|uint16(codec))
	setCRC(out)
	return out
}

func sample(n int) []byte {
	var b Builder
	for i := range n {
		b.Append(int64(1000+i), fmt.Appendf(nil, "key-%d", i), bytes.Repeat([]byte("v"), i), RecordHeader{"h", []byte{1}}, RecordHeader{"h", nil})
	}
	return b.Build(&Producer{ID: 7, Epoch: 2, BaseSequence: math.MaxInt32 - 1, Transactional: true})
}

func TestReaderOfAllCodecs(t *testing.T) {
	const n = 50
	plain := sample(n)
	Stamp(plain, 100, 9)
	r := NewReader(1 << 20)
	for codec := None; codec <= maxCodec; codec++ {
		batch := plain
		if codec != None {
			batch = compress(t, plain, codec)
		}
		if _, err := Validate(batch, Checks{}); err != nil {
			t.Fatalf("codec %d: %v", codec, err)
		}
		if err := r.Reset(batch); err != nil {
			t.Fatalf("codec %d: %v", codec, err)
		}
		i := 0
		for ; r.Next(); i++ {
			c := r.Record()
			v, ok := c.Header("h")
			if c.Offset != int64(100+i) || c.Timestamp != int64(1000+i) || string(c.Key) != fmt.Sprintf("key-%d", i) ||
				len(c.Value) != i || c.Value == nil || c.HeaderCount() != 2 || !ok || v != nil {
				t.Fatalf("codec %d record %d: %+v, header %v %v", codec, i, c, v, ok)
			}
		}
		if r.Err() != nil || i != n {
			t.Fatalf("codec %d: %d records, %v", codec, i, r.Err())
		}
	}
}

// TestXerialFraming reads snappy as Java producers frame it.
func TestXerialFraming(t *testing.T) {
	plain := sample(60)
	c, err := kgo.DefaultCompressor(kgo.SnappyCompression())
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01")
	for part := range slices.Chunk(plain[HeaderLen:], 300) {
		var buf bytes.Buffer
		block, _ := c.Compress(&buf, part)
		body = append(binary.BigEndian.AppendUint32(body, uint32(len(block))), block...)
	}
	r := NewReader(1 << 20)
	if err := r.Reset(reframe(plain, body, Snappy)); err != nil {
		t.Fatal(err)
	}
	n := 0
	for r.Next() {
		n++
	}
	if r.Err() != nil || n != 60 {
		t.Fatalf("%d records, %v", n, r.Err())
	}
}

// TestDecompressionIsBounded: a small batch that swells is refused, for each codec.
func TestDecompressionIsBounded(t *testing.T) {
	var b Builder
	b.Append(0, nil, make([]byte, 4<<20))
	plain := b.Build(nil)
	for codec := Gzip; codec <= maxCodec; codec++ {
		batch := compress(t, plain, codec)
		if err := NewReader(1 << 20).Reset(batch); !errors.Is(err, ErrTooLarge) {
			t.Errorf("codec %d: %v", codec, err)
		}
		if err := NewReader(5 << 20).Reset(batch); err != nil {
			t.Errorf("codec %d: %v", codec, err)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	be := binary.BigEndian
	cases := []struct {
		name, want string
		spoil      func(b []byte) []byte
	}{
		{"short", "too few", func(b []byte) []byte { return b[:40] }},
		{"magic", "magic 1", func(b []byte) []byte { b[magicAt] = 1; return b }},
		{"cut off", "bytes are there", func(b []byte) []byte { return b[:len(b)-1] }},
		{"negative length", "shorter than a header", func(b []byte) []byte { be.PutUint32(b[lengthAt:], 1<<31); return b }},
		{"trailing", "follow the batch", func(b []byte) []byte { return append(b, 0) }},
		{"checksum", "checksum", func(b []byte) []byte { b[len(b)-1]++; return b }},
		{"codec", "codec 7", func(b []byte) []byte { b[attributesAt+1] |= 7; setCRC(b); return b }},
		{"delta", "offset delta", func(b []byte) []byte { be.PutUint32(b[lastDeltaAt:], 3); setCRC(b); return b }},
		{"count", "offset delta", func(b []byte) []byte { be.PutUint32(b[countAt:], 99); setCRC(b); return b }},
		{"control", "control", func(b []byte) []byte { b[attributesAt+1] |= attrControl; setCRC(b); return b }},
		{"producer", "producer -2", func(b []byte) []byte { be.PutUint64(b[producerAt:], ^uint64(1)); setCRC(b); return b }},
		{"sequence", "sequence -5", func(b []byte) []byte { be.PutUint32(b[sequenceAt:], ^uint32(4)); setCRC(b); return b }},
		{"transaction", "without a producer", func(b []byte) []byte { be.PutUint64(b[producerAt:], ^uint64(0)); setCRC(b); return b }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Validate(c.spoil(sample(3)), Checks{})
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, expected one about %q", err, c.want)
			}
		})
	}
	compacted := sample(3)
	be.PutUint32(compacted[lastDeltaAt:], 9)
	setCRC(compacted)
	if _, err := Validate(compacted, Checks{AllowGaps: true}); err != nil {
		t.Errorf("compacted batch: %v", err)
	}
}

func TestStampKeepsChecksum(t *testing.T) {
	b := sample(3)
	Stamp(b, 1<<40, 77)
	h, err := Validate(b, Checks{})
	if err != nil || h.BaseOffset != 1<<40 || h.LeaderEpoch != 77 || h.LastOffset() != 1<<40+2 {
		t.Fatalf("%+v, %v", h, err)
	}
	if h.LastSequence() != 0 {
		t.Fatalf("last sequence %d: sequences wrap to 0", h.LastSequence())
	}
	SetLogAppendTime(b, 5555)
	if h, err = Validate(b, Checks{}); err != nil || !h.LogAppendTime() || h.MaxTimestamp != 5555 {
		t.Fatalf("%+v, %v", h, err)
	}
	r := NewReader(1 << 20)
	if err := r.Reset(b); err != nil || !r.Next() || r.Record().Timestamp != 5555 {
		t.Fatalf("%+v, %v", r.Record(), err)
	}
}

func TestNextSplits(t *testing.T) {
	a, b := sample(2), sample(5)
	got, rest, err := Next(slices.Concat(a, b))
	if err != nil || !bytes.Equal(got, a) || !bytes.Equal(rest, b) {
		t.Fatalf("%d and %d bytes, %v", len(got), len(rest), err)
	}
	if _, _, err := Next(rest[:len(rest)-1]); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

func TestEndTxn(t *testing.T) {
	for _, m := range []EndTxn{{1, 2, 3, true}, {1 << 40, math.MaxInt16, 0, false}} {
		b := m.Build(99)
		if _, err := Validate(b, Checks{}); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("a client may not send a marker: %v", err)
		}
		h, err := Validate(b, Checks{AllowControl: true})
		if err != nil || !h.Control() || !h.Transactional() || h.BaseSequence != -1 || h.MaxTimestamp != 99 {
			t.Fatalf("%+v, %v", h, err)
		}
		if got, err := ParseEndTxn(b); err != nil || got != m {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if _, err := ParseEndTxn(sample(1)); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

// TestBuilderAgainstKmsg compares with the codec that clients use.
func TestBuilderAgainstKmsg(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var b Builder
		value := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 200))
		type in struct {
			ts         int64
			key, value []byte
			headers    []RecordHeader
		}
		var ins []in
		for range rapid.IntRange(1, 20).Draw(rt, "records") {
			x := in{ts: rapid.Int64Range(0, 1<<41).Draw(rt, "ts"), key: value.Draw(rt, "key"), value: value.Draw(rt, "value")}
			for range rapid.IntRange(0, 3).Draw(rt, "headers") {
				x.headers = append(x.headers, RecordHeader{rapid.StringN(0, 5, 10).Draw(rt, "name"), value.Draw(rt, "header")})
			}
			b.Append(x.ts, x.key, x.value, x.headers...)
			ins = append(ins, x)
		}
		size := b.Size()
		batch := b.Build(nil)
		if len(batch) != size || b.Size() != HeaderLen {
			rt.Fatalf("%d bytes, Size said %d", len(batch), size)
		}
		var k kmsg.RecordBatch
		if err := k.ReadFrom(batch); err != nil || int(k.NumRecords) != len(ins) {
			rt.Fatalf("%d records, %v", k.NumRecords, err)
		}
		raw := k.Records
		for i, x := range ins {
			n, used := binary.Varint(raw)
			var rec kmsg.Record
			if err := rec.ReadFrom(raw[:int(n)+used]); err != nil {
				rt.Fatal(err)
			}
			raw = raw[int(n)+used:]
			if rec.OffsetDelta != int32(i) || k.FirstTimestamp+rec.TimestampDelta64 != x.ts || !same(rec.Key, x.key) || !same(rec.Value, x.value) ||
				len(rec.Headers) != len(x.headers) {
				rt.Fatalf("record %d: %+v, expected %+v", i, rec, x)
			}
		}
		if len(raw) != 0 {
			rt.Fatalf("%d bytes are left", len(raw))
		}
	})
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// FuzzBatch: whatever the bytes, no panic, no record outside of the batch, and what is valid stays valid when stamped.
func FuzzBatch(f *testing.F) {
	plain := sample(4)
	f.Add(plain)
	for codec := Gzip; codec <= maxCodec; codec++ {
		f.Add(compress(f, plain, codec))
	}
	f.Add(EndTxn{1, 2, 3, true}.Build(4))
	f.Add(slices.Concat(plain, plain))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := NewReader(1 << 20)
		for rest := in; len(rest) > 0; {
			batch, after, err := Next(rest)
			if err != nil {
				return
			}
			rest = after
			_, _ = ParseEndTxn(batch)
			fixed := slices.Clone(batch)
			setCRC(fixed) // so that the fuzzer gets behind the checksum
			h, err := Validate(fixed, Checks{AllowControl: true, AllowGaps: true})
			if r.Reset(fixed) != nil {
				continue
			}
			n := int32(0)
			last := int64(math.MinInt64)
			for r.Next() {
				c := r.Record()
				if c.Offset <= last && n > 0 {
					t.Fatalf("offset %d follows %d", c.Offset, last)
				}
				last = c.Offset
				c.EachHeader(func(k, v []byte) bool { return len(k)+len(v) >= 0 })
				n++
			}
			if n > r.BatchHeader().Count || r.Err() == nil && n != r.BatchHeader().Count {
				t.Fatalf("%d records of %d, %v", n, r.BatchHeader().Count, r.Err())
			}
			if err == nil {
				Stamp(fixed, 123, 4)
				SetLogAppendTime(fixed, 5)
				if g, err := Validate(fixed, Checks{AllowControl: true, AllowGaps: true}); err != nil || g.Count != h.Count || g.BaseOffset != 123 {
					t.Fatalf("stamped: %+v, %v", g, err)
				}
			}
		}
	})
}

func BenchmarkReader(b *testing.B) {
	var bld Builder
	for i := range 100 {
		bld.Append(int64(i), []byte("some-key"), make([]byte, 500), RecordHeader{"position", make([]byte, 20)})
	}
	plain := bld.Build(nil)
	for codec := None; codec <= maxCodec; codec++ {
		batch := plain
		if codec != None {
			batch = compress(b, plain, codec)
		}
		b.Run(fmt.Sprint("codec=", codec), func(b *testing.B) {
			r := NewReader(1 << 20)
			b.ReportAllocs()
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				if err := r.Reset(batch); err != nil {
					b.Fatal(err)
				}
				for r.Next() {
					_ = r.Record()
				}
			}
		})
	}
}

func BenchmarkValidate16KiB(b *testing.B) {
	var bld Builder
	bld.Append(0, nil, make([]byte, 16<<10))
	batch := bld.Build(nil)
	b.ReportAllocs()
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		if _, err := Validate(batch, Checks{}); err != nil {
			b.Fatal(err)
		}
		Stamp(batch, 5, 6)
	}
}
