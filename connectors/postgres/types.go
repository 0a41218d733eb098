package postgres

import "github.com/rowtrail/rowtrail/connectors/event"

// builtinKinds are the encoder families of Postgres' own types by OID, which never change.
var builtinKinds = map[uint32]event.Kind{
	16: event.KindBool, 17: event.KindBytes, 18: event.KindText, 19: event.KindText, 20: event.KindInt64, 21: event.KindInt16,
	23: event.KindInt32, 25: event.KindText, 26: event.KindOID, 114: event.KindJSON, 142: event.KindXML,
	700: event.KindFloat32, 701: event.KindFloat64, 790: event.KindMoney,
	1042: event.KindText, 1043: event.KindText,
	1082: event.KindDate, 1083: event.KindTime, 1114: event.KindTimestamp, 1184: event.KindTimestampTZ,
	1186: event.KindInterval, 1266: event.KindTimeTZ, 1560: event.KindBit, 1562: event.KindText, // bit varying: its length is part of the value
	1700: event.KindNumeric, 2950: event.KindUUID, 3614: event.KindTSVector, 3802: event.KindJSON,
}

// extensionKinds are families of types that extensions bring, by name.
var extensionKinds = map[string]event.Kind{
	"hstore": event.KindHstore, "ltree": event.KindLtree, "citext": event.KindText,
}

// typeInfo is what the catalog says about one type, domains resolved to their base type.
type typeInfo struct {
	name    string // without modifiers, qualified unless in pg_catalog
	kind    event.Kind
	elem    event.Kind
	elemOID uint32
	enum    []string
	baseMod int32 // modifier of a domain's base type, -1 none
}

// kindOf classifies a base type.
func kindOf(oid uint32, typtype byte, typname string) event.Kind {
	if k, ok := builtinKinds[oid]; ok {
		return k
	}
	if typtype == 'e' {
		return event.KindEnum
	}
	if k, ok := extensionKinds[typname]; ok {
		return k
	}
	return event.KindText
}
