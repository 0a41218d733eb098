package audit

import (
	"bytes"
	"context"
	"fmt"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/rowtrail/rowtrail/itest/binlogs"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// MySQL reads the binary log of a MySQL or MariaDB server whose transactions have GTIDs.
type MySQL struct {
	Server *servers.MySQL

	file string
	pos  uint64
}

// Watch remembers where the binary log is.
func (m *MySQL) Watch(ctx context.Context) (err error) {
	m.file, m.pos, err = m.Server.BinaryLog(ctx)
	return err
}

// Committed reads the binary log from there.
func (m *MySQL) Committed(ctx context.Context, want map[string]bool) ([]Transaction, error) {
	packets, err := binlogs.Dump(ctx, m.Server, m.file, uint32(m.pos))
	if err != nil {
		return nil, err
	}
	parser := replication.NewBinlogParser()
	parser.SetFlavor(m.Server.Flavour())
	r := reader{want: want, columns: map[string]places{}}
	err = m.eachColumn(ctx, func(table, column string, place int) {
		p := r.columns[table]
		switch column {
		case "id":
			p.id = place
		case "rev":
			p.rev = place
		}
		r.columns[table] = p
	})
	if err != nil {
		return nil, err
	}
	for _, packet := range packets {
		e, err := parser.Parse(packet)
		if err == nil {
			err = r.event(e)
		}
		if err != nil {
			return nil, fmt.Errorf("read the binary log of %s: %w", m.Server.Describe(), err)
		}
	}
	return r.transactions, nil
}

func (m *MySQL) eachColumn(ctx context.Context, each func(table, column string, place int)) error {
	rows, err := m.Server.Query(ctx, "", `SELECT CONCAT(table_schema, '.', table_name), column_name FROM information_schema.columns
		WHERE table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY table_schema, table_name, ordinal_position`)
	if err != nil {
		return err
	}
	place := map[string]int{}
	for _, row := range rows {
		each(row[0], row[1], place[row[0]])
		place[row[0]]++
	}
	return nil
}

// places are where a table has the columns that are looked at.
type places struct{ id, rev int }

// reader makes transactions of events.
type reader struct {
	want         map[string]bool
	columns      map[string]places
	transactions []Transaction
	open         Transaction
}

func (r *reader) event(e *replication.BinlogEvent) error {
	switch event := e.Event.(type) {
	case *replication.GTIDEvent:
		r.open = Transaction{ID: gtid(event)}
	case *replication.GtidTaggedLogEvent:
		r.open = Transaction{ID: gtid(&event.GTIDEvent)}
	case *replication.MariadbGTIDEvent:
		r.open = Transaction{ID: event.GTID.String()}
	case *replication.RowsEvent:
		return r.rows(e.Header.EventType, event)
	case *replication.XIDEvent:
		if len(r.open.Changes) > 0 {
			r.transactions = append(r.transactions, r.open)
		}
		r.open = Transaction{}
	case *replication.QueryEvent:
		// Of tables with transactions the server leaves out what is rolled back, and writes no other statement between rows.
		if len(r.open.Changes) > 0 && !bytes.HasPrefix(event.Query, []byte("SAVEPOINT ")) {
			return fmt.Errorf("statement %q after rows of transaction %s", event.Query, r.open.ID)
		}
	}
	return nil
}

func gtid(e *replication.GTIDEvent) string {
	id := fmt.Sprintf("%x-%x-%x-%x-%x:", e.SID[:4], e.SID[4:6], e.SID[6:8], e.SID[8:10], e.SID[10:])
	if e.Tag.String() != "" {
		id += e.Tag.String() + ":"
	}
	return fmt.Sprint(id, e.GNO)
}

func (r *reader) rows(kind replication.EventType, e *replication.RowsEvent) error {
	table := string(e.Table.Schema) + "." + string(e.Table.Table)
	if !r.want[table] {
		return nil
	}
	at := r.columns[table]
	number := func(row []any, place int) (int64, error) {
		switch v := row[place].(type) {
		case int64:
			return v, nil
		case int32:
			return int64(v), nil
		}
		return 0, fmt.Errorf("column %d of %s is %T", place+1, table, row[place])
	}
	change := func(op byte, row []any) error {
		id, err := number(row, at.id)
		if err != nil {
			return err
		}
		rev := int64(-1)
		if op != 'd' {
			if rev, err = number(row, at.rev); err != nil {
				return err
			}
		}
		r.open.Changes = append(r.open.Changes, Change{Table: table, Op: op, ID: id, Rev: rev})
		return nil
	}
	each := func(op byte) error {
		for _, row := range e.Rows {
			if err := change(op, row); err != nil {
				return err
			}
		}
		return nil
	}
	switch e.Type() {
	case replication.EnumRowsEventTypeInsert:
		return each('c')
	case replication.EnumRowsEventTypeDelete:
		return each('d')
	case replication.EnumRowsEventTypeUpdate:
		for i := 0; i < len(e.Rows); i += 2 {
			before, after := e.Rows[i], e.Rows[i+1]
			if before[at.id] == after[at.id] {
				if err := change('u', after); err != nil {
					return err
				}
				continue
			}
			if err := change('d', before); err != nil {
				return err
			}
			if err := change('c', after); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("rows of %s in an event of type %s", table, kind)
}
