package configs

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Reference is the tables of docs/configuration.md: every key by section, and the properties.
func Reference() string {
	var b strings.Builder
	header := "\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n"
	for _, f := range Fields() {
		if f.Kind == "section" || f.Kind == "list" {
			fmt.Fprintf(&b, "\n### `%s`\n\n%s\n%s", f.Path, f.Doc, header)
			continue
		}
		standard := "`" + f.Default + "`"
		switch {
		case f.Required:
			standard = "required"
		case f.Default == "":
			standard = "empty"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Key, f.accepts(), standard, f.Doc)
	}
	b.WriteString(propertyTable("Properties of a `postgres` connector", ConnectorProperties()))
	b.WriteString(propertyTable("Properties of a `mysql` or `mariadb` connector", BinlogProperties()))
	b.WriteString(propertyTable("Properties of a `postgres` sink", SinkProperties()))
	b.WriteString(propertyTable("Properties of a `mysql` sink", MySQLSinkProperties()))
	return strings.TrimLeft(b.String(), "\n")
}

// accepts says in words what a key takes.
func (f Field) accepts() string {
	words := map[string]string{
		"size": "bytes or a unit (128MiB)", "duration": "time span (30s, 1h30m, 7d)", "millis": "milliseconds or time span",
		"address": "host:port", "properties": "map of properties", "texts": "list of text, or one", "boolean": "true or false",
		"number": "whole number", "ratio": "number", "text": "text", "secret": "secret",
	}[f.Kind]
	if f.Enum != "" {
		words = strings.ReplaceAll(f.Enum, ",", ", ")
	}
	switch {
	case f.Min != "" && f.Max != "":
		return fmt.Sprintf("%s, %s to %s", words, f.Min, f.Max)
	case f.Min != "" && f.Min != "0":
		return fmt.Sprintf("%s, at least %s", words, f.Min)
	}
	return words
}

// JSONSchema describes the file for editors (draft 2020-12).
func JSONSchema() ([]byte, error) {
	root := object("Rowtrail node", "Configuration of one Rowtrail node.")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	at := map[string]map[string]any{"": root} // path -> object that holds its keys
	for _, f := range Fields() {
		holder := at[f.Section]
		schema := f.schema()
		switch f.Kind {
		case "section":
			at[f.Path] = schema
		case "list":
			item := object("", "")
			schema["items"] = item
			at[f.Path+"[]"] = item
		}
		holder["properties"].(map[string]any)[f.Key] = schema
		if f.Required {
			required, _ := holder["required"].([]string)
			holder["required"] = append(required, f.Key)
		}
	}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode JSON schema: %w", err)
	}
	return append(out, '\n'), nil
}

func object(title, doc string) map[string]any {
	o := map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
	if title != "" {
		o["title"] = title
	}
	if doc != "" {
		o["description"] = doc
	}
	return o
}

// schema is one key's; every scalar may also be a text with a ${reference} in it.
func (f Field) schema() map[string]any {
	reference := map[string]any{"type": "string", "pattern": `\$\{`}
	s := map[string]any{"description": f.Doc}
	switch f.Kind {
	case "section":
		s = object("", f.Doc)
		s["type"] = []string{"object", "null"}
	case "list":
		s["type"] = []string{"array", "null"}
	case "properties":
		s["type"] = []string{"object", "null"}
		s["additionalProperties"] = map[string]any{"type": []string{"string", "number", "boolean", "array"}}
	case "texts":
		s["anyOf"] = []any{map[string]any{"type": "string"}, map[string]any{"type": "array", "items": map[string]any{"type": "string"}}}
	case "boolean":
		s["anyOf"] = []any{map[string]any{"type": "boolean"}, reference}
		s["default"] = f.Default == "true"
	case "number":
		n := map[string]any{"type": "integer"}
		if limit, err := strconv.Atoi(f.Min); err == nil {
			n["minimum"] = limit
		}
		if limit, err := strconv.Atoi(f.Max); err == nil {
			n["maximum"] = limit
		}
		s["anyOf"] = []any{n, reference}
		if standard, err := strconv.Atoi(f.Default); err == nil {
			s["default"] = standard
		}
	case "ratio":
		s["anyOf"] = []any{map[string]any{"type": "number", "minimum": 0, "maximum": 1}, reference}
		if standard, err := strconv.ParseFloat(f.Default, 64); err == nil {
			s["default"] = standard
		}
	case "size", "millis":
		s["type"] = []string{"integer", "string"}
		s["default"] = f.Default
	case "text":
		if f.Enum != "" {
			s["anyOf"] = []any{map[string]any{"enum": strings.Split(f.Enum, ",")}, reference}
		} else {
			s["type"] = []string{"string", "number"}
		}
		if !f.Required {
			s["default"] = f.Default
		}
	case "secret":
		s["type"] = []string{"string", "number"}
	default: // duration, address
		s["type"] = "string"
		s["default"] = f.Default
	}
	return s
}
