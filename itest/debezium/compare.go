package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// missing stands for what one side does not have.
type missing struct{}

func (missing) String() string { return "(missing)" }

// difference is one place in which the two sides differ.
type difference struct {
	server  string
	mode    *mode
	schemas bool
	kase    string // the matrix' row: a type, or what the table is about
	op      string
	path    string // value.after.v; of a schema's field value.schema/after/v.type
	ours    any
	theirs  any
	// records that differ; nil where a side has none.
	ourRecord, theirRecord *record
}

// text is a side's value, shortened.
func text(v any) string {
	if m, ok := v.(missing); ok {
		return m.String()
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	const most = 300
	if len(b) > most {
		return fmt.Sprintf("%s... (%d bytes)", b[:most], len(b))
	}
	return string(b)
}

func (d *difference) String() string {
	onOff := "off"
	if d.schemas {
		onOff = "on"
	}
	return fmt.Sprintf("%s %s schemas=%s %q %s %s: Rowtrail %s, Debezium %s", d.server, d.mode.name, onOff, d.kase, d.op, d.path, text(d.ours), text(d.theirs))
}

// pair is a record of each side; nil where a side has none.
type pair struct {
	ours, theirs *record
	op           string
}

// align matches the records of a topic: those of one key, in order, as many of one operation as there are.
func align(ours, theirs []*record) []pair {
	type tagged struct{ list []pair }
	byKey := map[string]*[2]tagged{}
	var keys []string
	collect := func(side int, list []*record) {
		tag := tagger{}
		for _, r := range list {
			p := pair{op: tag.op(r)}
			if side == 0 {
				p.ours = r
			} else {
				p.theirs = r
			}
			id := r.identity()
			if byKey[id] == nil {
				byKey[id] = &[2]tagged{}
				keys = append(keys, id)
			}
			byKey[id][side].list = append(byKey[id][side].list, p)
		}
	}
	collect(0, ours)
	collect(1, theirs)
	var pairs []pair
	for _, id := range keys {
		pairs = append(pairs, merge(byKey[id][0].list, byKey[id][1].list)...)
	}
	return pairs
}

// lookAhead is how far merge looks for a record that the other side has.
const lookAhead = 8

// merge pairs two lists: where they part, the record that the other side has soonest goes first, and the ones before it stand alone.
func merge(ours, theirs []pair) []pair {
	var out []pair
	for len(ours) > 0 && len(theirs) > 0 {
		a, b := ours[0], theirs[0]
		if a.kind() == b.kind() {
			out = append(out, pair{ours: a.ours, theirs: b.theirs, op: a.op})
			ours, theirs = ours[1:], theirs[1:]
			continue
		}
		inTheirs, inOurs := place(theirs, a.kind()), place(ours, b.kind())
		if inOurs <= inTheirs {
			out, ours = append(out, a), ours[1:]
		} else {
			out, theirs = append(out, b), theirs[1:]
		}
	}
	return append(append(out, ours...), theirs...)
}

func place(list []pair, kind string) int {
	for i := range min(len(list), lookAhead) {
		if list[i].kind() == kind {
			return i
		}
	}
	return lookAhead
}

// kind is what has to be equal for two records of a key to be the same event.
func (p pair) kind() string {
	r := p.ours
	if r == nil {
		r = p.theirs
	}
	if r.value == nil {
		return "tombstone"
	}
	return r.op()
}

// tagger tells which column of the matrix a record belongs to; it sees a topic's records in order.
type tagger struct {
	rekeyed string // identity of the row whose key changes, until its tombstone
}

func (t *tagger) op(r *record) string {
	if r.topic == topicMessage {
		return opMessage
	}
	if r.topic == topicTransaction || r.topic == topicSchemaChanges || r.topic == topicHeartbeats {
		return opOther
	}
	switch r.op() {
	case "r":
		return opLoad
	case "u":
		return opUpdate
	case "t":
		return opTruncate
	case "c":
		if _, ok := r.headers["__debezium.oldkey"]; ok {
			return opRekey
		}
		return opInsert
	case "d":
		t.rekeyed = ""
		if _, ok := r.headers["__debezium.newkey"]; ok {
			t.rekeyed = r.identity()
			return opRekey
		}
		return opDelete
	}
	if r.value == nil && r.identity() == t.rekeyed {
		t.rekeyed = ""
		return opRekey
	}
	if r.value == nil {
		return opDelete
	}
	return opOther
}

// order is a topic's records as a list of keys and operations, without the initial load, which has no order.
func order(list []*record) []string {
	var out []string
	for _, r := range list {
		if op := r.op(); op != "r" {
			out = append(out, op+" "+r.identity())
		}
	}
	return out
}

// differ compares two records and calls report for each place in which they differ.
func differ(p pair, report func(path string, ours, theirs any)) {
	switch {
	case p.theirs == nil:
		report("record", p.ours.summary(), missing{})
		return
	case p.ours == nil:
		report("record", missing{}, p.theirs.summary())
		return
	}
	differValue("key", p.ours.key, p.theirs.key, report)
	differValue("value", p.ours.value, p.theirs.value, report)
	differValue("headers", p.ours.headers, p.theirs.headers, report)
}

func (r *record) summary() any {
	if r.value == nil {
		return "tombstone of " + r.identity()
	}
	return r.op() + " of " + r.identity()
}

func differValue(path string, ours, theirs any, report func(string, any, any)) {
	switch a := ours.(type) {
	case object:
		x, numberA := variableDecimal(ours)
		y, numberB := variableDecimal(theirs)
		if numberA && numberB { // one number, not two fields
			if x.Cmp(y) != 0 || field(ours, "scale") != field(theirs, "scale") {
				report(path, ours, theirs)
			}
			return
		}
		if b, ok := theirs.(object); ok {
			differObject(path+".", a, b, report)
			return
		}
	case []any:
		if b, ok := theirs.([]any); ok {
			differList(path, a, b, report)
			return
		}
	}
	if !same(ours, theirs) {
		report(path, ours, theirs)
	}
}

// differObject compares the members; path ends with what comes before their names.
func differObject(path string, a, b object, report func(string, any, any)) {
	names := make([]string, 0, len(a))
	for name := range a {
		names = append(names, name)
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		x, inA := a[name]
		y, inB := b[name]
		at := path + name
		switch {
		case !inA:
			report(at, missing{}, y)
		case !inB:
			report(at, x, missing{})
		default:
			differValue(at, x, y, report)
		}
	}
}

// differList compares lists: the fields of a schema by their names, and by their order when the names are the same.
func differList(path string, a, b []any, report func(string, any, any)) {
	fieldsA, namesA := schemaFields(a)
	fieldsB, namesB := schemaFields(b)
	if fieldsA == nil || fieldsB == nil {
		if len(a) != len(b) {
			report(path, a, b)
			return
		}
		for i := range a {
			differValue(fmt.Sprintf("%s[%d]", path, i), a[i], b[i], report)
		}
		return
	}
	differObject(strings.TrimSuffix(path, ".fields")+"/", fieldsA, fieldsB, report)
	common := func(list, other []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(n string) bool { return !slices.Contains(other, n) })
	}
	if x, y := common(namesA, namesB), common(namesB, namesA); !slices.Equal(x, y) {
		report(path+" (order)", x, y)
	}
}

// schemaFields are a schema's fields by their names; nil when the list is none of fields.
func schemaFields(list []any) (object, []string) {
	fields := object{}
	var names []string
	for _, f := range list {
		o, ok := f.(object)
		name, named := field(o, "field").(string)
		if !ok || !named {
			return nil, nil
		}
		fields[name] = o
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, nil
	}
	return fields, names
}

// same compares scalars; numbers by their value.
func same(a, b any) bool {
	x, xNumber := a.(json.Number)
	y, yNumber := b.(json.Number)
	if !xNumber || !yNumber {
		return !isContainer(a) && !isContainer(b) && a == b
	}
	if x == y {
		return true
	}
	const longest = 1500 // of 1.7976931348623157E308, and of digits
	if len(x) > longest || len(y) > longest {
		return false
	}
	p, okP := new(big.Rat).SetString(string(x))
	q, okQ := new(big.Rat).SetString(string(y))
	return okP && okQ && p.Cmp(q) == 0
}

func isContainer(v any) bool {
	switch v.(type) {
	case object, []any:
		return true
	}
	return false
}
