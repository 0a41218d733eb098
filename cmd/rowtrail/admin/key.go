package admin

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

var (
	errStop      = errors.New("stop")
	errKeySyntax = errors.New("key is not JSON")
	errKeyParts  = errors.New("key has several columns")
	// errKeyColumns: the key that was given has other columns than the topic's.
	errKeyColumns = errors.New("key has other columns")
)

// member is one field of a JSON object, in the object's order.
type member struct {
	name  string
	value json.RawMessage
}

// expandKey writes a key by the example of one of the topic; nil when there is none yet.
func expandKey(sample []byte, text string) ([]byte, error) {
	written := strings.TrimSpace(text)
	isObject := strings.HasPrefix(written, "{")
	shape, ok := members(sample)
	if !ok { // no key to learn from, or keys that are plain text
		if isObject && json.Valid([]byte(written)) {
			return compact([]byte(written)), nil
		}
		return []byte(text), nil
	}
	if payload, wrapped := payloadOf(shape); wrapped {
		inner, err := expandKey(payload, text)
		if err != nil {
			return nil, err
		}
		for i := range shape {
			if shape[i].name == "payload" {
				shape[i].value = inner
			}
		}
		return object(shape), nil
	}
	if isObject {
		given, ok := members([]byte(written))
		if !ok {
			return nil, fmt.Errorf("%w: %s", errKeySyntax, written)
		}
		if inOrder, ok := ordered(shape, given); ok {
			return object(inOrder), nil
		}
		return nil, fmt.Errorf("%w than %s: write %s", errKeyColumns, names(given), pattern(shape))
	}
	if len(shape) != 1 {
		return nil, fmt.Errorf("%w: write %s", errKeyParts, pattern(shape))
	}
	value := []byte(written)
	if shape[0].value[0] == '"' && !quoted(written) {
		value = []byte(quote(text))
	} else if !json.Valid(value) {
		value = []byte(quote(text))
	}
	return object([]member{{shape[0].name, value}}), nil
}

// shownKeys are the keys that an answer shows as this text, whatever the topic's other keys look like: plain text and a JSON string are both
// shown with quotes, and what is neither text nor JSON as {"base64": "..."}. Text without quotes may be a JSON string as well, and
// JSON may stand there without blanks.
func shownKeys(text string) [][]byte {
	written := strings.TrimSpace(text)
	var content string
	if strings.HasPrefix(written, `"`) && json.Unmarshal([]byte(written), &content) == nil {
		return [][]byte{[]byte(content), []byte(quote(content))}
	}
	if only, ok := members([]byte(written)); ok && len(only) == 1 && only[0].name == "base64" && json.Unmarshal(only[0].value, &content) == nil {
		if raw, err := base64.StdEncoding.DecodeString(content); err == nil {
			return [][]byte{raw}
		}
	}
	return [][]byte{[]byte(quote(text)), compact([]byte(written))}
}

// payloadOf finds the key itself inside the converter's {"schema":...,"payload":...}.
func payloadOf(shape []member) (json.RawMessage, bool) {
	if len(shape) != 2 {
		return nil, false
	}
	for i, m := range shape {
		if m.name == "payload" && shape[1-i].name == "schema" {
			return m.value, true
		}
	}
	return nil, false
}

// pattern shows what a key looks like.
func pattern(shape []member) string {
	parts := make([]string, len(shape))
	for i, m := range shape {
		parts[i] = fmt.Sprintf("%q: ...", m.name)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func names(fields []member) string {
	parts := make([]string, len(fields))
	for i, m := range fields {
		parts[i] = strconv.Quote(m.name)
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// ordered puts what was given into the order of shape; false when it has other fields.
func ordered(shape, given []member) ([]member, bool) {
	out := make([]member, 0, len(shape))
	for _, want := range shape {
		i := slices.IndexFunc(given, func(m member) bool { return m.name == want.name })
		if i < 0 {
			return nil, false
		}
		out = append(out, given[i])
	}
	return out, len(given) == len(shape)
}

// members reads a JSON object in order, its values compact.
func members(text []byte) ([]member, bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if t, err := decoder.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	var out []member
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			return nil, false
		}
		out = append(out, member{name.(string), compact(value)})
	}
	if _, err := decoder.Token(); err != nil || decoder.More() {
		return nil, false
	}
	return out, true
}

func object(fields []member) []byte {
	out := []byte{'{'}
	for i, m := range fields {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, quote(m.name)...)
		out = append(out, ':')
		out = append(out, m.value...)
	}
	return append(out, '}')
}

func compact(value []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, value) != nil {
		return value
	}
	return out.Bytes()
}

func quoted(text string) bool {
	_, err := strconv.Unquote(text)
	return err == nil && strings.HasPrefix(text, `"`)
}

// quote writes a JSON string without escaping <, > and &, as the encoder of keys does.
func quote(text string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(text) != nil {
		return strconv.Quote(text)
	}
	return strings.TrimSuffix(out.String(), "\n")
}
