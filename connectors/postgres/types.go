package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// typeRef is a column's type as pg_attribute and relation messages have it.
type typeRef struct {
	oid      uint32
	modifier int32 // -1 none
}

// pgType is one row of pg_type.
type pgType struct {
	namespace, name string
	class           byte
	base            typeRef // of a domain
	elem            uint32  // of a true array, 0 else
	array           uint32  // its array type
	enum            []string
}

// maxTypeDepth bounds how far domains and arrays are followed; Postgres has no cycles among them.
const maxTypeDepth = 32

// types describes types for event.PostgresColumn. A type that is gone is left out of the result.
func types(ctx context.Context, conn *pgconn.PgConn, refs []typeRef) (map[typeRef]event.TypeFacts, error) {
	known := map[uint32]pgType{}
	next := make([]uint32, 0, len(refs))
	for _, r := range refs {
		next = append(next, r.oid)
	}
	for range maxTypeDepth {
		var err error
		if next, err = readTypes(ctx, conn, next, known); err != nil {
			return nil, err
		}
		if len(next) == 0 {
			break
		}
	}
	facts := make(map[typeRef]event.TypeFacts, len(refs))
	for _, r := range refs {
		if f, ok := resolveType(known, r); ok {
			facts[r] = f
		}
	}
	return facts, formatTypes(ctx, conn, facts)
}

// readTypes adds the given types to known and returns those that they are made of and that are not known yet.
func readTypes(ctx context.Context, conn *pgconn.PgConn, oids []uint32, known map[uint32]pgType) ([]uint32, error) {
	var list []string
	for _, oid := range oids {
		if _, ok := known[oid]; !ok {
			list = append(list, strconv.FormatUint(uint64(oid), 10))
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	rows, err := query(ctx, conn, `SELECT t.oid, n.nspname, t.typname, t.typtype, t.typbasetype, t.typtypmod,
       coalesce((SELECT e.oid FROM pg_type e WHERE e.typarray = t.oid), 0), t.typarray,
       (SELECT string_agg(enumlabel, chr(1) ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid)
  FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid IN (`+strings.Join(list, ",")+`)`)
	if err != nil {
		return nil, fmt.Errorf("read types: %w", err)
	}
	var next []uint32
	for _, r := range rows {
		t := pgType{
			namespace: string(r[1]), name: string(r[2]), class: r[3][0], base: typeRef{parseOID(r[4]), parseModifier(r[5])},
			elem: parseOID(r[6]), array: parseOID(r[7]), enum: splitNames(r[8]),
		}
		known[parseOID(r[0])] = t
		for _, oid := range []uint32{t.base.oid, t.elem} {
			if oid != 0 {
				next = append(next, oid)
			}
		}
	}
	return next, nil
}

// resolveType follows domains to their base, also below an array. It does no I/O.
func resolveType(known map[uint32]pgType, r typeRef) (event.TypeFacts, bool) {
	for range maxTypeDepth {
		t, ok := known[r.oid]
		switch {
		case !ok:
			return event.TypeFacts{}, false
		case t.base.oid != 0: // the column's own modifier, where it has one, comes first
			modifier := r.modifier
			if r = t.base; modifier >= 0 {
				r.modifier = modifier
			}
			continue
		}
		f := event.TypeFacts{OID: r.oid, Namespace: t.namespace, Name: t.name, Class: t.class, Modifier: r.modifier, Enum: t.enum}
		if t.elem == 0 {
			return f, true
		}
		elem, ok := resolveType(known, typeRef{t.elem, r.modifier})
		if !ok {
			return event.TypeFacts{}, false
		}
		f.Elem = &elem
		if array := known[elem.OID].array; array != 0 { // of a domain: the array of its base
			f.OID, f.Modifier = array, elem.Modifier
		}
		return f, true
	}
	return event.TypeFacts{}, false
}

// formatTypes fills in the types' names as DDL takes them, modifiers included: char without a length is bpchar, not the
// character that DDL would take for character(1).
func formatTypes(ctx context.Context, conn *pgconn.PgConn, facts map[typeRef]event.TypeFacts) error {
	if len(facts) == 0 {
		return nil
	}
	refs := make([]typeRef, 0, len(facts))
	columns := make([]string, 0, len(facts))
	for r, f := range facts {
		refs = append(refs, r)
		columns = append(columns, fmt.Sprintf("(%d, format_type(%d, %d))", len(refs)-1, f.OID, f.Modifier))
	}
	rows, err := query(ctx, conn, "VALUES "+strings.Join(columns, ", "))
	if err != nil {
		return fmt.Errorf("read type names: %w", err)
	}
	for _, row := range rows {
		i, err := strconv.Atoi(string(row[0]))
		if err != nil {
			return fmt.Errorf("read type names: %w", err)
		}
		f := facts[refs[i]]
		f.Formatted = string(row[1])
		facts[refs[i]] = f
	}
	return nil
}
