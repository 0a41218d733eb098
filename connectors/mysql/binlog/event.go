package binlog

import "encoding/hex"

// Kind tells which part of an Event holds its content.
type Kind uint8

// Kinds of events.
const (
	KindNothing       Kind = iota // only the position goes on
	KindFormat                    // Event.Format: a binlog file begins
	KindRotate                    // Event.Rotate
	KindPreviousGTIDs             // Event.Text: what was executed before this file
	KindGTID                      // Event.GTID: a transaction begins
	KindBegin                     // Event.Query
	KindCommit                    // Event.Query: a commit of tables without transactions
	KindRollback                  // Event.Query
	KindSavepoint                 // Event.Query: set, released or rolled back to
	KindXA                        // Event.Query: XA START, END, COMMIT, ROLLBACK
	KindXID                       // Event.XID: a commit
	KindXAPrepare                 // Event.XA
	KindQuery                     // Event.Query: DDL, or a change in statement format
	KindRowsQuery                 // Event.Text: the statement behind the rows that follow
	KindTable                     // Event.Table
	KindRows                      // Event.Rows
	KindHeartbeat                 // Event.Rotate says where the server is
	KindPayload                   // Event.Payload: its events follow from Decoder.Next
)

// Event is one decoded event. All of it, but for Table, is valid until the Decoder is used again.
type Event struct {
	Kind   Kind
	Header Header
	// End is the position in the file after the event, in all 64 bits. Events of a payload have the payload's.
	End   uint64
	Inner bool // came out of a payload

	Format  Format
	Rotate  Rotate
	GTID    GTID
	Query   Query
	XID     uint64
	XA      XAPrepare
	Text    []byte
	Table   *Table
	Rows    Rows
	Payload Payload

	body []byte
}

// Format is what a binlog file says of itself.
type Format struct {
	ServerVersion string
	MariaDB       bool
	Checksum      bool
}

// Rotate names the file that follows, or the one that the stream is in (artificial ones, heartbeats).
type Rotate struct {
	File     []byte
	Position uint64
}

// Payload is the outside of a compressed transaction.
type Payload struct {
	Compressed, Uncompressed uint64 // bytes
}

// XAPrepare is a prepared transaction. Its text is as in XA COMMIT.
type XAPrepare struct {
	XID      []byte // X'6162',X'63',1
	OnePhase bool   // it is committed at once
}

// GTID identifies the transaction that begins.
type GTID struct {
	MariaDB bool

	// MySQL. A server without GTIDs writes anonymous ones: UUID and Number are zero.
	Anonymous      bool
	UUID           [16]byte
	Tag            string
	LastCommitted  int64 // logical clock of the file: transactions above it may have run in parallel
	SequenceNumber int64
	Committed      uint64 // microseconds since 1970 on the server that is read; 0: not told
	Original       uint64 // on the server that committed it first
	Length         uint64 // bytes of the transaction in the file, this event included; 0: not told

	// MariaDB.
	Domain, Server uint32
	CommitID       uint64 // shared by a group commit
	Standalone     bool   // one statement follows, without an end
	Transactional  bool   // can be rolled back
	DDL            bool
	Prepared       bool   // XA PREPARE
	Completed      bool   // XA COMMIT or ROLLBACK
	XID            []byte // of Prepared and Completed, as in XAPrepare
	StartAlter     bool   // the ALTER TABLE that follows only begins: it counts when its number comes again with CommitAlter
	CommitAlter    bool
	RollbackAlter  bool
	AlterNumber    uint64 // Number of the ALTER TABLE's begin

	Number uint64
}

// Append writes the GTID as the servers do: uuid:number, uuid:tag:number, domain-server-number; nothing for an anonymous one.
func (g *GTID) Append(dst []byte) []byte {
	if g.MariaDB {
		dst = append(appendUint(dst, uint64(g.Domain)), '-')
		dst = append(appendUint(dst, uint64(g.Server)), '-')
		return appendUint(dst, g.Number)
	}
	if g.Anonymous {
		return dst
	}
	dst = appendUUID(dst, g.UUID[:])
	if g.Tag != "" {
		dst = append(append(dst, ':'), g.Tag...)
	}
	return appendUint(append(dst, ':'), g.Number)
}

// appendUUID writes 16 bytes in the usual form.
func appendUUID(dst, b []byte) []byte {
	dst = append(hex.AppendEncode(dst, b[:4]), '-')
	dst = append(hex.AppendEncode(dst, b[4:6]), '-')
	dst = append(hex.AppendEncode(dst, b[6:8]), '-')
	dst = append(hex.AppendEncode(dst, b[8:10]), '-')
	return hex.AppendEncode(dst, b[10:16])
}

// Query is a statement.
type Query struct {
	Text, Schema []byte
	Thread       uint32
	Seconds      uint32 // it ran for
	ErrorCode    uint16 // it failed with, after it had changed tables without transactions
	Load         bool   // LOAD DATA in statement format
	HasSQLMode   bool
	SQLMode      uint64
	Flags        uint32 // session options: autocommit, foreign_key_checks, ...
	Charset      Charsets
	TimeZone     []byte
	DDLXID       uint64 // id of an atomic DDL
	Microseconds uint32 // to Header.Timestamp
	// ImplicitTimestamps is explicit_defaults_for_timestamp=OFF. MariaDB from 10.8.4 on has it in Flags.
	HasTimestampRule, ImplicitTimestamps bool
}

// Charsets are collation ids of a statement's session. 0: not told.
type Charsets struct {
	Client, Connection, Server, Database uint16
	UTF8MB4                              uint16 // default_collation_for_utf8mb4
}
