package mysql

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// MySQL reads a number in JSON text with a point, an exponent or too many digits as a double, while a JSON value can hold decimals of up to 65
// digits. A document with a number that a double does not keep as it is written is therefore made by functions, with decimals.

// appendJSON writes a value of a JSON column of MySQL.
func (c *boundColumn) appendJSON(dst, text []byte) ([]byte, error) {
	w := jsonWriter{text: text}
	decimals, err := w.decimals()
	switch {
	case err != nil:
		return dst, sink.Permanent(fmt.Errorf("column %s: %w", c.name, err))
	case !decimals:
		return appendLiteral(dst, text), nil
	}
	w.at = 0
	if dst, err = w.value(dst); err != nil {
		return dst, sink.Permanent(fmt.Errorf("column %s: %w", c.name, err))
	}
	return dst, nil
}

// maxJSONDepth is how deep the server nests.
const maxJSONDepth = 100

type jsonWriter struct {
	text  []byte
	at    int
	depth int
}

// decimals looks for a number that has to be a decimal. Text that is no JSON is the server's to refuse.
func (w *jsonWriter) decimals() (found bool, err error) {
	for w.at < len(w.text) {
		switch ch := w.text[w.at]; {
		case ch == '"':
			w.skipString()
		case ch == '-' || ch >= '0' && ch <= '9':
			decimal, err := decimalInJSON(w.token())
			if err != nil {
				return false, err
			}
			found = found || decimal
		default:
			w.at++
		}
	}
	return found, nil
}

// decimalInJSON tells whether MySQL would keep a number as another one, or with other digits, unless it is written as a decimal.
func decimalInJSON(number []byte) (bool, error) {
	if !json.Valid(number) { // the server refuses it
		return false, nil
	}
	if !bytes.ContainsAny(number, ".eE") {
		if _, err := strconv.ParseInt(string(number), 10, 64); err == nil {
			return false, nil
		}
		if _, err := strconv.ParseUint(string(number), 10, 64); err == nil {
			return false, nil
		}
	}
	f, err := strconv.ParseFloat(string(number), 64)
	if err == nil && bytes.Equal(event.AppendMySQLJSONDouble(nil, f), number) {
		return false, nil
	}
	if isNumber(number) && number[len(number)-1] != '.' {
		whole, fraction, _ := bytes.Cut(bytes.TrimPrefix(number, []byte("-")), []byte("."))
		if len(fraction) <= maxScale && len(bytes.TrimLeft(whole, "0"))+len(fraction) <= maxDecimal {
			return true, nil
		}
	}
	// An exponent, or more digits than a decimal has: the value has to be that of a double.
	exact, ok := new(big.Rat).SetString(string(number))
	if err != nil || !ok || math.IsInf(f, 0) || exact.Cmp(new(big.Rat).SetFloat64(f)) != 0 {
		return false, fmt.Errorf("the JSON number %.100s has more digits than MySQL keeps; create the column in the target as LONGTEXT", number)
	}
	return false, nil
}

// value writes the value that comes next.
func (w *jsonWriter) value(dst []byte) ([]byte, error) {
	w.space()
	if w.at >= len(w.text) {
		return dst, errNoJSON
	}
	switch w.text[w.at] {
	case '{':
		return w.list(append(dst, "JSON_OBJECT("...), '}')
	case '[':
		return w.list(append(dst, "JSON_ARRAY("...), ']')
	case '"':
		from := w.at
		w.skipString()
		return asJSON(dst, w.text[from:min(w.at, len(w.text))]), nil
	}
	token := w.token()
	if len(token) == 0 {
		return dst, errNoJSON
	}
	if decimal, err := decimalInJSON(token); err != nil || !decimal {
		return asJSON(dst, token), nil
	}
	whole, fraction, _ := bytes.Cut(bytes.TrimPrefix(token, []byte("-")), []byte("."))
	dst = append(append(dst, "CAST(CAST("...), token...)
	dst = strconv.AppendInt(append(dst, " AS DECIMAL("...), int64(max(1, len(bytes.TrimLeft(whole, "0"))+len(fraction))), 10)
	dst = strconv.AppendInt(append(dst, ','), int64(len(fraction)), 10)
	return append(dst, ")) AS JSON)"...), nil
}

var errNoJSON = errors.New("the value is no JSON")

func asJSON(dst, text []byte) []byte {
	return append(appendLiteral(append(dst, "CAST("...), text), " AS JSON)"...)
}

// list writes the members of an object or the elements of an array, and the end.
func (w *jsonWriter) list(dst []byte, end byte) ([]byte, error) {
	if w.depth++; w.depth > maxJSONDepth {
		return dst, fmt.Errorf("the value is JSON of more than %d levels", maxJSONDepth)
	}
	w.at++
	for n := 0; ; n++ {
		w.space()
		if w.at < len(w.text) && w.text[w.at] == end {
			w.at++
			w.depth--
			return append(dst, ')'), nil
		}
		if n > 0 {
			if w.at >= len(w.text) || w.text[w.at] != ',' {
				return dst, errNoJSON
			}
			w.at++
			dst = append(dst, ',')
		}
		var err error
		if end == '}' {
			if dst, err = w.name(dst); err != nil {
				return dst, err
			}
		}
		if dst, err = w.value(dst); err != nil {
			return dst, err
		}
	}
}

// name writes a member's name as text, and passes the colon.
func (w *jsonWriter) name(dst []byte) ([]byte, error) {
	w.space()
	from := w.at
	if from >= len(w.text) || w.text[from] != '"' {
		return dst, errNoJSON
	}
	w.skipString()
	dst = append(asJSON(append(dst, "JSON_UNQUOTE("...), w.text[from:min(w.at, len(w.text))]), "),"...)
	w.space()
	if w.at >= len(w.text) || w.text[w.at] != ':' {
		return dst, errNoJSON
	}
	w.at++
	return dst, nil
}

func (w *jsonWriter) space() {
	for w.at < len(w.text) && bytes.IndexByte([]byte(" \t\r\n"), w.text[w.at]) >= 0 {
		w.at++
	}
}

// skipString passes a string in quotes.
func (w *jsonWriter) skipString() {
	for w.at++; w.at < len(w.text); w.at++ {
		switch w.text[w.at] {
		case '\\':
			w.at++
		case '"':
			w.at++
			return
		}
	}
}

// token passes a number or a word.
func (w *jsonWriter) token() []byte {
	from := w.at
	for w.at < len(w.text) && bytes.IndexByte([]byte(" \t\r\n,:]}[{\""), w.text[w.at]) < 0 {
		w.at++
	}
	return w.text[from:w.at]
}
