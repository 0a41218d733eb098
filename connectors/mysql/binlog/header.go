package binlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Type is the type code of an event on the wire.
type Type uint8

// Types of events. Those from 160 are MariaDB's.
const (
	typeQuery              Type = 2
	typeStop               Type = 3
	typeRotate             Type = 4
	typeIntVar             Type = 5
	typeAppendBlock        Type = 9
	typeDeleteFile         Type = 11
	typeRand               Type = 13
	typeUserVar            Type = 14
	typeFormat             Type = 15
	typeXID                Type = 16
	typeBeginLoadQuery     Type = 17
	typeExecuteLoadQuery   Type = 18
	typeTableMap           Type = 19
	typeWriteRows0         Type = 20
	typeUpdateRows0        Type = 21
	typeDeleteRows0        Type = 22
	typeWriteRows1         Type = 23
	typeUpdateRows1        Type = 24
	typeDeleteRows1        Type = 25
	typeIncident           Type = 26
	typeHeartbeat          Type = 27
	typeIgnorable          Type = 28
	typeRowsQuery          Type = 29
	typeWriteRows2         Type = 30
	typeUpdateRows2        Type = 31
	typeDeleteRows2        Type = 32
	typeGTID               Type = 33
	typeAnonymousGTID      Type = 34
	typePreviousGTIDs      Type = 35
	typeTransactionContext Type = 36
	typeViewChange         Type = 37
	typeXAPrepare          Type = 38
	typePartialUpdateRows  Type = 39
	typePayload            Type = 40
	typeHeartbeat2         Type = 41
	typeTaggedGTID         Type = 42

	typeAnnotateRows      Type = 160
	typeBinlogCheckpoint  Type = 161
	typeMariaGTID         Type = 162
	typeMariaGTIDList     Type = 163
	typeStartEncryption   Type = 164
	typeQueryCompressed   Type = 165
	typeWriteRows1Packed  Type = 166
	typeUpdateRows1Packed Type = 167
	typeDeleteRows1Packed Type = 168
	typeWriteRows2Packed  Type = 169
	typeUpdateRows2Packed Type = 170
	typeDeleteRows2Packed Type = 171
	typePartialRowData    Type = 172
)

// rows tells the types of table maps and rows.
func (t Type) rows() bool {
	switch t {
	case typeTableMap, typeWriteRows0, typeUpdateRows0, typeDeleteRows0, typeWriteRows1, typeUpdateRows1, typeDeleteRows1, typeWriteRows2, typeUpdateRows2,
		typeDeleteRows2, typePartialUpdateRows, typePartialRowData, typeWriteRows1Packed, typeUpdateRows1Packed, typeDeleteRows1Packed,
		typeWriteRows2Packed, typeUpdateRows2Packed, typeDeleteRows2Packed:
		return true
	}
	return false
}

func (t Type) String() string {
	switch t {
	case typeQuery:
		return "QUERY"
	case typeRotate:
		return "ROTATE"
	case typeFormat:
		return "FORMAT_DESCRIPTION"
	case typeXID:
		return "XID"
	case typeExecuteLoadQuery:
		return "EXECUTE_LOAD_QUERY"
	case typeTableMap:
		return "TABLE_MAP"
	case typeWriteRows0, typeWriteRows1, typeWriteRows2, typeWriteRows1Packed, typeWriteRows2Packed:
		return fmt.Sprintf("WRITE_ROWS (%d)", uint8(t))
	case typeUpdateRows0, typeUpdateRows1, typeUpdateRows2, typeUpdateRows1Packed, typeUpdateRows2Packed, typePartialUpdateRows:
		return fmt.Sprintf("UPDATE_ROWS (%d)", uint8(t))
	case typeDeleteRows0, typeDeleteRows1, typeDeleteRows2, typeDeleteRows1Packed, typeDeleteRows2Packed:
		return fmt.Sprintf("DELETE_ROWS (%d)", uint8(t))
	case typeIncident:
		return "INCIDENT"
	case typeHeartbeat, typeHeartbeat2:
		return "HEARTBEAT"
	case typeRowsQuery, typeAnnotateRows:
		return "ROWS_QUERY"
	case typeGTID, typeAnonymousGTID, typeTaggedGTID, typeMariaGTID:
		return "GTID"
	case typePreviousGTIDs, typeMariaGTIDList:
		return "PREVIOUS_GTIDS"
	case typeXAPrepare:
		return "XA_PREPARE"
	case typePayload:
		return "TRANSACTION_PAYLOAD"
	case typeQueryCompressed:
		return "QUERY_COMPRESSED"
	case typePartialRowData:
		return "PARTIAL_ROW_DATA"
	default:
		return fmt.Sprintf("type %d", uint8(t))
	}
}

// Flags of a header that say something to the reader.
const (
	FlagThreadSpecific = 0x0004 // a statement that used temporary tables
	FlagArtificial     = 0x0020 // made by the dump, not part of the file: it has no position
	FlagIgnorable      = 0x0080 // holds nothing for readers that do not know its type
)

const (
	headerSize   = 19
	checksumSize = 4
)

// Header begins every event.
type Header struct {
	Timestamp uint32 // seconds since 1970, of the statement's begin
	Type      Type
	ServerID  uint32 // of the server that executed the transaction first
	Size      uint32 // with header and checksum
	LogPos    uint32 // of the event's end, modulo 2^32; 0 where the server does not tell (inside MariaDB's transactions)
	Flags     uint16
}

func parseHeader(b []byte) (Header, error) {
	if len(b) < headerSize {
		return Header{}, ErrTruncated
	}
	h := Header{
		Timestamp: binary.LittleEndian.Uint32(b), Type: Type(b[4]), ServerID: binary.LittleEndian.Uint32(b[5:]),
		Size: binary.LittleEndian.Uint32(b[9:]), LogPos: binary.LittleEndian.Uint32(b[13:]), Flags: binary.LittleEndian.Uint16(b[17:]),
	}
	if h.Size < headerSize {
		return h, malformed("event size %d", h.Size)
	}
	return h, nil
}

// checked takes the checksum off an event, if it is right.
func checked(b []byte) ([]byte, bool) {
	if len(b) < headerSize+checksumSize {
		return b, false
	}
	n := len(b) - checksumSize
	return b[:n:n], crc32.ChecksumIEEE(b[:n]) == binary.LittleEndian.Uint32(b[n:])
}
