package postgres

import "github.com/rowtrail/rowtrail/connectors/event"

// typeInfo is what the catalog says about one type, domains resolved to their base type.
type typeInfo struct {
	name    string // without modifiers, qualified unless in pg_catalog
	kind    event.Kind
	elem    event.Kind
	elemOID uint32
	enum    []string
	baseMod int32 // modifier of a domain's base type, -1 none
}

// kindOf classifies a base type: Postgres' own by OID, which never changes, those of extensions by name.
func kindOf(oid uint32, typtype byte, typname string) event.Kind {
	switch oid {
	case 16:
		return event.KindBool
	case 17:
		return event.KindBytes
	case 20:
		return event.KindInt64
	case 21:
		return event.KindInt16
	case 23:
		return event.KindInt32
	case 26:
		return event.KindOID
	case 114, 3802:
		return event.KindJSON
	case 142:
		return event.KindXML
	case 700:
		return event.KindFloat32
	case 701:
		return event.KindFloat64
	case 790:
		return event.KindMoney
	case 1082:
		return event.KindDate
	case 1083:
		return event.KindTime
	case 1114:
		return event.KindTimestamp
	case 1184:
		return event.KindTimestampTZ
	case 1186:
		return event.KindInterval
	case 1266:
		return event.KindTimeTZ
	case 1560: // not 1562, bit varying: its length is part of the value, so it is text
		return event.KindBit
	case 1700:
		return event.KindNumeric
	case 2950:
		return event.KindUUID
	case 3614:
		return event.KindTSVector
	}
	if typtype == 'e' {
		return event.KindEnum
	}
	switch typname {
	case "hstore":
		return event.KindHstore
	case "ltree":
		return event.KindLtree
	}
	return event.KindText
}
