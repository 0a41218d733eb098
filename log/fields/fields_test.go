package fields

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

func written() []byte {
	b := binary.AppendUvarint(nil, math.MaxUint64)
	b = binary.AppendVarint(b, math.MinInt64)
	b = append(b, 'x')
	b = binary.BigEndian.AppendUint64(b, 1<<63+1)
	b = AppendBytes(b, "text")
	b = AppendBytes(b, []byte{})
	b = binary.AppendUvarint(b, 2)
	return append(b, 5, 6)
}

// readAll reads what written writes.
func readAll(r *Reader) (wrong []string) {
	expect := func(what string, ok bool) {
		if !ok {
			wrong = append(wrong, what)
		}
	}
	expect("uvarint", r.Uvarint() == math.MaxUint64)
	expect("varint", r.Varint() == math.MinInt64)
	expect("byte", r.Byte() == 'x')
	expect("uint64", r.Uint64() == 1<<63+1)
	expect("bytes", string(r.Bytes()) == "text")
	empty := r.Bytes()
	expect("empty bytes", empty != nil && len(empty) == 0)
	expect("count", r.Count() == 2)
	expect("left", r.Len() == 2)
	expect("the first element", r.Byte() == 5)
	expect("the second element", r.Byte() == 6)
	return wrong
}

func TestFieldsComeBack(t *testing.T) {
	r := Read(written())
	if wrong := readAll(&r); len(wrong) > 0 || !r.OK() || !r.Done() {
		t.Errorf("wrong: %q, ok %v, done %v", wrong, r.OK(), r.Done())
	}
	r = Read(append(written(), 0))
	if readAll(&r); !r.OK() || r.Done() || r.Len() != 1 {
		t.Errorf("a byte too many: ok %v, done %v, %d left", r.OK(), r.Done(), r.Len())
	}
}

// TestFirstErrorStays: wherever bytes are cut, whoever asks at the end learns of it.
func TestFirstErrorStays(t *testing.T) {
	whole := written()
	for n := range whole {
		r := Read(whole[:n])
		if readAll(&r); r.OK() || r.Done() || r.Len() != 0 {
			t.Errorf("cut at %d: ok %v, done %v, %d left", n, r.OK(), r.Done(), r.Len())
		}
	}
}

// TestNothingBehindAnError: no field is read of what lies behind one that was not there.
func TestNothingBehindAnError(t *testing.T) {
	tooLong := bytes.Repeat([]byte{0x80}, binary.MaxVarintLen64+1)
	for name, c := range map[string]struct {
		in   []byte
		read func(*Reader) bool // reports that the result is zero
	}{
		"uvarint of too many bytes": {tooLong, func(r *Reader) bool { return r.Uvarint() == 0 }},
		"varint of too many bytes":  {tooLong, func(r *Reader) bool { return r.Varint() == 0 }},
		"uvarint that is cut":       {[]byte{0x80}, func(r *Reader) bool { return r.Uvarint() == 0 }},
		"varint that is cut":        {[]byte{0x80}, func(r *Reader) bool { return r.Varint() == 0 }},
		"uint64":                    {[]byte("1234567"), func(r *Reader) bool { return r.Uint64() == 0 }},
		"count":                     {[]byte{4, 1, 1, 1}, func(r *Reader) bool { return r.Count() == 0 }},
		"bytes":                     {[]byte{4, 1, 1, 1}, func(r *Reader) bool { return r.Bytes() == nil }},
		"a length that is negative": {append(binary.AppendUvarint(nil, math.MaxUint64), 1, 1), func(r *Reader) bool { return r.Bytes() == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			r := Read(c.in)
			if !c.read(&r) || r.OK() {
				t.Error("it was read")
			}
			if r.Byte() != 0 || r.Uvarint() != 0 || r.Varint() != 0 || r.Uint64() != 0 || r.Count() != 0 || r.Bytes() != nil || r.OK() || r.Len() != 0 {
				t.Error("the reader goes on")
			}
		})
	}
}

// TestBytesDoNotGrowIntoWhatFollows: appending to a field leaves the next one alone.
func TestBytesDoNotGrowIntoWhatFollows(t *testing.T) {
	b := AppendBytes(AppendBytes(nil, "a"), "b")
	r := Read(b)
	_ = append(r.Bytes(), "xyz"...)
	if next := r.Bytes(); string(next) != "b" {
		t.Errorf("the next field is %q", next)
	}
}
