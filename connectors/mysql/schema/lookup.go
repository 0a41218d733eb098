package schema

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// remedy is what mends whatever the binlog does not tell, for what is written from then on.
const remedy = "SET GLOBAL binlog_row_metadata = 'FULL' on the source (and in my.cnf), then load the table anew"

// Table says how the rows of a table map are described. The error is a *LookError or an *Error.
func (b *Book) Table(at Place, t *binlog.Table) (*Description, error) {
	name := b.fold(ddl.TableName{Database: t.Schema, Table: t.Name})
	e := b.tables[name]
	if e != nil && e.seen == t {
		return e.answer, e.err
	}
	if t.Err != nil {
		return nil, &Error{Table: name, Reason: t.Err.Error(), Err: t.Err}
	}
	if e == nil {
		e = &entry{why: "nothing is known of it yet", from: at}
		b.tables[name] = e
		b.touch(at, keyOf(name))
	}
	b.compare(at, name, e, t)
	e.answer, e.err = b.describe(name, e, t)
	var look *LookError
	if e.seen = t; errors.As(e.err, &look) {
		e.seen = nil // the catalog may answer
	}
	return e.answer, e.err
}

// compare holds the description against the table map: what does not agree is known no longer.
func (b *Book) compare(at Place, name ddl.TableName, e *entry, t *binlog.Table) {
	shape := shapeOf(t)
	if e.shape != shape {
		if e.shape != "" {
			e.tried = false
			if e.table != nil {
				e.table, e.why, e.from = nil, "its columns are others than before, and no statement of the binlog has changed it", at
			}
		}
		e.shape = shape
		b.touch(at, keyOf(name))
	}
	if e.table == nil {
		return
	}
	err := b.agrees(t, e.table)
	if err == nil {
		if e.tried { // should the table become another, that is news
			e.tried = false
			b.touch(at, keyOf(name))
		}
		return
	}
	if g := b.withGeneratedKey(e.table, t); g != nil && b.agrees(t, g) == nil {
		e.table = g
	} else {
		e.table, e.why, e.from = nil, err.Error(), at
	}
	b.touch(at, keyOf(name))
}

// describe answers for a table map with what is known.
func (b *Book) describe(name ddl.TableName, e *entry, t *binlog.Table) (*Description, error) {
	if e.table != nil {
		return b.description(name, e, t, e.table, nil), nil
	}
	if !e.tried {
		return nil, &LookError{Table: name, Why: e.why}
	}
	if !t.Named {
		return nil, &Error{Table: name, Reason: "its columns are not known: " + e.why, Remedy: remedy}
	}
	made, errs := b.fromMetadata(b.withoutHashes(t, nil), e.why)
	return b.description(name, e, t, made, errs), nil
}

// shapeOf is what a table map always tells of its columns, as a fingerprint.
func shapeOf(t *binlog.Table) string {
	h := sha256.New()
	var buf []byte
	for i := range t.Columns {
		c := &t.Columns[i]
		buf = append(buf[:0], byte(c.Type), 0)
		if c.Nullable {
			buf[1] = 1
		}
		buf = binary.LittleEndian.AppendUint16(buf, c.Meta)
		h.Write(buf)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
