package configs

import "reflect"

// Field describes one key of the file, for the reference and the JSON schema.
type Field struct {
	Path     string // dotted; a list's entries are written name[]
	Section  string // path of the section or of the list's entry that holds it
	Key      string // within Section
	Kind     string // section, list, properties, text, texts, secret, boolean, number, ratio, size, duration, millis, address
	Default  string
	Doc      string
	Min, Max string
	Enum     string
	Required bool
}

// Fields lists every key of the file, in the file's order, sections before their keys.
func Fields() []Field { return fieldsOf("", reflect.TypeFor[Config](), nil) }

func fieldsOf(path string, t reflect.Type, out []Field) []Field {
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("key")
		if key == "" {
			continue
		}
		field := Field{
			Path: join(path, key), Section: path, Key: key, Kind: kindName(f.Type), Default: f.Tag.Get("default"), Doc: f.Tag.Get("doc"),
			Min: f.Tag.Get("min"), Max: f.Tag.Get("max"), Enum: f.Tag.Get("enum"), Required: f.Tag.Get("required") != "",
		}
		out = append(out, field)
		switch field.Kind {
		case "section":
			out = fieldsOf(field.Path, f.Type, out)
		case "list":
			out = fieldsOf(field.Path+"[]", f.Type.Elem(), out)
		}
	}
	return out
}

func kindName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Size]():
		return "size"
	case reflect.TypeFor[Duration]():
		return "duration"
	case reflect.TypeFor[Millis]():
		return "millis"
	case reflect.TypeFor[Ratio]():
		return "ratio"
	case reflect.TypeFor[Address]():
		return "address"
	case reflect.TypeFor[Properties]():
		return "properties"
	case reflect.TypeFor[Secret]():
		return "secret"
	}
	switch t.Kind() {
	case reflect.Struct:
		return "section"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return "texts"
		}
		return "list"
	case reflect.Bool:
		return "boolean"
	case reflect.Int32:
		return "number"
	default:
		return "text"
	}
}

// setDefaults fills a section from its default tags. A default that does not parse is a defect of this package,
// which TestDefaults would have caught.
func setDefaults(v reflect.Value) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Tag.Get("key") == "" {
			continue
		}
		if kindName(f.Type) == "section" {
			if err := setDefaults(v.Field(i)); err != nil {
				return err
			}
			continue
		}
		if text, ok := f.Tag.Lookup("default"); ok {
			if err := setScalar(v.Field(i), text, f.Tag); err != nil {
				return err
			}
		}
	}
	return nil
}
