package binlog

import "fmt"

// Fields of a table map's optional metadata.
const (
	metaSignedness       = 1
	metaDefaultCharset   = 2
	metaColumnCharset    = 3
	metaNames            = 4
	metaSetLabels        = 5
	metaEnumLabels       = 6
	metaGeometry         = 7
	metaSimpleKey        = 8
	metaPrefixKey        = 9
	metaEnumSetDefault   = 10
	metaEnumSetCharset   = 11
	metaVisibility       = 12
	metaVectorDimensions = 13
)

// metadata reads what follows the columns. Each field tells of the columns of some types only, in their order.
func (t *Table) metadata(r *reader, mariaDB bool) error {
	for len(r.b) > 0 && r.err == nil {
		field := r.uint8()
		f := reader{b: r.packedBytes()}
		if r.err != nil {
			break
		}
		if err := t.metadataField(field, &f, mariaDB); err != nil {
			return fmt.Errorf("metadata field %d: %w", field, err)
		}
		if f.err != nil {
			return fmt.Errorf("metadata field %d: %w", field, f.err)
		}
	}
	return r.err
}

func (t *Table) metadataField(field byte, f *reader, mariaDB bool) error {
	isString := func(c *WireColumn) bool { return c.isString(mariaDB) }
	switch field {
	case metaSignedness:
		t.Signed = true
		return t.bits(f.b, (*WireColumn).isNumber, func(c *WireColumn, set bool) { c.Unsigned = set })
	case metaDefaultCharset:
		t.Charsets = true
		return t.defaultCharset(f, isString)
	case metaColumnCharset:
		t.Charsets = true
		return t.numbers(f, isString, func(c *WireColumn, v uint64) { c.Collation = uint32(v) })
	case metaEnumSetDefault:
		return t.defaultCharset(f, (*WireColumn).isEnumOrSet)
	case metaEnumSetCharset:
		return t.numbers(f, (*WireColumn).isEnumOrSet, func(c *WireColumn, v uint64) { c.Collation = uint32(v) })
	case metaNames:
		for i := range t.Columns {
			t.Columns[i].Name = string(f.packedBytes())
		}
		t.Named = f.err == nil && len(f.b) == 0
		if !t.Named {
			return malformed("names of %d columns", len(t.Columns))
		}
	case metaSetLabels:
		return t.labels(f, WireSet)
	case metaEnumLabels:
		return t.labels(f, WireEnum)
	case metaGeometry:
		return t.numbers(f, func(c *WireColumn) bool { return c.Type == WireGeometry }, func(c *WireColumn, v uint64) { c.Geometry = uint32(v) })
	case metaVectorDimensions:
		return t.numbers(f, func(c *WireColumn) bool { return c.Type == WireVector }, func(c *WireColumn, v uint64) { c.Dimensions = uint32(v) })
	case metaSimpleKey, metaPrefixKey:
		for len(f.b) > 0 && f.err == nil {
			p := KeyPart{Column: int(f.packed())}
			if field == metaPrefixKey {
				p.Prefix = f.packed()
			}
			if p.Column < 0 || p.Column >= len(t.Columns) {
				return malformed("key column %d of %d", p.Column, len(t.Columns))
			}
			t.PrimaryKey = append(t.PrimaryKey, p)
		}
	case metaVisibility:
		return t.bits(f.b, func(*WireColumn) bool { return true }, func(c *WireColumn, set bool) { c.Invisible = !set })
	}
	return nil // fields of later servers say more, nothing else
}

// bits reads a bitmap, highest bit first, over the columns that it is about.
func (t *Table) bits(b []byte, about func(*WireColumn) bool, set func(*WireColumn, bool)) error {
	n := 0
	for i := range t.Columns {
		c := &t.Columns[i]
		if !about(c) {
			continue
		}
		if n/8 >= len(b) {
			return ErrTruncated
		}
		set(c, b[n/8]&(0x80>>(n%8)) != 0)
		n++
	}
	if len(b) != (n+7)/8 {
		return malformed("bitmap of %d bytes for %d columns", len(b), n)
	}
	return nil
}

func (t *Table) numbers(f *reader, about func(*WireColumn) bool, set func(*WireColumn, uint64)) error {
	for i := range t.Columns {
		if c := &t.Columns[i]; about(c) {
			set(c, f.packed())
		}
	}
	if f.err == nil && len(f.b) > 0 {
		return malformed("%d bytes left over", len(f.b))
	}
	return f.err
}

// defaultCharset reads one collation for all, and those of the columns that have another, by their place among their like.
func (t *Table) defaultCharset(f *reader, about func(*WireColumn) bool) error {
	var like []*WireColumn
	collation := uint32(f.packed())
	for i := range t.Columns {
		if c := &t.Columns[i]; about(c) {
			c.Collation = collation
			like = append(like, c)
		}
	}
	for len(f.b) > 0 && f.err == nil {
		i, v := f.packed(), f.packed()
		if f.err == nil && i >= uint64(len(like)) {
			return malformed("charset of string column %d of %d", i, len(like))
		}
		if f.err == nil {
			like[i].Collation = uint32(v)
		}
	}
	return f.err
}

func (t *Table) labels(f *reader, typ WireType) error {
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Type != typ {
			continue
		}
		n := f.packed()
		if f.err != nil || n > uint64(len(f.b)) { // each label has a byte at least
			return ErrTruncated
		}
		c.Labels = make([]string, n)
		for j := range c.Labels {
			c.Labels[j] = string(f.packedBytes())
		}
	}
	return f.err
}

func (c *WireColumn) isNumber() bool {
	switch c.Type {
	case WireTiny, WireShort, WireInt24, WireLong, WireLongLong, WireFloat, WireDouble, WireDecimal, WireYear:
		return true
	}
	return false
}

// isString tells whether the column is counted among those that have a charset: a VECTOR of MySQL is, as a binary string.
func (c *WireColumn) isString(mariaDB bool) bool {
	switch c.Type {
	case WireString, WireVarString, WireVarchar, WireBlob, WireVarcharCompressed, WireBlobCompressed, WireVector:
		return true
	case WireGeometry:
		return mariaDB
	}
	return false
}

func (c *WireColumn) isEnumOrSet() bool { return c.Type == WireEnum || c.Type == WireSet }
