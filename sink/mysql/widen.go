package mysql

import (
	"slices"
	"strings"
)

// Capacities of texts and blobs, in bytes.
func capacity(name string) int {
	switch strings.TrimSuffix(strings.TrimSuffix(name, "text"), "blob") {
	case "tiny":
		return 255
	case "":
		return 65535
	case "medium":
		return 1<<24 - 1
	case "long":
		return 1<<32 - 1
	}
	return 0
}

// bits of the whole numbers; 0: another type.
func bits(name string) int {
	switch name {
	case "tinyint":
		return 8
	case "smallint":
		return 16
	case "mediumint":
		return 24
	case "int":
		return 32
	case "bigint":
		return 64
	}
	return 0
}

// widens tells that every value of one type is one of the other with the same text, so that changing a column's type loses nothing.
func widens(a, b kindOf) bool {
	if a.textual() != b.textual() {
		return false
	}
	if a.textual() && a.charset != b.charset && b.charset != "utf8mb4" {
		return false
	}
	x, y := a.numbers(), b.numbers()
	switch {
	case a.name == b.name && a.args == b.args && a.unsigned == b.unsigned:
		return true
	case bits(a.name) > 0 && bits(b.name) > 0:
		return bits(a.name) <= bits(b.name) && a.unsigned == b.unsigned || a.unsigned && bits(a.name) < bits(b.name)
	case a.name == "decimal" && b.name == "decimal" && len(x) == 2 && len(y) == 2:
		return y[0]-y[1] >= x[0]-x[1] && y[1] >= x[1] && (a.unsigned == b.unsigned || a.unsigned)
	case a.name == "float" && b.name == "double":
		return a.unsigned == b.unsigned || a.unsigned
	case a.name == "enum" && b.name == "enum", a.name == "set" && b.name == "set":
		return labelsWiden(labelsOf("("+a.args), labelsOf("("+b.args), a.name == "set")
	case a.name == "date" && b.name == "datetime":
		return true
	}
	switch a.name {
	case "datetime", "timestamp", "time", "bit":
		return a.name == b.name && len(x) == 1 && len(y) == 1 && x[0] <= y[0]
	}
	return stringWidens(a, b, x, y)
}

// labelsWiden: the text of a SET is in the order of its labels.
func labelsWiden(a, b []string, ordered bool) bool {
	at := -1
	for _, l := range a {
		i := slices.Index(b, l)
		if i < 0 || ordered && i < at {
			return false
		}
		at = i
	}
	return true
}

// stringWidens compares character and binary strings. BINARY has bytes of its own at the end, and CHAR loses spaces there.
func stringWidens(a, b kindOf, x, y []int) bool {
	suffix, fixed, variable, width := "text", "char", "varchar", 4
	if strings.HasSuffix(a.name, "blob") || strings.HasSuffix(a.name, "binary") {
		suffix, fixed, variable, width = "blob", "binary", "varbinary", 1
	}
	switch {
	case a.name == fixed && b.name == fixed:
		return suffix == "text" && len(x) == 1 && len(y) == 1 && x[0] <= y[0]
	case (a.name == fixed || a.name == variable) && b.name == variable:
		return len(x) == 1 && len(y) == 1 && x[0] <= y[0]
	case (a.name == fixed || a.name == variable) && strings.HasSuffix(b.name, suffix):
		return len(x) == 1 && x[0]*width <= capacity(b.name)
	case strings.HasSuffix(a.name, suffix) && strings.HasSuffix(b.name, suffix):
		return capacity(a.name) <= capacity(b.name)
	}
	return false
}
