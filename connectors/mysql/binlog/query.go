package binlog

import (
	"bytes"
	"encoding/binary"
)

// Codes of a query's status variables. They are written in rising order; what an unknown one means for the bytes after it is not
// known, so reading ends there, as in the servers.
const (
	statusFlags          = 0
	statusSQLMode        = 1
	statusCatalog        = 2
	statusAutoIncrement  = 3
	statusCharset        = 4
	statusTimeZone       = 5
	statusCatalogNZ      = 6
	statusTimeNames      = 7
	statusDBCharset      = 8
	statusTableMap       = 9
	statusDataWritten    = 10
	statusInvoker        = 11
	statusUpdatedDBs     = 12
	statusMicroseconds   = 13
	statusCommitTS       = 14
	statusCommitTS2      = 15
	statusTimestampRule  = 16
	statusDDLXID         = 17
	statusUTF8MB4        = 18
	statusRequireKey     = 19
	statusEncryption     = 20
	statusMariaTime      = 128
	statusMariaXID       = 129
	statusMariaGTIDFlags = 130
	statusMariaCollation = 131

	manyUpdatedDBs = 254 // instead of a list
	loadHeader     = 4 + 4 + 4 + 1
)

func (d *Decoder) query(e *Event, typ Type, body []byte) error {
	q := &e.Query
	r := reader{b: body}
	*q = Query{Thread: r.uint32(), Seconds: r.uint32(), Load: typ == typeExecuteLoadQuery}
	schema := int(r.uint8())
	q.ErrorCode = r.uint16()
	status := int(r.uint16())
	if q.Load {
		r.take(loadHeader)
	}
	vars := r.take(status)
	q.Schema = r.take(schema)
	if z := r.take(1); r.err == nil && z[0] != 0 {
		r.err = malformed("the schema's name does not end")
	}
	if r.err != nil {
		return r.err
	}
	if err := q.status(vars); err != nil {
		return err
	}
	q.Text = r.b
	if typ == typeQueryCompressed {
		text, err := d.unpack.event(q.Text, d.limit)
		if err != nil {
			return err
		}
		q.Text = text
	}
	e.Kind = q.kind()
	return nil
}

func (q *Query) status(b []byte) error {
	r := reader{b: b}
	for len(r.b) > 0 && r.err == nil {
		switch r.uint8() {
		case statusFlags:
			q.Flags = r.uint32()
		case statusSQLMode:
			q.SQLMode, q.HasSQLMode = r.uint64(), true
		case statusCatalog:
			r.take(int(r.uint8()) + 1)
		case statusAutoIncrement, statusDataWritten:
			r.take(4)
		case statusCharset:
			q.Charset.Client, q.Charset.Connection, q.Charset.Server = r.uint16(), r.uint16(), r.uint16()
		case statusTimeZone:
			q.TimeZone = r.take(int(r.uint8()))
		case statusCatalogNZ:
			r.take(int(r.uint8()))
		case statusTimeNames:
			r.take(2)
		case statusMariaGTIDFlags:
			if r.uint8()&(mariaCommitAlter|mariaRollbackAlter) != 0 {
				r.take(8)
			}
		case statusDBCharset:
			q.Charset.Database = r.uint16()
		case statusTableMap, statusCommitTS:
			r.take(8)
		case statusInvoker:
			r.take(int(r.uint8()))
			r.take(int(r.uint8()))
		case statusUpdatedDBs:
			if n := r.uint8(); n != manyUpdatedDBs {
				for range n {
					r.cstring()
				}
			}
		case statusMicroseconds, statusMariaTime:
			q.Microseconds = uint32(r.fixed(3))
		case statusCommitTS2:
			r.take(16)
		case statusTimestampRule:
			q.HasTimestampRule, q.ImplicitTimestamps = true, r.uint8() == 0
		case statusRequireKey, statusEncryption:
			r.take(1)
		case statusDDLXID, statusMariaXID:
			q.DDLXID = r.uint64()
		case statusUTF8MB4:
			q.Charset.UTF8MB4 = r.uint16()
		case statusMariaCollation:
			r.take(4 * int(r.uint8()))
		default:
			return nil
		}
	}
	return r.err
}

// kind tells the statements that end or divide a transaction from all others. The servers write most of them by themselves; a
// savepoint's text is the user's.
func (q *Query) kind() Kind {
	text := statementStart(q.Text)
	switch {
	case keyword(text, "BEGIN") && len(text) == 5:
		return KindBegin
	case keyword(text, "COMMIT") && len(text) == 6:
		return KindCommit
	case keyword(text, "ROLLBACK"):
		if rest := statementStart(text[8:]); len(rest) > 0 && !keyword(rest, "WORK") {
			return KindSavepoint // ROLLBACK TO
		}
		return KindRollback
	case keyword(text, "SAVEPOINT"), keyword(text, "RELEASE"):
		return KindSavepoint
	case keyword(text, "XA"):
		return KindXA
	}
	return KindQuery
}

// statementStart cuts white space and comments, and the NUL that some statements end with.
func statementStart(b []byte) []byte {
	b = bytes.TrimRight(b, " \t\r\n\x00;")
	for {
		b = bytes.TrimLeft(b, " \t\r\n")
		var end int
		switch {
		case bytes.HasPrefix(b, []byte("/*")) && !bytes.HasPrefix(b, []byte("/*!")) && !bytes.HasPrefix(b, []byte("/*M!")):
			if end = bytes.Index(b, []byte("*/")); end >= 0 {
				end += 2
			}
		case bytes.HasPrefix(b, []byte("#")), bytes.HasPrefix(b, []byte("-- ")):
			end = bytes.IndexByte(b, '\n')
		default:
			return b
		}
		if end < 0 {
			return nil
		}
		b = b[end:]
	}
}

// keyword tells whether text begins with the word.
func keyword(text []byte, word string) bool {
	if len(text) < len(word) || !bytes.EqualFold(text[:len(word)], []byte(word)) {
		return false
	}
	if len(text) == len(word) {
		return true
	}
	switch c := text[len(word)]; {
	case c == '_', c == '$', c >= 0x80, '0' <= c && c <= '9', 'a' <= c|0x20 && c|0x20 <= 'z':
		return false
	}
	return true
}

func (x *XAPrepare) parse(body []byte) error {
	r := reader{b: body}
	x.OnePhase = r.uint8() != 0
	format, global, branch := r.uint32(), r.uint32(), r.uint32()
	if r.err == nil && (global > 64 || branch > 64) {
		return malformed("XA id of %d and %d bytes", global, branch)
	}
	g, b := r.take(int(global)), r.take(int(branch))
	x.XID = appendXID(x.XID[:0], format, g, b)
	return r.err
}

const (
	mariaStandalone    = 1
	mariaGroupCommit   = 2
	mariaTransactional = 4
	mariaDDL           = 32
	mariaPrepared      = 64
	mariaCompleted     = 128

	mariaMultiEngine   = 1
	mariaStartAlter    = 2
	mariaCommitAlter   = 4
	mariaRollbackAlter = 8
)

func (e *Event) gtid(h Header, body []byte) error {
	e.Kind = KindGTID
	tag := e.GTID.Tag
	e.GTID = GTID{}
	switch h.Type {
	case typeMariaGTID:
		return e.GTID.maria(h, body)
	case typeTaggedGTID:
		return e.GTID.tagged(body, tag)
	}
	g := &e.GTID
	r := reader{b: body}
	r.uint8() // may the transaction hold statements: Query events tell
	copy(g.UUID[:], r.take(16))
	g.Number = r.uint64()
	g.Anonymous = h.Type == typeAnonymousGTID
	if r.err != nil {
		return r.err
	}
	if r.uint8() != 2 || r.err != nil { // the type of a logical clock
		return nil
	}
	g.LastCommitted, g.SequenceNumber = int64(r.uint64()), int64(r.uint64())
	const second = 1 << 55 // another time follows
	g.Committed = r.fixed(7)
	g.Original = g.Committed &^ second
	if g.Committed&second != 0 {
		g.Committed &^= second
		g.Original = r.fixed(7)
	}
	g.Length = r.packed()
	return r.err
}

func (g *GTID) maria(h Header, body []byte) error {
	r := reader{b: body}
	g.MariaDB, g.Server = true, h.ServerID
	g.Number, g.Domain = r.uint64(), r.uint32()
	flags := r.uint8()
	g.Standalone, g.Transactional, g.DDL = flags&mariaStandalone != 0, flags&mariaTransactional != 0, flags&mariaDDL != 0
	g.Prepared, g.Completed = flags&mariaPrepared != 0, flags&mariaCompleted != 0
	if flags&mariaGroupCommit != 0 {
		g.CommitID = r.uint64()
	}
	if g.Prepared || g.Completed {
		format, global, branch := r.uint32(), int(r.uint8()), int(r.uint8())
		first := r.take(global)
		g.XID = appendXID(nil, format, first, r.take(branch))
	}
	if r.err != nil || len(r.b) == 0 {
		return r.err
	}
	extra := r.uint8()
	if extra&mariaMultiEngine != 0 {
		r.uint8()
	}
	g.StartAlter, g.CommitAlter, g.RollbackAlter = extra&mariaStartAlter != 0, extra&mariaCommitAlter != 0, extra&mariaRollbackAlter != 0
	if g.CommitAlter || g.RollbackAlter {
		g.AlterNumber = r.uint64()
	}
	return r.err
}

// mariaGTIDList writes the list as @@gtid_binlog_pos would be. The artificial one that begins a dump by GTID is one too.
func mariaGTIDList(body []byte) ([]byte, error) {
	r := reader{b: body}
	n := int(r.uint32() & (1<<28 - 1))
	if r.err != nil || n > len(r.b)/16 {
		return nil, ErrTruncated
	}
	text := make([]byte, 0, 24*n)
	for i := range n {
		b := r.take(16)
		if i > 0 {
			text = append(text, ',')
		}
		g := GTID{MariaDB: true, Domain: binary.LittleEndian.Uint32(b), Server: binary.LittleEndian.Uint32(b[4:]), Number: binary.LittleEndian.Uint64(b[8:])}
		text = g.Append(text)
	}
	return text, nil
}
