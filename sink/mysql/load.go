package mysql

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// Bounds of what is loaded.
const (
	// minLoaded: fewer rows go in a statement, which takes two round trips less.
	minLoaded = 64
	// maxLoaded is how many bytes a LOAD DATA has, but for a row that is larger.
	maxLoaded = 4 << 20
)

// Servers that do not take LOAD DATA LOCAL say so with these.
const (
	errCommandRefused     = 1148
	errLoadRefused        = 3948
	errLoadRefusedMariaDB = 4166
)

// load writes whole rows into a table with LOAD DATA LOCAL, which the server reads much faster than statements, and returns those that it
// did not write.
//
// LOCAL makes the server go on after an error: it leaves a row out that has the key of another one, and puts the nearest value in the
// place of one that does not fit. Each time it counts a warning, as statements do of what is no error (sql_notes is on). So what it did counts
// only when it tells of as many rows as were sent and of no warning at all; else it is undone to a savepoint, and the rows go in
// statements, whose errors are errors. Where it would change something and not warn, it is not used: see loadable.
func (s *session) load(ctx context.Context, into string, b *binding, columns []int, rows []int32) (left []int32, err error) {
	if !s.conn.loads || len(rows) < s.loadFrom || !b.loadable(columns) {
		return rows, nil
	}
	sql := loadSQL(into, b, columns)
	for first := 0; first < len(rows); {
		data, last := s.data[:0], first
		for ; last < len(rows); last++ {
			before := len(data)
			var ok bool
			if data, ok = s.line(data, b, columns, rows[last]); !ok {
				return rows[first:], nil
			}
			if len(data) > maxLoaded && last > first {
				data = data[:before]
				break
			}
		}
		s.data = data
		done, err := s.loadLines(ctx, sql, last-first)
		if err != nil {
			return nil, err
		}
		if !done {
			return rows[first:], nil
		}
		first = last
	}
	return nil, nil
}

// loadable: all columns of the table are written, since it is not told of one without a default, and none is BIT, which has no form in a
// line. Triggers may see more of a LOAD than of statements.
func (b *binding) loadable(columns []int) bool {
	return len(columns) == len(b.table.order) && !b.table.exact && !slices.ContainsFunc(b.columns, func(c boundColumn) bool { return c.class == classBit })
}

// loadSQL names what lines mean without any default. Binary values travel as hexadecimal digits.
func loadSQL(into string, b *binding, columns []int) string {
	var list, set strings.Builder
	for i, c := range columns {
		comma(&list, i)
		column := &b.columns[c]
		if !column.hex() {
			list.WriteString(quote(column.name))
			continue
		}
		name := fmt.Sprint("@rowtrail_", i)
		list.WriteString(name)
		comma(&set, set.Len())
		set.WriteString(quote(column.name) + " = UNHEX(" + name + ")")
	}
	sql := "LOAD DATA LOCAL INFILE 'rows' INTO TABLE " + into +
		" CHARACTER SET utf8mb4 FIELDS TERMINATED BY 0x09 ENCLOSED BY '' ESCAPED BY 0x5C LINES STARTING BY '' TERMINATED BY 0x0A (" + list.String() + ")"
	if set.Len() > 0 {
		sql += " SET " + set.String()
	}
	return sql
}

// hex tells that a column's values are written as hexadecimal digits.
func (c *boundColumn) hex() bool {
	return c.class == classBytes && slices.Contains([]event.Kind{event.KindBytes, event.KindGeometry, event.KindPoint, event.KindVector}, c.kind)
}

// line adds a row; false when it has a value that has no form here.
func (s *session) line(dst []byte, b *binding, columns []int, row int32) ([]byte, bool) {
	for i, column := range columns {
		if i > 0 {
			dst = append(dst, '\t')
		}
		c, to := s.in.Cell(row, column), &b.columns[column]
		if c.State != event.Text {
			if to.column.never { // without a warning
				return dst, false
			}
			dst = append(dst, `\N`...)
			continue
		}
		if c.Size == 0 && to.column.nothing {
			return dst, false
		}
		text := to.convert(s.in.Text(c))
		switch {
		case to.hex():
			digits, ok := bytes.CutPrefix(text, []byte(`\x`))
			if !ok {
				return dst, false
			}
			dst = append(dst, digits...)
		case to.class == classFloat, to.class == classDouble:
			var err error
			if dst, err = to.appendFloat(dst, text); err != nil {
				return dst, false
			}
		case to.class == classJSON:
			w := jsonWriter{text: text}
			if decimals, err := w.decimals(); decimals || err != nil { // no line makes a decimal
				return dst, false
			}
			dst = appendField(dst, text)
		default:
			dst = appendField(dst, text)
		}
	}
	return append(dst, '\n'), true
}

// appendField escapes what a line would take for something else.
func appendField(dst, text []byte) []byte {
	for {
		i := bytes.IndexAny(text, "\\\t\n\x00")
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(append(dst, text[:i]...), '\\')
		switch text[i] {
		case '\t':
			dst = append(dst, 't')
		case '\n':
			dst = append(dst, 'n')
		case 0:
			dst = append(dst, '0')
		default:
			dst = append(dst, text[i])
		}
		text = text[i+1:]
	}
}

// loadLines loads s.data, or leaves everything as it was.
func (s *session) loadLines(ctx context.Context, sql string, rows int) (done bool, err error) {
	if _, err := s.conn.exec(ctx, "SAVEPOINT rowtrail_load"); err != nil {
		return false, fmt.Errorf("begin to load: %w", err)
	}
	r, err := s.conn.load(ctx, sql, s.data)
	switch {
	case err == nil && r.Warnings == 0 && r.AffectedRows == uint64(rows):
		return true, nil
	case slices.Contains([]uint16{errCommandRefused, errLoadRefused, errLoadRefusedMariaDB}, code(err)): // since the session began
		s.conn.loads = false
	case err != nil && !sink.IsPermanent(classify(err)):
		return false, fmt.Errorf("load rows: %w", err)
	}
	if _, err := s.conn.exec(ctx, "ROLLBACK TO SAVEPOINT rowtrail_load"); err != nil {
		return false, fmt.Errorf("undo what was loaded: %w", err)
	}
	return false, nil
}

// load runs a LOAD DATA LOCAL, and gives the server the data that is at hand and nothing else, whatever it asks for.
func (m *conn) load(ctx context.Context, sql string, data []byte) (*mysql.Result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	stop := context.AfterFunc(ctx, func() { _ = m.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	r, err := m.ExecQueryRelayLocalInfile(sql, func([]byte) (io.Reader, error) { return bytes.NewReader(data), nil })
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return r, err
}
