package mysql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/window"
)

// Bounds of a statement.
const (
	maxStatement = 512 << 10 // bytes, but for a row that is larger
	maxKeys      = 500       // in a list of keys
	maxNothing   = 50        // values of ENUM that are no label: the server keeps so many warnings
	minStaged    = 6         // fewer rows are updated one by one
	packetRest   = 1024      // of max_allowed_packet, for what is not the rows
)

// stage is a temporary table with the columns of a target table, through which rows that are there are updated.
type stage struct {
	name string
	used bool // there may be rows in it
}

// cell writes a value of a row, and counts values of ENUM that are no label.
func (s *session) cell(dst []byte, b *binding, first int32, column int, nothing *int) ([]byte, error) {
	c := s.in.Cell(first, column)
	if c.State != event.Text {
		if b.columns[column].column.never {
			return dst, sink.Permanent(fmt.Errorf("table %s, column %s: NULL for a TIMESTAMP that is NOT NULL would be the current time: ALTER TABLE %s MODIFY COLUMN %s TIMESTAMP NULL",
				b.table.name, b.columns[column].name, b.table.name, quote(b.columns[column].name)))
		}
		return append(dst, "NULL"...), nil
	}
	if c.Size == 0 && b.columns[column].column.nothing {
		*nothing++
	}
	return b.columns[column].append(dst, s.in.Text(c))
}

// run executes a statement that writes rows. What the server would only warn of is refused, but for values of ENUM that are no label, as
// many as there are.
func (s *session) run(ctx context.Context, sql []byte, nothing int) (int, error) {
	if len(sql) > s.conn.maxPacket-packetRest {
		return 0, sink.Permanent(fmt.Errorf("a row needs a statement of %d bytes, and the target takes %d: raise its max_allowed_packet", len(sql), s.conn.maxPacket))
	}
	if nothing > 0 {
		if _, err := s.conn.exec(ctx, "SET SESSION sql_mode = '"+relaxedMode+"'"); err != nil {
			return 0, err
		}
	}
	r, err := s.conn.exec(ctx, string(sql))
	n := 0
	if err == nil {
		n = int(r.AffectedRows)
		if r.Warnings > 0 || nothing > 0 {
			err = s.judge(ctx, int(r.Warnings), nothing)
		}
	}
	if nothing > 0 {
		if _, err := s.conn.exec(ctx, "SET SESSION sql_mode = '"+strictMode+"'"); err != nil {
			return 0, err
		}
	}
	return n, err
}

// judge reads the warnings of the statement before. Those of statements that only a binary log of statements minds, and of deprecated syntax,
// say nothing of values.
func (s *session) judge(ctx context.Context, warnings, nothing int) error {
	rows, err := s.conn.query(ctx, "SHOW WARNINGS")
	if err != nil {
		return fmt.Errorf("read warnings: %w", err)
	}
	enums := 0
	for _, r := range rows {
		switch n, _ := strconv.Atoi(r[1]); {
		case n == errTruncated && r[0] == "Warning" && nothing > 0:
			enums++
		case slices.Contains([]int{errUnsafeStatement, 1287, 1681, 3719, 3778}, n):
		default:
			return sink.Permanent(fmt.Errorf("the target would change a value: %s (warning %s)", r[2], r[1]))
		}
	}
	if len(rows) != warnings {
		return sink.Permanent(fmt.Errorf("the target has %d warnings and tells of %d, so it cannot be told whether it changed a value: SET GLOBAL max_error_count = 1024", warnings, len(rows)))
	}
	if enums != nothing {
		return sink.Permanent(fmt.Errorf("the target warns of %d values that are no label, and %d are to be written", enums, nothing))
	}
	return nil
}

// insertInto writes whole rows into a table, in as few statements as there have to be.
func (s *session) insertInto(ctx context.Context, into string, b *binding, columns []int, rows []int32) error {
	return s.insertEach(ctx, into, b, columns, rows, func(_ []int32, err error) error { return err })
}

// insertEach loads what can be loaded, and of each statement with other rows tells which it had and what became of it.
func (s *session) insertEach(ctx context.Context, into string, b *binding, columns []int, rows []int32, done func(rows []int32, err error) error) error {
	rows, err := s.load(ctx, into, b, columns, rows)
	if err != nil {
		return err
	}
	var head strings.Builder
	head.WriteString("INSERT INTO " + into + " (")
	for i, c := range columns {
		comma(&head, i)
		head.WriteString(quote(b.columns[c].name))
	}
	head.WriteString(") VALUES ")
	limit := min(maxStatement, s.conn.maxPacket-packetRest)
	for first := 0; first < len(rows); {
		sql, nothing, last := append(s.sql[:0], head.String()...), 0, first
		for ; last < len(rows); last++ {
			before, had := len(sql), nothing
			if last > first {
				sql = append(sql, ',')
			}
			for i, c := range columns {
				open := byte(',')
				if i == 0 {
					open = '('
				}
				var err error
				if sql, err = s.cell(append(sql, open), b, rows[last], c, &nothing); err != nil {
					return err
				}
			}
			sql = append(sql, ')')
			if (len(sql) > limit || nothing > maxNothing) && last > first {
				sql, nothing = sql[:before], had
				break
			}
		}
		s.sql = sql
		_, err := s.run(ctx, sql, nothing)
		if err = done(rows[first:last], err); err != nil {
			return err
		}
		first = last
	}
	return nil
}

// insertRows writes rows that are not expected to be there. Those that are there all the same are updated.
func (s *session) insertRows(ctx context.Context, b *binding, rows []int32) error {
	all := allColumns(len(b.columns))
	return s.insertEach(ctx, b.table.name.String(), b, all, rows, func(some []int32, err error) error {
		if !duplicate(err) {
			return wrapWrite(b, err)
		}
		return s.updateRows(ctx, b, all, some, false)
	})
}

func wrapWrite(b *binding, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write rows of %s: %w", b.table.name, err)
}

// updateRows writes columns of rows that are there. Of patches every row has to be; of whole rows those that are not are inserted.
func (s *session) updateRows(ctx context.Context, b *binding, columns []int, rows []int32, patch bool) error {
	if len(rows) == 0 {
		return nil
	}
	if len(rows) >= minStaged {
		return wrapWrite(b, s.updateStaged(ctx, b, columns, rows, patch))
	}
	missing := 0
	for _, row := range rows {
		n, err := s.updateOne(ctx, b.table.name.String(), &window.Op[*binding]{B: b, Cells: row}, columns)
		if err == nil && n == 0 && !patch {
			err = s.insertInto(ctx, b.table.name.String(), b, columns, []int32{row})
		}
		if err != nil {
			return wrapWrite(b, err)
		}
		missing += 1 - n
	}
	if patch && missing > 0 {
		return window.AbsentRow(b.table, int64(missing), int64(len(rows)))
	}
	return nil
}

// updateOne writes columns of the row that an operation names.
func (s *session) updateOne(ctx context.Context, table string, o *window.Op[*binding], columns []int) (int, error) {
	b, nothing := o.B, 0
	sql := append(s.sql[:0], "UPDATE "+table+" SET "...)
	if o.Kind != window.Move {
		columns = columns[b.keys:]
	}
	var err error
	for i, c := range columns {
		if i > 0 {
			sql = append(sql, ", "...)
		}
		sql = append(append(sql, quote(b.columns[c].name)...), " = "...)
		if sql, err = s.cell(sql, b, o.Cells, c, &nothing); err != nil {
			return 0, err
		}
	}
	if len(columns) == 0 { // the row only has to exist
		k := quote(b.columns[0].name)
		sql = append(sql, k+" = "+k...)
	}
	if sql, err = s.appendWhere(sql, b, o); err != nil {
		return 0, err
	}
	s.sql = sql
	return s.run(ctx, sql, nothing)
}

// appendWhere names the row of an operation by its key.
func (s *session) appendWhere(sql []byte, b *binding, o *window.Op[*binding]) ([]byte, error) {
	sql = append(sql, " WHERE "...)
	at := 0
	if o.Kind == window.Move {
		at = len(b.columns)
	}
	var err error
	for i := range b.keys {
		if i > 0 {
			sql = append(sql, " AND "...)
		}
		sql = append(append(sql, quote(b.columns[i].name)...), " = "...)
		if sql, err = b.columns[i].append(sql, s.in.Text(s.in.Cell(o.Cells, at+i))); err != nil {
			return nil, err
		}
	}
	return sql, nil
}

// deleteRows deletes rows by key.
func (s *session) deleteRows(ctx context.Context, b *binding, rows []int32) error {
	for some := range slices.Chunk(rows, maxKeys) {
		sql := append(s.sql[:0], "DELETE FROM "+b.table.name.String()...)
		var err error
		for i, row := range some {
			switch {
			case i == 0 && b.keys == 1:
				sql = append(sql, " WHERE "+quote(b.columns[0].name)+" IN ("...)
			case i == 0:
				sql = append(sql, " WHERE ("...)
			case b.keys == 1:
				sql = append(sql, ',')
			default:
				sql = append(sql, ") OR ("...)
			}
			for k := range b.keys {
				if k > 0 {
					sql = append(sql, " AND "...)
				}
				if b.keys > 1 {
					sql = append(sql, quote(b.columns[k].name)+" = "...)
				}
				if sql, err = b.columns[k].append(sql, s.in.Text(s.in.Cell(row, k))); err != nil {
					return err
				}
			}
		}
		sql = append(sql, ')')
		s.sql = sql
		if _, err := s.run(ctx, sql, 0); err != nil {
			return fmt.Errorf("delete rows of %s: %w", b.table.name, err)
		}
	}
	return nil
}

// updateStaged updates rows through a temporary table, which has the types and collations of the target's columns.
func (s *session) updateStaged(ctx context.Context, b *binding, columns []int, rows []int32, patch bool) error {
	st, err := s.stageOf(ctx, b)
	if err != nil {
		return err
	}
	if st.used {
		if _, err := s.conn.exec(ctx, "DELETE FROM "+st.name); err != nil {
			return err
		}
	}
	st.used = true
	if err := s.insertInto(ctx, st.name, b, columns, rows); err != nil {
		return err
	}
	var on, set strings.Builder
	for i, c := range b.columns[:b.keys] {
		if i > 0 {
			on.WriteString(" AND ")
		}
		fmt.Fprintf(&on, "t.%s = s.%s", quote(c.name), quote(c.name))
	}
	for i, c := range columns[b.keys:] {
		comma(&set, i)
		fmt.Fprintf(&set, "t.%s = s.%s", quote(b.columns[c].name), quote(b.columns[c].name))
	}
	if len(columns) == b.keys {
		k := quote(b.columns[0].name)
		fmt.Fprintf(&set, "t.%s = t.%s", k, k)
	}
	name := b.table.name.String()
	n, err := s.run(ctx, []byte("UPDATE "+name+" t JOIN "+st.name+" s ON "+on.String()+" SET "+set.String()), 0)
	switch {
	case err != nil || n == len(rows):
		return err
	case patch:
		return window.AbsentRow(b.table, int64(len(rows)-n), int64(len(rows)))
	}
	var list, from strings.Builder
	for i, c := range columns {
		comma(&list, i)
		comma(&from, i)
		list.WriteString(quote(b.columns[c].name))
		from.WriteString("s." + quote(b.columns[c].name))
	}
	_, err = s.run(ctx, []byte("INSERT INTO "+name+" ("+list.String()+") SELECT "+from.String()+" FROM "+st.name+" s LEFT JOIN "+name+" t ON "+on.String()+
		" WHERE t."+quote(b.columns[0].name)+" IS NULL"), 0)
	return err
}

// stageOf is the table's stage, made at its first use.
func (s *session) stageOf(ctx context.Context, b *binding) (*stage, error) {
	if b.table.stage == nil {
		name, err := s.temporary(ctx, b)
		if err != nil {
			return nil, err
		}
		b.table.stage = &stage{name: name}
	}
	return b.table.stage, nil
}

// temporary makes a temporary table with the columns of a target table and the record's key. Making one does not end the transaction.
func (s *session) temporary(ctx context.Context, b *binding) (string, error) {
	s.stages++
	name := tableName{s.target.config.OffsetsDatabase, "rowtrail_" + strconv.Itoa(s.stages)}.String()
	var sql strings.Builder
	sql.WriteString("CREATE TEMPORARY TABLE " + name + " (")
	for i, column := range b.table.order {
		comma(&sql, i)
		c := b.table.columns[column]
		sql.WriteString(quote(column) + " " + c.declared)
		if c.collate != "" {
			sql.WriteString(" COLLATE " + c.collate)
		}
		switch {
		case slices.Contains(b.shape.Names[:b.keys], column) && c.data == "timestamp":
			sql.WriteString(" NOT NULL DEFAULT '1970-01-01 00:00:01'")
		case slices.Contains(b.shape.Names[:b.keys], column):
			sql.WriteString(" NOT NULL")
		default:
			sql.WriteString(" NULL")
		}
	}
	sql.WriteString(", PRIMARY KEY (" + quoted(b.shape.Names[:b.keys]) + ")) ENGINE = InnoDB")
	if _, err := s.conn.exec(ctx, sql.String()); err != nil {
		return "", fmt.Errorf("create temporary table for %s (GRANT CREATE TEMPORARY TABLES ON %s.* if it is a right that lacks): %w",
			b.table.name, quote(s.target.config.OffsetsDatabase), err)
	}
	return name, nil
}
