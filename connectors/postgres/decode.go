package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// postgresEpoch is 2000-01-01 UTC in microseconds since 1970.
const postgresEpoch = 946684800000000

var errTruncated = errors.New("message is truncated")

// reader takes apart one pgoutput message. After an error it returns zeroes; err tells.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || len(r.b) < n {
		if r.err == nil {
			r.err = errTruncated
		}
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) uint8() byte {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if v := r.take(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if v := r.take(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if v := r.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (r *reader) cstring() string {
	if r.err != nil {
		return ""
	}
	i := bytes.IndexByte(r.b, 0)
	if i < 0 {
		r.err = errTruncated
		return ""
	}
	s := string(r.b[:i])
	r.b = r.b[i+1:]
	return s
}

// done is the error of the message, which must be used up.
func (r *reader) done() error {
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes left over", len(r.b))
	}
	return r.err
}

type beginMessage struct {
	commit lsn // of the commit record
	timeUs int64
	xid    uint32
}

func parseBegin(b []byte) (beginMessage, error) {
	r := reader{b: b}
	m := beginMessage{commit: lsn(r.uint64()), timeUs: int64(r.uint64()) + postgresEpoch, xid: r.uint32()}
	return m, r.done()
}

type commitMessage struct {
	commit, end lsn
	timeUs      int64
}

func parseCommit(b []byte) (commitMessage, error) {
	r := reader{b: b}
	r.uint8()
	m := commitMessage{commit: lsn(r.uint64()), end: lsn(r.uint64()), timeUs: int64(r.uint64()) + postgresEpoch}
	return m, r.done()
}

// relationColumn is one column as the stream has it.
type relationColumn struct {
	name     string
	typeOID  uint32
	modifier int32
	key      bool // part of the replica identity
}

type relationMessage struct {
	id           uint32
	schema, name string
	identity     byte
	columns      []relationColumn
}

func parseRelation(b []byte) (relationMessage, error) {
	r := reader{b: b}
	m := relationMessage{id: r.uint32(), schema: r.cstring(), name: r.cstring(), identity: r.uint8()}
	if m.schema == "" {
		m.schema = "pg_catalog"
	}
	for range r.uint16() {
		key := r.uint8()&1 != 0
		m.columns = append(m.columns, relationColumn{name: r.cstring(), typeOID: r.uint32(), modifier: int32(r.uint32()), key: key})
		if r.err != nil {
			break
		}
	}
	return m, r.done()
}

type originMessage struct {
	commit lsn
	name   string
}

func parseOrigin(b []byte) (originMessage, error) {
	r := reader{b: b}
	m := originMessage{commit: lsn(r.uint64()), name: r.cstring()}
	return m, r.done()
}

func parseTruncate(b []byte) ([]uint32, error) {
	r := reader{b: b}
	n := r.uint32()
	r.uint8()                                            // CASCADE and RESTART IDENTITY: the server names every table that it truncated
	if r.err != nil || uint64(n)*4 != uint64(len(r.b)) { // n is not believed before it fits
		return nil, errTruncated
	}
	ids := make([]uint32, 0, len(r.b)/4)
	for range n {
		ids = append(ids, r.uint32())
	}
	return ids, r.done()
}

type logicalMessage struct {
	transactional bool
	at            lsn
	prefix        string
	content       []byte
}

func parseLogical(b []byte) (logicalMessage, error) {
	r := reader{b: b}
	m := logicalMessage{transactional: r.uint8()&1 != 0, at: lsn(r.uint64()), prefix: r.cstring()}
	m.content = r.take(int(int32(r.uint32())))
	return m, r.done()
}

// parseTuple reads one row into row, which has a place for each captured column; pick says which, -1 for none. Invariant 6:
// what was not sent is Absent. With keyOnly the message holds the old key only and NULL elsewhere means not sent.
func parseTuple(r *reader, pick []int, row event.Row, keyOnly []bool) error {
	n := int(r.uint16())
	if r.err != nil {
		return r.err
	}
	if n != len(pick) {
		return fmt.Errorf("row has %d columns, its relation %d", n, len(pick))
	}
	b := r.b
	for i := range n {
		if len(b) < 1 {
			return errTruncated
		}
		var d event.Datum
		switch b[0] {
		case 't':
			if len(b) < 5 {
				return errTruncated
			}
			size := int(binary.BigEndian.Uint32(b[1:]))
			if size < 0 || len(b)-5 < size {
				return errTruncated
			}
			d = event.Datum{State: event.Text, Text: b[5 : 5+size : 5+size]}
			b = b[5+size:]
		case 'n':
			d.State = event.Null
			if keyOnly != nil && !keyOnly[i] {
				d.State = event.Absent
			}
			b = b[1:]
		case 'u':
			b = b[1:]
		default:
			return fmt.Errorf("column %d has unknown form %q", i+1, b[0])
		}
		if p := pick[i]; p >= 0 {
			row[p] = d
		}
	}
	r.b = b
	return nil
}
