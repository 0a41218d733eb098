package schema

import (
	"encoding/hex"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// constant is a default in the canonical text of its type. What the server computes, and what stands there in a form that is not surely
// understood, is computed.
func constant(c ddl.Column) (text *string, computed bool) {
	if c.AutoIncrement {
		return nil, true
	}
	if c.Default == nil {
		return nil, false
	}
	if c.DefaultExpr {
		return nil, true
	}
	s, ok := canonical(c, *c.Default)
	if !ok {
		return nil, true
	}
	return &s, false
}

func canonical(c ddl.Column, s string) (string, bool) {
	switch c.Type {
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		return integer(s, c.Unsigned)
	case "decimal":
		return decimal(s, c.Scale)
	case "float", "double":
		return float(c, s)
	case "bit":
		return bits(s, c.Length)
	case "year":
		n, err := strconv.Atoi(s)
		return s, err == nil && n >= 1901 && n <= 2155
	case "date":
		return s, dateText().MatchString(s)
	case "datetime":
		if dateText().MatchString(s) {
			s += " 00:00:00"
		}
		return seconds(dateTimeText(), s, c.Length)
	case "timestamp":
		if s != "0000-00-00 00:00:00" && !strings.HasPrefix(s, "0000-00-00 00:00:00.") {
			return "", false // it is in the time zone of a session
		}
		return seconds(dateTimeText(), s, c.Length)
	case "time":
		return seconds(timeText(), s, c.Length)
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		if literal(s) {
			return "", false
		}
		if c.Type == "char" {
			s = strings.TrimRight(s, " ")
		}
		return s, true
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return binaryString(c, s)
	case "enum":
		return s, slices.Contains(c.Values, s)
	case "set":
		return set(c.Values, s)
	}
	return "", false
}

// literal says whether a string could be a number or string of another notation, whose quotes the description does not keep.
func literal(s string) bool {
	return len(s) > 1 && (strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0b") || s[1] == '\'' && strings.ContainsRune("xXbBnN", rune(s[0])))
}

func integer(s string, unsigned bool) (string, bool) {
	if unsigned {
		n, err := strconv.ParseUint(s, 10, 64)
		return strconv.FormatUint(n, 10), err == nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return strconv.FormatInt(n, 10), err == nil
}

func decimal(s string, scale int) (string, bool) {
	digits, sign := s, ""
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		digits, sign = rest, "-"
	}
	whole, frac, _ := strings.Cut(digits, ".")
	if strings.Trim(whole+frac, "0123456789") != "" || whole+frac == "" {
		return "", false
	}
	if len(frac) > scale {
		if strings.Trim(frac[scale:], "0") != "" {
			return "", false
		}
		frac = frac[:scale]
	}
	frac += strings.Repeat("0", scale-len(frac))
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if strings.Trim(whole+frac, "0") == "" {
		sign = ""
	}
	if frac != "" {
		frac = "." + frac
	}
	return sign + whole + frac, true
}

// float takes what the canonical text writes without an exponent.
func float(c ddl.Column, s string) (string, bool) {
	size := 64
	if c.Type == "float" {
		size = 32
	}
	f, err := strconv.ParseFloat(s, size)
	if a := math.Abs(f); err != nil || c.Scale >= 0 || a >= 1e21 || a < 1e-6 && f != 0 || strings.ContainsAny(s, "xXpP_iInN") {
		return "", false
	}
	if f == 0 {
		f = 0 // without a sign
	}
	return strconv.FormatFloat(f, 'f', -1, size), true
}

func bits(s string, n int) (string, bool) {
	digits := ""
	switch {
	case strings.HasPrefix(s, "b'"), strings.HasPrefix(s, "B'"):
		digits = strings.TrimSuffix(s[2:], "'")
	case strings.HasPrefix(s, "0b"):
		digits = s[2:]
	default:
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return "", false
		}
		digits = strconv.FormatUint(v, 2)
	}
	digits = strings.TrimLeft(digits, "0")
	if len(digits) > n || strings.Trim(digits, "01") != "" {
		return "", false
	}
	return strings.Repeat("0", n-len(digits)) + digits, true
}

func dateText() *regexp.Regexp { return regexp.MustCompile(`^\d{4}-\d\d-\d\d$`) }

func dateTimeText() *regexp.Regexp {
	return regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?$`)
}

func timeText() *regexp.Regexp { return regexp.MustCompile(`^-?\d{2,3}:\d\d:\d\d(\.\d+)?$`) }

// seconds gives a time exactly its fraction digits.
func seconds(form *regexp.Regexp, s string, digits int) (string, bool) {
	if !form.MatchString(s) {
		return "", false
	}
	whole, frac, _ := strings.Cut(s, ".")
	digits = max(digits, 0)
	if len(frac) > digits {
		if strings.Trim(frac[digits:], "0") != "" {
			return "", false
		}
		frac = frac[:digits]
	}
	if frac += strings.Repeat("0", digits-len(frac)); frac != "" {
		return whole + "." + frac, true
	}
	return whole, true
}

func binaryString(c ddl.Column, s string) (string, bool) {
	value := []byte(s)
	if literal(s) {
		digits, ok := strings.CutPrefix(s, "0x")
		if !ok {
			digits = strings.TrimSuffix(s[2:], "'")
		}
		var err error
		if value, err = hex.DecodeString(digits); err != nil || s[0] != '0' && s[0] != 'x' && s[0] != 'X' {
			return "", false
		}
	}
	if c.Type == "binary" {
		if len(value) > c.Length {
			return "", false
		}
		value = append(value, make([]byte, c.Length-len(value))...)
	}
	return `\x` + hex.EncodeToString(value), true
}

func set(labels []string, s string) (string, bool) {
	if s == "" {
		return "", true
	}
	next := 0
	for part := range strings.SplitSeq(s, ",") {
		i := slices.Index(labels[next:], part)
		if i < 0 {
			return "", false
		}
		next += i + 1
	}
	return s, true
}
