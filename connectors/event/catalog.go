package event

import "fmt"

// TypeFacts is what Postgres' catalog says about a column's type, so that a connector only queries. A domain is given
// as its base type (followed to the end), with the base type's modifier where the column has none of its own.
type TypeFacts struct {
	OID       uint32
	Namespace string // pg_namespace.nspname
	Name      string // pg_type.typname
	Class     byte   // pg_type.typtype: b, c, e, r, m, p
	Modifier  int32  // atttypmod, -1 none
	Formatted string // format_type(OID, Modifier), schema-qualified outside of pg_catalog
	Enum      []string
	// Elem is set when the type is a true array: some type has it as its pg_type.typarray.
	Elem *TypeFacts
}

// PostgresColumn describes a column from its type's catalog facts.
func PostgresColumn(name string, t TypeFacts, notNull bool, key int) (Column, error) {
	c := Column{Name: name, Type: t.Formatted, OID: t.OID, Modifier: t.Modifier, Enum: t.Enum, NotNull: notNull, Key: key}
	if t.Elem == nil {
		c.Kind = postgresKind(t)
	} else {
		if t.Elem.Elem != nil {
			return Column{}, fmt.Errorf("describe column %s (%s): an array of a domain over an array is not supported; "+
				"leave the column out with column.exclude.list", name, t.Formatted)
		}
		c.Kind, c.Elem, c.ElemOID, c.Enum = KindArray, postgresKind(*t.Elem), t.Elem.OID, t.Elem.Enum
		if c.Modifier < 0 {
			c.Modifier = t.Elem.Modifier
		}
	}
	return c, nil
}

// postgresKind is the encoder family of a type that is not an array. What it does not know is text.
func postgresKind(t TypeFacts) Kind {
	if t.Class == 'e' {
		return KindEnum
	}
	switch t.OID {
	case 16:
		return KindBool
	case 17:
		return KindBytes
	case 20:
		return KindInt64
	case 21:
		return KindInt16
	case 23:
		return KindInt32
	case 26:
		return KindOID
	case 114, 3802: // json, jsonb
		return KindJSON
	case 142:
		return KindXML
	case 700:
		return KindFloat32
	case 701:
		return KindFloat64
	case 790:
		return KindMoney
	case 1082:
		return KindDate
	case 1083:
		return KindTime
	case 1114:
		return KindTimestamp
	case 1184:
		return KindTimestampTZ
	case 1186:
		return KindInterval
	case 1266:
		return KindTimeTZ
	case 1560:
		return KindBit
	case 1700:
		return KindNumeric
	case 2950:
		return KindUUID
	case 3614:
		return KindTSVector
	}
	if t.Class == 'b' && t.Elem == nil {
		switch t.Name { // of extensions, whose OIDs differ between databases
		case "hstore":
			return KindHstore
		case "ltree":
			return KindLtree
		}
	}
	return KindText
}
