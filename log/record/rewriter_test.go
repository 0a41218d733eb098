package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// decode reads a batch as franz-go's consumer does, checksum and all.
func decode(t rapid.TB, batch []byte) []*kgo.Record {
	t.Helper()
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = batch
	p.HighWatermark, p.LastStableOffset = 1<<62, 1<<62
	fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true}, &p, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		t.Fatalf("franz-go refuses the batch: %v", fp.Err)
	}
	return fp.Records
}

// xerial reframes a plain batch as Java producers compress snappy.
func xerial(batch []byte) []byte { return reframe(batch, appendXerial(nil, batch[HeaderLen:]), Snappy) }

// drawBatch draws a stamped batch in some codec, some of its records, and its plain form.
func drawBatch(rt *rapid.T, t *testing.T) (batch, plain []byte) {
	var b Builder
	value := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 300))
	for range rapid.IntRange(1, 30).Draw(rt, "records") {
		var headers []RecordHeader
		for range rapid.IntRange(0, 3).Draw(rt, "headers") {
			headers = append(headers, RecordHeader{rapid.StringN(0, 5, 10).Draw(rt, "name"), value.Draw(rt, "header")})
		}
		b.Append(rapid.Int64Range(-1, 1<<41).Draw(rt, "ts"), value.Draw(rt, "key"), value.Draw(rt, "value"), headers...)
	}
	var who *Producer
	if rapid.Bool().Draw(rt, "idempotent") {
		who = &Producer{ID: rapid.Int64Range(0, 1<<40).Draw(rt, "id"), Epoch: int16(rapid.IntRange(0, 9).Draw(rt, "epoch")),
			BaseSequence: rapid.Int32Min(0).Draw(rt, "sequence"), Transactional: rapid.Bool().Draw(rt, "transactional")}
	}
	plain = b.Build(who)
	if rapid.Bool().Draw(rt, "broker's time") {
		SetLogAppendTime(plain, rapid.Int64Range(0, 1<<41).Draw(rt, "append time"))
	}
	Stamp(plain, rapid.Int64Range(0, 1<<40).Draw(rt, "base"), rapid.Int32Range(0, 99).Draw(rt, "epoch"))
	switch codec := Codec(rapid.IntRange(0, int(maxCodec)+1).Draw(rt, "codec")); codec {
	case None:
		return plain, plain
	case maxCodec + 1:
		return xerial(plain), plain
	default:
		return compress(t, plain, codec), plain
	}
}

func sameRecord(a, b *kgo.Record) bool {
	if a.Offset != b.Offset || !a.Timestamp.Equal(b.Timestamp) || !same(a.Key, b.Key) || !same(a.Value, b.Value) || len(a.Headers) != len(b.Headers) ||
		a.ProducerID != b.ProducerID || a.ProducerEpoch != b.ProducerEpoch || a.LeaderEpoch != b.LeaderEpoch {
		return false
	}
	for i := range a.Headers {
		if a.Headers[i].Key != b.Headers[i].Key || !same(a.Headers[i].Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}

// TestRewriteAgainstFranz: what a consumer reads of a rewritten batch is what it read before, without what was refused.
// One rewriter goes through all of them, and rewrites what it made once more.
func TestRewriteAgainstFranz(t *testing.T) {
	w := NewRewriter(1 << 20)
	rapid.Check(t, func(rt *rapid.T) {
		batch, _ := drawBatch(rt, t)
		before := slices.Clone(batch)
		prefix := []byte("prefix")
		for round := range 2 {
			all := decode(rt, batch)
			var want []*kgo.Record
			refuse := map[int64]bool{}
			for _, r := range all {
				if refuse[r.Offset] = rapid.Bool().Draw(rt, "refuse"); !refuse[r.Offset] {
					want = append(want, r)
				}
			}
			out, kept, err := w.Rewrite(slices.Clone(prefix), batch, func(r *Record) bool { return !refuse[r.Offset] })
			if err != nil || kept != len(want) || !bytes.HasPrefix(out, prefix) {
				rt.Fatalf("%d records are kept of %d, %v", kept, len(want), err)
			}
			out = out[len(prefix):]
			checkRewritten(rt, batch, out, want, all)
			if round == 0 && !bytes.Equal(batch, before) {
				rt.Fatal("the batch itself was changed")
			}
			batch = out
		}
	})
}

func checkRewritten(rt *rapid.T, batch, out []byte, want, all []*kgo.Record) {
	if len(want) == len(all) && !bytes.Equal(out, batch) {
		rt.Fatal("all records are kept, but not the bytes")
	}
	h, err := Validate(out, Checks{AllowGaps: true})
	if err != nil {
		rt.Fatal(err)
	}
	got := decode(rt, out)
	if !slices.EqualFunc(got, want, sameRecord) {
		rt.Fatalf("records are %v, expected %v", got, want)
	}
	was, _ := ParseHeader(batch)
	largest := was.MaxTimestamp
	if len(want) > 0 && !was.LogAppendTime() && len(want) < len(all) {
		largest = slices.MaxFunc(want, func(a, b *kgo.Record) int { return a.Timestamp.Compare(b.Timestamp) }).Timestamp.UnixMilli()
	}
	expected := was
	expected.Length, expected.CRC, expected.Count, expected.MaxTimestamp = h.Length, h.CRC, int32(len(want)), largest
	if len(want) == 0 && len(all) > 0 {
		expected.Attributes &^= attrCodec
		expected.FirstTimestamp = -1
		if len(out) != HeaderLen {
			rt.Fatalf("an empty batch of %d bytes", len(out))
		}
	}
	if h != expected || h.LastOffset() != was.LastOffset() || h.LastSequence() != was.LastSequence() {
		rt.Fatalf("header is  %+v\nexpected %+v", h, expected)
	}
}

// TestRecompressAgainstFranz: a batch reads the same in every codec at every level.
func TestRecompressAgainstFranz(t *testing.T) {
	w := NewRewriter(1 << 20)
	rapid.Check(t, func(rt *rapid.T) {
		batch, plain := drawBatch(rt, t)
		codec := Codec(rapid.IntRange(0, int(maxCodec)).Draw(rt, "to"))
		lowest, highest, _ := Levels(codec)
		level := rapid.OneOf(rapid.IntRange(max(lowest, -20), highest), rapid.Just(lowest)).Draw(rt, "level")
		if codec == Gzip && level == 0 {
			level = -1
		}
		out, err := w.Recompress(nil, batch, codec, level)
		if err != nil {
			rt.Fatal(err)
		}
		h, err := Validate(out, Checks{})
		if err != nil || h.Codec() != codec {
			rt.Fatalf("codec %d, %v", h.Codec(), err)
		}
		if was, _ := ParseHeader(batch); was.Codec() == codec && !bytes.Equal(out, batch) {
			rt.Fatal("a batch of that codec was made anew")
		}
		if got, want := decode(rt, out), decode(rt, batch); !slices.EqualFunc(got, want, sameRecord) {
			rt.Fatalf("records are %v, expected %v", got, want)
		}
		back, err := w.Recompress(nil, out, None, 0)
		if err != nil || !bytes.Equal(back, plain) {
			rt.Fatalf("uncompressed again it is another batch, %v", err)
		}
	})
}

func TestRecompressLevels(t *testing.T) {
	var b Builder
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 500 {
		b.Append(int64(i), fmt.Appendf(nil, "key-%d", rng.IntN(50)), fmt.Appendf(nil, `{"before":null,"after":{"id":%d,"name":"customer %d","city":"Town %d","seen":%t},"op":"c"}`, i, rng.IntN(99), rng.IntN(20), i%3 == 0))
	}
	plain := b.Build(nil)
	w := NewRewriter(1 << 20)
	size := func(codec Codec, level int) int {
		t.Helper()
		out, err := w.Recompress(nil, plain, codec, level)
		if err != nil {
			t.Fatal(err)
		}
		return len(out)
	}
	for _, c := range []struct {
		codec      Codec
		fast, slow int
	}{{Gzip, 1, 9}, {LZ4, 9, 17}, {Zstd, -131072, 22}} {
		if quick, small := size(c.codec, c.fast), size(c.codec, c.slow); small >= quick || quick >= len(plain) {
			t.Errorf("codec %d: %d bytes at level %d, %d at level %d, %d plain", c.codec, quick, c.fast, small, c.slow, len(plain))
		}
	}
	for _, c := range []struct {
		codec Codec
		level int
	}{{Gzip, 0}, {Gzip, -2}, {Gzip, 10}, {LZ4, 0}, {LZ4, 18}, {Zstd, 23}, {Zstd, -131073}} {
		dst := []byte("dst")
		out, err := w.Recompress(dst, plain, c.codec, c.level)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint("level ", c.level)) || string(out) != "dst" {
			t.Errorf("codec %d level %d: %v", c.codec, c.level, err)
		}
	}
	if _, err := w.Recompress(nil, plain, 5, 0); err == nil || !strings.Contains(err.Error(), "number 5") {
		t.Errorf("codec 5: %v", err)
	}
}

// TestLZ4IsOfSmallIndependentBlocks: Java refuses blocks that depend on one another, and buffers as much as a block may hold.
func TestLZ4IsOfSmallIndependentBlocks(t *testing.T) {
	out, err := NewRewriter(1<<20).Recompress(nil, sample(50), LZ4, 9)
	if err != nil {
		t.Fatal(err)
	}
	flags, blocks := out[HeaderLen+4], out[HeaderLen+5]
	if flags != 0x60 || blocks != 0x40 {
		t.Fatalf("frame flags %#x, block size %#x", flags, blocks)
	}
}

// TestRewriteRefusesDamage: any flipped bit is found, and a body that is no list of records even with a right checksum.
func TestRewriteRefusesDamage(t *testing.T) {
	plain := sample(20)
	w := NewRewriter(1 << 20)
	all := func(*Record) bool { return true }
	none := func(*Record) bool { return false }
	for codec := None; codec <= maxCodec; codec++ {
		batch := plain
		if codec != None {
			batch = compress(t, plain, codec)
		}
		for bit := magicAt * 8; bit < len(batch)*8; bit += 7 {
			bad := slices.Clone(batch)
			bad[bit/8] ^= 1 << (bit % 8)
			for _, keep := range []func(*Record) bool{all, none} {
				if out, _, err := w.Rewrite(nil, bad, keep); !errors.Is(err, ErrCorrupt) || len(out) != 0 {
					t.Fatalf("codec %d bit %d: %d bytes, %v", codec, bit, len(out), err)
				}
			}
			if out, err := w.Recompress(nil, bad, Zstd, 3); !errors.Is(err, ErrCorrupt) || len(out) != 0 {
				t.Fatalf("codec %d bit %d: %d bytes, %v", codec, bit, len(out), err)
			}
		}
	}
	body := slices.Clone(plain[HeaderLen:])
	body[len(body)/2] ^= 0xff
	body = body[:len(body)-3]
	for codec := None; codec <= maxCodec; codec++ {
		c, level := compressor{}, 0
		_, _, level = Levels(codec)
		packed, err := c.compress(nil, codec, level, body)
		if err != nil {
			t.Fatal(err)
		}
		bad := reframe(plain, packed, codec)
		if _, _, err := w.Rewrite(nil, bad, none); !errors.Is(err, ErrCorrupt) {
			t.Errorf("codec %d: %v", codec, err)
		}
		if _, err := w.Recompress(nil, bad, (codec+1)%maxCodec, 3); !errors.Is(err, ErrCorrupt) {
			t.Errorf("codec %d: %v", codec, err)
		}
	}
}

// TestRewriteIsBounded: a batch that swells is refused, and a large one leaves no large buffers behind.
func TestRewriteIsBounded(t *testing.T) {
	var b Builder
	for range 2 {
		b.Append(0, nil, make([]byte, 10<<20))
	}
	plain := b.Build(nil)
	for codec := Gzip; codec <= maxCodec; codec++ {
		batch := compress(t, plain, codec)
		w := NewRewriter(1 << 20)
		if _, _, err := w.Rewrite(nil, batch, func(*Record) bool { return true }); !errors.Is(err, ErrTooLarge) {
			t.Errorf("codec %d: %v", codec, err)
		}
		if _, err := w.Recompress(nil, batch, None, 0); !errors.Is(err, ErrTooLarge) {
			t.Errorf("codec %d: %v", codec, err)
		}
		w = NewRewriter(32 << 20)
		n := 0
		out, kept, err := w.Rewrite(nil, batch, func(*Record) bool { n++; return n == 1 })
		if err != nil || kept != 1 || len(decode(t, out)) != 1 {
			t.Errorf("codec %d: %d records, %v", codec, kept, err)
		}
		if cap(w.body) > keepRewritten || cap(w.r.d.out) > keepRewritten {
			t.Errorf("codec %d: buffers of %d and %d bytes are kept", codec, cap(w.body), cap(w.r.d.out))
		}
	}
}

// TestRewriteDoesNotAllocatePerRecord: in steady state a batch costs a constant number of allocations.
func TestRewriteDoesNotAllocatePerRecord(t *testing.T) {
	small, large := sample(20), sample(400)
	for codec := None; codec <= maxCodec; codec++ {
		w := NewRewriter(1 << 20)
		per := func(plain []byte) float64 {
			batch := plain
			if codec != None {
				batch = compress(t, plain, codec)
			}
			dst := make([]byte, 0, 1<<20)
			return testing.AllocsPerRun(20, func() {
				n := 0
				out, _, err := w.Rewrite(dst[:0], batch, func(*Record) bool { n++; return n%2 == 0 })
				if err != nil {
					t.Fatal(err)
				}
				dst = out
			})
		}
		per(large)
		if a, b := per(small), per(large); b > a+8 || b > 20 {
			t.Errorf("codec %d: %.0f allocations for 20 records, %.0f for 400", codec, a, b)
		}
	}
}

func TestRewriteOfMarkers(t *testing.T) {
	marker := EndTxn{7, 2, 3, true}.Build(99)
	Stamp(marker, 41, 6)
	w := NewRewriter(1 << 10)
	out, kept, err := w.Rewrite(nil, marker, func(*Record) bool { return true })
	if err != nil || kept != 1 || !bytes.Equal(out, marker) {
		t.Fatalf("%d records, %v", kept, err)
	}
	out, kept, err = w.Rewrite(nil, marker, func(*Record) bool { return false })
	h, invalid := Validate(out, Checks{AllowControl: true, AllowGaps: true})
	if err != nil || invalid != nil || kept != 0 || !h.Control() || !h.Transactional() || h.ProducerID != 7 || h.LastOffset() != 41 || h.Count != 0 ||
		h.MaxTimestamp != 99 || h.LeaderEpoch != 6 || len(decode(t, out)) != 0 {
		t.Fatalf("%d records, %+v, %v, %v", kept, h, err, invalid)
	}
}

// FuzzRewrite: whatever the bytes, a batch is refused or read the same by franz-go, but for what was left out.
func FuzzRewrite(f *testing.F) {
	plain := sample(9)
	f.Add(plain, uint64(0b101))
	f.Add(xerial(plain), uint64(1))
	for codec := Gzip; codec <= maxCodec; codec++ {
		f.Add(compress(f, plain, codec), uint64(0b11001))
	}
	f.Add(EndTxn{1, 2, 3, true}.Build(4), uint64(0))
	w := NewRewriter(1 << 20)
	f.Fuzz(func(t *testing.T, in []byte, mask uint64) {
		batch, _, err := Next(in)
		if err != nil {
			if _, _, err := w.Rewrite(nil, in, func(*Record) bool { return true }); err == nil {
				t.Fatal("what is no batch was rewritten")
			}
			return
		}
		batch = slices.Clone(batch)
		setCRC(batch) // so that the fuzzer gets behind the checksum
		was, _ := ParseHeader(batch)
		keep := func(r *Record) bool { return mask>>(uint64(r.Offset-was.BaseOffset)%64)&1 == 1 }
		out, kept, err := w.Rewrite(nil, batch, keep)
		if err != nil {
			if len(out) != 0 {
				t.Fatalf("%d bytes beside the error %v", len(out), err)
			}
			return
		}
		h, err := Validate(out, Checks{AllowControl: true, AllowGaps: true})
		if err != nil || int(h.Count) != kept || h.LastOffset() != was.LastOffset() || h.BaseOffset != was.BaseOffset {
			t.Fatalf("%+v of %+v, %v", h, was, err)
		}
		var want, got [][]byte
		list := func(b []byte, to *[][]byte, keep func(*Record) bool) {
			r := NewReader(1 << 20)
			if err := r.Reset(b); err != nil {
				t.Fatal(err)
			}
			for r.Next() {
				if keep(r.Record()) {
					*to = append(*to, binary.BigEndian.AppendUint64(slices.Clone(r.raw), uint64(r.Record().Timestamp)))
				}
			}
			if r.Err() != nil {
				t.Fatal(r.Err())
			}
		}
		list(batch, &want, keep)
		list(out, &got, func(*Record) bool { return true })
		if !slices.EqualFunc(want, got, bytes.Equal) {
			t.Fatalf("records %q, expected %q", got, want)
		}
		if again, n, err := w.Rewrite(nil, out, keep); err != nil || n != kept || !bytes.Equal(again, out) {
			t.Fatalf("rewritten again: %d records, %v", n, err)
		}
		for codec := None; codec <= maxCodec; codec++ {
			_, _, level := Levels(codec)
			packed, err := w.Recompress(nil, batch, codec, level)
			if err != nil {
				t.Fatal(err)
			}
			var same [][]byte
			list(packed, &same, keep)
			if !slices.EqualFunc(want, same, bytes.Equal) {
				t.Fatalf("codec %d: records %q, expected %q", codec, same, want)
			}
		}
	})
}

func BenchmarkRewrite(b *testing.B) {
	var bld Builder
	for i := range 100 {
		bld.Append(int64(i), fmt.Appendf(nil, "key-%d", i), bytes.Repeat(fmt.Appendf(nil, "value %d,", i), 50), RecordHeader{"position", make([]byte, 20)})
	}
	plain := bld.Build(nil)
	for codec := None; codec <= maxCodec; codec++ {
		batch := plain
		if codec != None {
			batch = compress(b, plain, codec)
		}
		b.Run(fmt.Sprint("codec=", codec), func(b *testing.B) {
			w := NewRewriter(1 << 20)
			var dst []byte
			b.ReportAllocs()
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				n := 0
				out, _, err := w.Rewrite(dst[:0], batch, func(*Record) bool { n++; return n%2 == 0 })
				if err != nil {
					b.Fatal(err)
				}
				dst = out
			}
		})
	}
}
