package binlog

// Fork makes a Decoder that decodes ahead what this one decodes later. Tables that this one knows are the same *Table there, so that
// their Layouts decode its rows, too; those that it meets first are its own. The Decoder that is given, nil for none, is used again.
// This one must not be inside of a payload.
func (d *Decoder) Fork(again *Decoder) *Decoder {
	if again == nil {
		again = &Decoder{}
	}
	again.limit, again.format, again.known, again.end = d.limit, d.format, d.known, d.end
	again.tables.statement = d.tables.statement
	if again.tables.byID == nil {
		again.tables.byID = make(map[uint64]*mapped, len(d.tables.byID))
	}
	clear(again.tables.byID)
	for id, m := range d.tables.byID {
		own := *m // whose statement is its own
		again.tables.byID[id] = &own
	}
	again.payload.close()
	return again
}

// WholeBefore says whether the rows' images before the change have all columns.
func (r *Rows) WholeBefore() bool { return r.before.all }
