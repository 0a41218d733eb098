package postgres

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// kindOf is a type as format_type prints it, taken apart: varchar(20)[] is character varying, 20, an array.
type kindOf struct {
	name  string
	args  []int
	array bool
}

var kindPattern = regexp.MustCompile(`^([a-z ]+?) ?(?:\((\d+)(?:,(-?\d+))?\))?( with time zone| without time zone)?(\[\])?$`)

func parseKind(text string) (kindOf, bool) {
	m := kindPattern.FindStringSubmatch(text)
	if m == nil {
		return kindOf{}, false
	}
	k := kindOf{name: m[1] + m[4], array: m[5] != ""}
	for _, arg := range m[2:4] {
		if arg == "" {
			continue
		}
		n, err := strconv.Atoi(arg)
		if err != nil {
			return kindOf{}, false
		}
		k.args = append(k.args, n)
	}
	return k, true
}

// wider lists the types, without modifiers, that hold every value of a type unchanged.
func wider(name string) []string {
	switch name {
	case "smallint":
		return []string{"integer", "bigint", "real", "double precision"}
	case "integer":
		return []string{"bigint", "double precision"}
	case "real":
		return []string{"double precision"}
	case "date":
		return []string{"timestamp without time zone"}
	case "cidr":
		return []string{"inet"}
	case "character varying":
		return []string{"text"}
	}
	return nil
}

// digits are those of the whole numbers, which numeric has to hold before the point; 0: another type.
func digits(name string) int {
	switch name {
	case "smallint":
		return 5
	case "integer":
		return 10
	case "bigint":
		return 19
	}
	return 0
}

// widens tells that every value of one type is one of the other, so that changing a column's type loses nothing.
func widens(from, to string) bool {
	a, ok := parseKind(from)
	b, fine := parseKind(to)
	switch {
	case from == to:
		return true
	case !ok || !fine || a.array != b.array:
		return false
	case a.name == b.name:
		return grows(a, b)
	case b.name == "character varying" && a.name == "text":
		return len(b.args) == 0
	case b.name == "numeric" && digits(a.name) > 0:
		return len(b.args) == 0 || b.whole() >= digits(a.name) && b.scale() >= 0
	}
	return len(b.args) == 0 && slices.Contains(wider(a.name), b.name)
}

func (k kindOf) scale() int {
	if len(k.args) < 2 {
		return 0
	}
	return k.args[1]
}

func (k kindOf) whole() int { return k.args[0] - k.scale() }

// grows compares the modifiers of one type; without one there is no limit, but for character and bit, where it is 1.
func grows(a, b kindOf) bool {
	switch a.name {
	case "numeric":
		return len(b.args) == 0 || len(a.args) > 0 && b.whole() >= a.whole() && b.scale() >= a.scale()
	case "character varying", "bit varying", "timestamp without time zone", "timestamp with time zone", "time without time zone", "time with time zone", "interval":
		return len(b.args) == 0 || len(a.args) > 0 && b.args[0] >= a.args[0]
	}
	return false
}

// addition is a new column of a table that has rows. What these hold at the source becomes a default for the moment (P20).
func addition(definition string, missing *string) string {
	if missing == nil {
		return definition
	}
	return definition + " DEFAULT " + literal(*missing)
}

// dropDefaults takes the defaults of new columns away again: the source's may be another one by now, and every row has a value.
func dropDefaults(name tableName, columns []string) string {
	for i, c := range columns {
		columns[i] = "ALTER COLUMN " + quote(c) + " DROP DEFAULT"
	}
	return "ALTER TABLE " + name.String() + " " + strings.Join(columns, ", ")
}
