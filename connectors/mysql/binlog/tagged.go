package binlog

import (
	"bytes"
	"math/bits"
)

// Fields of a GTID with a tag, in MySQL's self-describing serialization.
const (
	tagFlags = iota
	tagUUID
	tagNumber
	tagTag
	tagLastCommitted
	tagSequence
	tagCommitted
	tagOriginal
	tagLength
	tagServerVersion
	tagOriginalVersion
	tagTicket
)

const maxTag = 32

// tagged reads a GTID_TAGGED event. Numbers have variable lengths; fields that are not there are left out.
func (g *GTID) tagged(body []byte, last string) error {
	r := reader{b: body}
	r.variable() // version
	r.variable() // size
	r.variable() // last field that must be known
	original := false
	for r.err == nil && len(r.b) > 0 {
		field := r.variable()
		switch field {
		case tagFlags:
			r.variable()
		case tagUUID:
			for i := range g.UUID {
				g.UUID[i] = byte(r.variable())
			}
		case tagNumber:
			g.Number = uint64(r.signed())
		case tagTag:
			n := r.variable()
			if n > maxTag {
				return malformed("a tag of %d bytes", n)
			}
			if tag := r.take(int(n)); string(tag) == last {
				g.Tag = last
			} else {
				g.Tag = string(tag)
			}
		case tagLastCommitted:
			g.LastCommitted = r.signed()
		case tagSequence:
			g.SequenceNumber = r.signed()
		case tagCommitted:
			g.Committed = r.variable()
		case tagOriginal:
			g.Original, original = r.variable(), true
		case tagLength:
			g.Length = r.variable()
		case tagServerVersion, tagOriginalVersion, tagTicket:
			r.variable()
		default:
			return unsupported("field %d of a tagged GTID", field)
		}
	}
	if !original {
		g.Original = g.Committed
	}
	if r.err == nil && g.Number == 0 {
		return malformed("a GTID without number")
	}
	return r.err
}

// variable is an unsigned number whose length is told by the ones at the low end of its first byte.
func (r *reader) variable() uint64 {
	if r.err != nil || len(r.b) == 0 {
		if r.err == nil {
			r.err = ErrTruncated
		}
		return 0
	}
	ones := bits.TrailingZeros8(^r.b[0])
	if ones == 8 {
		r.uint8()
		return r.uint64()
	}
	return r.fixed(ones+1) >> (ones + 1)
}

// signed is a variable number with its sign in the lowest bit.
func (r *reader) signed() int64 {
	v := r.variable()
	if v&1 == 0 {
		return int64(v >> 1)
	}
	return -1 - int64(v>>1)
}

// previousGTIDs writes the set as @@gtid_executed has it: uuid:1-5:7:tag:1, each server's tags after its numbers without one.
func previousGTIDs(body []byte) ([]byte, error) {
	r := reader{b: body}
	head := r.take(8)
	if r.err != nil {
		return nil, r.err
	}
	tagged := head[7] == 1
	n := littleEndian(head)
	if tagged {
		n = littleEndian(head[1:7])
	}
	var text, last []byte
	for range n {
		uuid := r.take(16)
		var tag []byte
		if tagged {
			size := r.variable()
			if size > maxTag {
				return nil, malformed("a tag of %d bytes", size)
			}
			tag = r.take(int(size))
		}
		intervals := r.uint64()
		if r.err != nil || intervals > uint64(len(r.b)/16) {
			return nil, ErrTruncated
		}
		if !bytes.Equal(uuid, last) {
			if last != nil {
				text = append(text, ',')
			}
			text, last = appendUUID(text, uuid), uuid
		}
		if len(tag) > 0 {
			text = append(append(text, ':'), tag...)
		}
		for range intervals {
			from, to := r.uint64(), r.uint64() // to is the first that is not in it
			if from == 0 || to <= from {
				return nil, malformed("GTIDs %d to %d", from, to)
			}
			text = appendUint(append(text, ':'), from)
			if to-1 > from {
				text = appendUint(append(text, '-'), to-1)
			}
		}
	}
	if len(r.b) > 0 {
		return nil, malformed("%d bytes after the GTIDs", len(r.b))
	}
	return text, nil
}
