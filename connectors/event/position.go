package event

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rowtrail/rowtrail/log/fields"
)

// PositionHeader is the record header that carries Position on every change record and tombstone.
const PositionHeader = "rowtrail.position"

// Debezium's headers of the delete and the create that a key change becomes; each holds the other's key.
const (
	NewKeyHeader = "__debezium.newkey"
	OldKeyHeader = "__debezium.oldkey"
)

// TruncateKey is the record key of a truncate in a compacted topic, which takes no record without one; elsewhere a truncate has none. No
// row's key has its field.
const TruncateKey = `{"__rowtrail.truncate":true}`

// positionVersion is the first byte of a position. Readers of the fields up to CommitTime (snapshot views) rely on
// version 1's layout: version, uvarint Commit, uvarint Order, uvarint CollectionOrder, varint CommitTime,
// 8 bytes big-endian Schema, uvarint count of absent columns and the uvarint step to each from the one before.
const positionVersion = 1

// maxColumns bounds what a parsed position may allocate; Postgres has at most 1,600 columns, MySQL 4,096.
const maxColumns = 1 << 16

// ErrPosition tells that a position header is damaged or of a newer format.
var ErrPosition = errors.New("malformed position header")

// Position places a record in its source. Order and CollectionOrder count from 1 inside a source transaction, densely:
// Order over all of its events, CollectionOrder over those of this table. A tombstone repeats its delete's numbers.
// Order 0 marks an initial-load row; Commit is then the load's consistent point.
type Position struct {
	Commit          uint64 // Postgres commit LSN; of MySQL and MariaDB a count of source transactions
	Order           uint64
	CollectionOrder uint64
	CommitTime      int64    // microseconds since 1970 UTC; for the initial load, when its snapshot was taken
	Schema          uint64   // Schema.ID
	Absent          []uint16 // columns of the after image that are Absent, ascending
}

// Append writes the header's bytes.
func (p Position) Append(dst []byte) []byte {
	dst = append(dst, positionVersion)
	dst = binary.AppendUvarint(dst, p.Commit)
	dst = binary.AppendUvarint(dst, p.Order)
	dst = binary.AppendUvarint(dst, p.CollectionOrder)
	dst = binary.AppendVarint(dst, p.CommitTime)
	dst = binary.BigEndian.AppendUint64(dst, p.Schema)
	dst = binary.AppendUvarint(dst, uint64(len(p.Absent)))
	last := uint16(0)
	for _, c := range p.Absent {
		dst = binary.AppendUvarint(dst, uint64(c-last))
		last = c
	}
	return dst
}

// ParsePosition reads a header. Its result holds nothing of b.
func ParsePosition(b []byte) (Position, error) {
	if len(b) == 0 {
		return Position{}, fmt.Errorf("parse position: empty: %w", ErrPosition)
	}
	if b[0] != positionVersion {
		return Position{}, fmt.Errorf("parse position: version %d, this build reads %d: %w", b[0], positionVersion, ErrPosition)
	}
	r := fields.Read(b[1:])
	p := Position{Commit: r.Uvarint(), Order: r.Uvarint(), CollectionOrder: r.Uvarint(), CommitTime: r.Varint()}
	p.Schema = r.Uint64()
	count := r.Count()
	if !r.OK() || count > maxColumns {
		return Position{}, fmt.Errorf("parse position: truncated: %w", ErrPosition)
	}
	if count > 0 {
		p.Absent = make([]uint16, 0, count)
	}
	column := uint64(0)
	for i := range count {
		step := r.Uvarint()
		column += step
		if !r.OK() || step >= maxColumns || column >= maxColumns || (i > 0 && step == 0) {
			return Position{}, fmt.Errorf("parse position: absent columns: %w", ErrPosition)
		}
		p.Absent = append(p.Absent, uint16(column))
	}
	if r.Len() != 0 {
		return Position{}, fmt.Errorf("parse position: %d bytes left over: %w", r.Len(), ErrPosition)
	}
	return p, nil
}
