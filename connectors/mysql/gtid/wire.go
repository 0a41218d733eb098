package gtid

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// taggedMark stands in the first and last of the count's eight bytes where tags follow the UUIDs (8.3 and later).
	taggedMark   = 1
	maxCountBits = 48
)

// AppendBinary appends a MySQL set as the server writes it in COM_BINLOG_DUMP_GTID and in PREVIOUS_GTIDS events. Tags are
// written only if there are any, as servers before 8.3 do not know them.
func (s *Set) AppendBinary(dst []byte) ([]byte, error) {
	if s.flavour != MySQL {
		return nil, errors.New("a set of MariaDB has no binary form: it goes into @slave_connect_state as text")
	}
	tagged := false
	for _, src := range s.sources {
		tagged = tagged || src.tag != ""
	}
	count := uint64(len(s.sources))
	if tagged {
		count = count<<8 | taggedMark | taggedMark<<56
	}
	dst = binary.LittleEndian.AppendUint64(dst, count)
	for _, src := range s.sources {
		dst = append(dst, src.uuid[:]...)
		if tagged {
			// The server's variable-length integer: one byte for lengths up to 63, shifted by one.
			dst = append(append(dst, byte(len(src.tag)<<1)), src.tag...)
		}
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(src.intervals)))
		for _, v := range src.intervals {
			dst = binary.LittleEndian.AppendUint64(dst, v.first)
			dst = binary.LittleEndian.AppendUint64(dst, v.last+1)
		}
	}
	return dst, nil
}

// Decode reads what AppendBinary writes, as in a PREVIOUS_GTIDS event.
func Decode(data []byte) (*Set, error) {
	s := New(MySQL)
	r := reader{data: data}
	count := r.uint64()
	tagged := count>>56 == taggedMark
	if tagged {
		if count&0xff != taggedMark {
			return nil, errors.New("encoded GTID set: its tag marks differ")
		}
		count = count >> 8 & (1<<maxCountBits - 1)
	}
	for range count {
		uuid, tag := [16]byte(r.bytes(16)), ""
		if tagged {
			n := r.bytes(1)[0]
			if n&1 != 0 || n>>1 > maxTag {
				return nil, fmt.Errorf("encoded GTID set: a tag of length byte %#x", n)
			}
			tag = string(r.bytes(int(n >> 1)))
			if tag != "" && !validTag(tag) && r.err == nil {
				return nil, fmt.Errorf("encoded GTID set: %s is no tag", shown(tag))
			}
		}
		intervals := r.uint64()
		if r.err == nil && intervals == 0 {
			return nil, errors.New("encoded GTID set: a UUID without intervals")
		}
		for range intervals {
			v := interval{r.uint64(), r.uint64() - 1}
			if r.err != nil {
				return nil, r.err
			}
			if v.first == 0 || v.last < v.first || v.last > maxNumber {
				return nil, fmt.Errorf("encoded GTID set: %d to %d is no interval", v.first, v.last)
			}
			at, err := s.source(uuid, tag)
			if err != nil {
				return nil, err
			}
			if err := s.grow(1); err != nil {
				return nil, err
			}
			s.sources[at].intervals = append(s.sources[at].intervals, v)
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	if r.err == nil && len(r.data) > 0 {
		return nil, fmt.Errorf("encoded GTID set: %d bytes too many", len(r.data))
	}
	s.tidy()
	return s, r.err
}

// reader hands out zeros once the data has ended.
type reader struct {
	data []byte
	err  error
}

func (r *reader) bytes(n int) []byte {
	if len(r.data) < n {
		r.err = errors.New("encoded GTID set: it ends too early")
		r.data = nil
		return make([]byte, n)
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) uint64() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }

// Dump is a request for the binlog from a set on.
type Dump struct {
	Flags    uint16
	ServerID uint32
	File     string // empty: the server finds the file by the set
	Position uint64 // 4 without a file
}

// AppendDump appends the body of COM_BINLOG_DUMP_GTID, after the command's byte: everything but the set's GTIDs is asked for.
func (s *Set) AppendDump(dst []byte, d Dump) ([]byte, error) {
	dst = binary.LittleEndian.AppendUint16(dst, d.Flags)
	dst = binary.LittleEndian.AppendUint32(dst, d.ServerID)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(d.File)))
	dst = append(dst, d.File...)
	dst = binary.LittleEndian.AppendUint64(dst, d.Position)
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst, err := s.AppendBinary(dst)
	if err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst, nil
}
