package main

import (
	"encoding/json"
	"slices"
	"strings"
)

// place is where a difference is, the same with schemas and without: value.after.v; of a schema value.schema/after/v.type.
func (d *difference) place() string {
	for _, part := range []string{"key", "value", "headers.__debezium.oldkey", "headers.__debezium.newkey"} {
		if rest, ok := strings.CutPrefix(d.path, part+".payload"); ok {
			return part + rest
		}
	}
	return d.path
}

// typ is the type that the case is about, also of a key or of an unchanged value.
func (d *difference) typ() string {
	return strings.TrimPrefix(strings.TrimPrefix(d.kase, "key "), "unchanged ")
}

// value tells that the difference is in a column's value, in an image of the row or in a key.
func (d *difference) value() (column string, ok bool) {
	for _, part := range []string{"value.before.", "value.after.", "key.", "headers.__debezium.oldkey.", "headers.__debezium.newkey."} {
		if name, found := strings.CutPrefix(d.place(), part); found && !strings.HasPrefix(name, "schema") {
			column, _ := cutColumn(name)
			return column, true
		}
	}
	return "", false
}

// schema tells that the difference is in a column's Connect schema, and where in that.
func (d *difference) schema() (column, rest string, ok bool) {
	for _, part := range []string{"value.schema/before/", "value.schema/after/", "key.schema/", "headers.__debezium.oldkey.schema/", "headers.__debezium.newkey.schema/"} {
		if name, found := strings.CutPrefix(d.place(), part); found {
			column, rest = cutColumn(name)
			return column, rest, true
		}
	}
	return "", "", false
}

// cutColumn parts v[0].scale into v and [0].scale.
func cutColumn(name string) (column, rest string) {
	if strings.HasPrefix(name, "a.b") { // a name with a point
		return "a.b", name[len("a.b"):]
	}
	end := strings.IndexAny(name, ".[/ ")
	if strings.HasPrefix(name, "with space") {
		end = -1
	}
	if end < 0 {
		return name, ""
	}
	return name[:end], name[end:]
}

func (d *difference) inValue() bool {
	_, ok := d.value()
	return ok
}

func (d *difference) inSchema() bool {
	_, _, ok := d.schema()
	return ok
}

// ofType tells that the case is about one of the types, and the difference in its column.
func (d *difference) ofType(types ...string) bool {
	if !slices.Contains(types, d.typ()) {
		return false
	}
	column, ok := d.value()
	if !ok {
		column, _, ok = d.schema()
	}
	return ok && column == "v"
}

func isMissing(v any) bool {
	_, ok := v.(missing)
	return ok
}

func isText(v any, texts ...string) bool {
	s, ok := v.(string)
	return ok && slices.Contains(texts, s)
}

// isSpecial tells NaN and the infinities of numbers.
func isSpecial(v any) bool { return isText(v, "NaN", "Infinity", "-Infinity") }

// isNumber tells a number by its value.
func isNumber(v any, value string) bool {
	n, ok := v.(json.Number)
	return ok && same(n, json.Number(value))
}

// sameFloat tells that both numbers are read as the same float of 64 bits, or of 32.
func sameFloat(a, b any, bits int) bool {
	x, ok1 := a.(json.Number)
	y, ok2 := b.(json.Number)
	if !ok1 || !ok2 {
		return false
	}
	p, err1 := x.Float64()
	q, err2 := y.Float64()
	if bits == 32 {
		return err1 == nil && err2 == nil && float32(p) == float32(q)
	}
	return err1 == nil && err2 == nil && p == q
}

// holds tells that a value, or an element of a list at any depth, is such.
func holds(v any, such func(any) bool) bool {
	if list, ok := v.([]any); ok {
		return slices.ContainsFunc(list, func(e any) bool { return holds(e, such) })
	}
	return such(v)
}

func (d *difference) typeStarts(prefix string) bool { return strings.HasPrefix(d.typ(), prefix) }

// isMidnight tells 24:00:00 in any of its forms.
func isMidnight(v any) bool {
	return isText(v, "24:00:00Z") || v == json.Number("86400000000") || v == json.Number("86400000")
}

func isInfiniteDate(v any) bool {
	return isText(v, "infinity", "-infinity") || v == json.Number("2147483647") || v == json.Number("-2147483648")
}

// isInfiniteMicros tells the numbers that stand for infinite timestamps, as micro- and as milliseconds.
func isInfiniteMicros(v any) bool {
	n, ok := v.(json.Number)
	return ok && (strings.HasPrefix(string(n), "9223372036825200") || strings.HasPrefix(string(n), "-9223372036832400"))
}

// sameMembers tells that both texts are JSON objects with the same members.
func sameMembers(a, b any) bool {
	x, ok1 := a.(string)
	y, ok2 := b.(string)
	p, err1 := decode([]byte(x))
	q, err2 := decode([]byte(y))
	if !ok1 || !ok2 || err1 != nil || err2 != nil {
		return false
	}
	equal := true
	differValue("", p, q, func(string, any, any) { equal = false })
	return equal
}
