package ddl

// Touched are the columns of Tables[0] that after the statement may hold other values than the columns of their names held before: those
// that are dropped, renamed or changed. all: any column of any table of the effect. A column that is added was not there before.
func (e Effect) Touched() (columns []string, all bool) {
	d := e.definition
	switch {
	case e.Kind == Unknown, e.Kind == RenameTable, e.Rows, len(e.Doubt) > 0, len(e.Renames) > 0:
		return nil, true
	case e.Kind != AlterTable:
		return nil, false
	case d == nil, d.convert:
		return nil, true
	}
	for i := range d.columns {
		if c := &d.columns[i]; c.old != "" {
			columns = append(columns, c.old)
			if c.column.Name != c.old {
				columns = append(columns, c.column.Name)
			}
		}
	}
	for _, c := range d.drops {
		columns = append(columns, c.name)
	}
	for _, r := range d.columnRenames {
		columns = append(columns, r.from, r.to)
	}
	return columns, false
}
