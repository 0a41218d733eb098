package log

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"
)

// FuzzFold: a damaged checkpoint is an error, never a panic, and what decodes has one encoding.
func FuzzFold(f *testing.F) {
	s := newFold()
	for i := range uint64(20) {
		x := facts{base: int64(i), last: int64(i), producerID: int64(i % 3), transactional: i%2 == 0, control: i%5 == 4, firstSeq: int32(i)}
		s.apply(&entryMeta{index: i + 1, term: 1 + i/7, base: int64(i), maxTs: int64(100 + i), size: 50}, &x)
	}
	b := s.encode()
	f.Add(b[:len(b)-4])
	base := s.base()
	b = base.encode()
	f.Add(b[:len(b)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		in := binary.BigEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, castagnoli))
		s, err := decodeFold(in)
		if err != nil {
			return
		}
		once := s.encode()
		again, err := decodeFold(once)
		if err != nil || !bytes.Equal(again.encode(), once) {
			t.Fatalf("%+v encodes to what is not itself: %v", s, err)
		}
	})
}
