package configs

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// decoder fills a Config from a parsed file. It goes on after an error, so that one run reports everything.
type decoder struct {
	file     string
	env      Environment
	problems Problems
	lines    map[string]int      // path -> line of its key
	anchors  map[string]ast.Node // &name -> value
	depth    int
}

const maxDepth = 32

func (d *decoder) problem(line int, key, what, remedy string) {
	d.problems = append(d.problems, &Problem{File: d.file, Line: line, Key: key, What: what, Remedy: remedy})
}

// value decodes node into target, which path names.
func (d *decoder) value(node ast.Node, path string, target reflect.Value, field reflect.StructTag) {
	node, ok := d.resolve(node, path)
	if !ok {
		return
	}
	d.depth++
	defer func() { d.depth-- }()
	if d.depth > maxDepth {
		d.problem(lineOf(node), path, "nested too deeply", "flatten it")
		return
	}
	switch p := target.Addr().Interface().(type) {
	case *Properties:
		d.properties(node, path, p)
		return
	case scalar:
		d.scalar(node, path, target, field)
		return
	}
	switch target.Kind() {
	case reflect.Struct:
		d.mapping(node, path, target)
	case reflect.Slice:
		d.list(node, path, target, field)
	default:
		d.scalar(node, path, target, field)
	}
}

// resolve follows anchors, aliases and tags to the node that holds the value.
func (d *decoder) resolve(node ast.Node, path string) (ast.Node, bool) {
	for range maxDepth {
		switch n := node.(type) {
		case *ast.AnchorNode:
			d.anchors[n.Name.GetToken().Value] = n.Value
			node = n.Value
		case *ast.AliasNode:
			name := n.Value.GetToken().Value
			target, ok := d.anchors[name]
			if !ok {
				d.problem(lineOf(n), path, fmt.Sprintf("alias *%s has no anchor above it", name), fmt.Sprintf("define &%s first", name))
				return nil, false
			}
			node = target
		case *ast.TagNode:
			node = n.Value
		default:
			return node, true
		}
	}
	d.problem(lineOf(node), path, "alias refers to itself", "write the value out")
	return nil, false
}

// mapping decodes a section; keys that its type does not have are problems.
func (d *decoder) mapping(node ast.Node, path string, target reflect.Value) {
	if node == nil || node.Type() == ast.NullType {
		return // a section whose keys are all commented out
	}
	entries, ok := entriesOf(node)
	if !ok {
		d.problem(lineOf(node), path, "is "+kindOf(node)+", but has keys of its own", "write key: value lines, indented below it")
		return
	}
	fields := map[string]int{}
	var known []string
	for i := range target.NumField() {
		if key := target.Type().Field(i).Tag.Get("key"); key != "" {
			fields[key] = i
			known = append(known, key)
		}
	}
	seen := map[string]int{}
	for _, entry := range entries {
		key, line := entry.Key.GetToken().Value, entry.Key.GetToken().Position.Line
		full := join(path, key)
		if first, dup := seen[key]; dup {
			d.problem(line, full, fmt.Sprintf("is given twice, first on line %d", first), "keep one of them")
			continue
		}
		seen[key] = line
		index, ok := fields[key]
		if !ok {
			d.unknown(line, full, path, key, known)
			continue
		}
		d.lines[full] = line
		field := target.Type().Field(index)
		d.value(entry.Value, full, target.Field(index), field.Tag)
	}
	for _, key := range known {
		field, _ := target.Type().FieldByName(target.Type().Field(fields[key]).Name)
		if _, given := seen[key]; !given && field.Tag.Get("required") != "" {
			d.problem(lineOf(node), join(path, key), "is missing", "add it: "+field.Tag.Get("doc"))
		}
	}
}

func (d *decoder) unknown(line int, full, path, key string, known []string) {
	if _, merge := strings.CutPrefix(key, "<<"); merge {
		d.problem(line, full, "merge keys are not supported", "use an alias (key: *name) for a whole value")
		return
	}
	if s := suggest(key, known); s != "" {
		d.problem(line, full, "unknown key", fmt.Sprintf("did you mean %s?", join(path, s)))
		return
	}
	for _, f := range Fields() {
		if f.Path == key || strings.HasSuffix(f.Path, "."+key) {
			d.problem(line, full, "unknown key", fmt.Sprintf("did you mean %s?", f.Path))
			return
		}
	}
	where := "at the top level"
	if path != "" {
		where = "under " + path
	}
	d.problem(line, full, "unknown key", fmt.Sprintf("remove it; the keys %s are %s", where, strings.Join(known, ", ")))
}

func (d *decoder) list(node ast.Node, path string, target reflect.Value, field reflect.StructTag) {
	if node == nil || node.Type() == ast.NullType {
		return
	}
	element := target.Type().Elem()
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		if _, isMap := entriesOf(node); element.Kind() == reflect.String && !isMap {
			target.Set(reflect.MakeSlice(target.Type(), 1, 1)) // one name stands for a list of one
			d.scalar(node, path, target.Index(0), field)
			return
		}
		d.problem(lineOf(node), path, "is "+kindOf(node)+", not a list", "start each entry with a dash (- )")
		return
	}
	target.Set(reflect.MakeSlice(target.Type(), len(seq.Values), len(seq.Values)))
	for i, item := range seq.Values {
		full := fmt.Sprintf("%s[%d]", path, i)
		d.lines[full] = lineOf(item)
		if element.Kind() == reflect.Struct && (item == nil || item.Type() == ast.NullType) {
			d.problem(lineOf(item), full, "is empty", "fill it in, or remove the dash")
			continue
		}
		d.value(item, full, target.Index(i), field)
	}
}

// properties decodes a flat map of settings; numbers, booleans and lists become the text that Debezium would read.
func (d *decoder) properties(node ast.Node, path string, target *Properties) {
	target.values, target.lines = map[string]string{}, map[string]int{}
	if node == nil || node.Type() == ast.NullType {
		return
	}
	entries, ok := entriesOf(node)
	if !ok {
		d.problem(lineOf(node), path, "is "+kindOf(node)+", not a map of properties", "write name: value lines, indented below it")
		return
	}
	for _, entry := range entries {
		name, line := entry.Key.GetToken().Value, entry.Key.GetToken().Position.Line
		full := join(path, name)
		if first, dup := target.lines[name]; dup {
			d.problem(line, full, fmt.Sprintf("is given twice, first on line %d", first), "keep one of them")
			continue
		}
		target.lines[name] = line
		value, ok := d.resolve(entry.Value, full)
		if !ok {
			continue
		}
		text, ok := d.propertyText(value, full, carriesSecret(name))
		if ok {
			target.values[name] = text
		}
	}
}

func (d *decoder) propertyText(node ast.Node, path string, secret bool) (string, bool) {
	if seq, ok := node.(*ast.SequenceNode); ok {
		parts := make([]string, 0, len(seq.Values))
		for _, item := range seq.Values {
			if _, nested := entriesOf(item); nested {
				d.problem(lineOf(item), path, "is a list of maps", "write a list of plain values")
				return "", false
			}
			part, ok := d.text(item, path, secret)
			if !ok {
				return "", false
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, ","), true
	}
	if _, nested := entriesOf(node); nested {
		d.problem(lineOf(node), path, "is a map, but properties are flat", "write the whole dotted name on one line, as "+path[strings.LastIndexByte(path, '.')+1:]+".NAME: value")
		return "", false
	}
	return d.text(node, path, secret)
}

// text is a scalar as it is written, with references expanded.
func (d *decoder) text(node ast.Node, path string, secret bool) (string, bool) {
	if node == nil || node.Type() == ast.NullType {
		d.problem(lineOf(node), path, "has no value", `give it one, remove the key, or write "" for the empty text`)
		return "", false
	}
	var raw string
	switch n := node.(type) {
	case *ast.LiteralNode:
		raw = n.Value.GetToken().Value
	case ast.ScalarNode:
		raw = n.GetToken().Value
	default:
		d.problem(lineOf(node), path, "is "+kindOf(node)+", not a plain value", "write one value after the colon")
		return "", false
	}
	text, err := d.env.expand(raw)
	if file, ok := strings.CutPrefix(text, "file:"); ok && err == nil && secret {
		text, err = d.env.file(file)
	}
	if err != nil {
		what, remedy, _ := strings.Cut(err.Error(), "; ")
		d.problem(lineOf(node), path, what, remedy)
		return "", false
	}
	return text, true
}

func (d *decoder) scalar(node ast.Node, path string, target reflect.Value, field reflect.StructTag) {
	_, secret := target.Addr().Interface().(*Secret)
	text, ok := d.text(node, path, secret)
	if !ok {
		return
	}
	if err := setScalar(target, text, field); err != nil {
		what, remedy, _ := strings.Cut(err.Error(), "; ")
		d.problem(lineOf(node), path, what, remedy)
	}
}

// setScalar parses text into target and checks it against the tags. Errors read "what; remedy".
func setScalar(target reflect.Value, text string, field reflect.StructTag) error {
	var number int64
	var numeric bool
	if s, ok := target.Addr().Interface().(scalar); ok {
		if err := s.parse(text); err != nil {
			return err
		}
		number, numeric = s.number()
	} else {
		switch target.Kind() {
		case reflect.String:
			target.SetString(text)
		case reflect.Bool:
			v, err := strconv.ParseBool(strings.ToLower(text))
			if err != nil {
				return fmt.Errorf("%q is neither true nor false; write true or false", text)
			}
			target.SetBool(v)
		case reflect.Int32:
			v, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
			if err != nil || v > math.MaxInt32 || v < math.MinInt32 {
				return fmt.Errorf("%q is not a whole number; write one", text)
			}
			target.SetInt(v)
			number, numeric = v, true
		default:
			return fmt.Errorf("type %s has no notation; this is a defect", target.Type())
		}
	}
	if numeric {
		return checkRange(target, number, text, field)
	}
	if enum := field.Get("enum"); enum != "" {
		allowed := strings.Split(enum, ",")
		for _, a := range allowed {
			if a == text {
				return nil
			}
		}
		remedy := "write one of " + strings.Join(allowed, ", ")
		if s := suggest(text, allowed); s != "" {
			remedy = fmt.Sprintf("did you mean %s?", s)
		}
		return fmt.Errorf("%q is not known; %s", text, remedy)
	}
	return nil
}

// checkRange compares with the min and max tags, which are in the value's own notation.
func checkRange(target reflect.Value, number int64, text string, field reflect.StructTag) error {
	for _, bound := range []struct {
		tag, word string
		outside   func(limit int64) bool
	}{
		{"min", "at least", func(limit int64) bool { return number < limit }},
		{"max", "at most", func(limit int64) bool { return number > limit }},
	} {
		limit, err := strconv.ParseInt(field.Get(bound.tag), 10, 64)
		if err == nil && bound.outside(limit) {
			return fmt.Errorf("%s is out of range; write %s %s", text, bound.word, notation(target.Type(), limit))
		}
	}
	return nil
}

// notation writes a number as the file's value of type t.
func notation(t reflect.Type, n int64) string {
	v := reflect.New(t).Elem()
	v.SetInt(n)
	return fmt.Sprint(v.Interface())
}

func entriesOf(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// lineOf is where a node's text starts: a mapping's token is the colon of its first key, and a flow mapping's its brace.
func lineOf(node ast.Node) int {
	if node == nil {
		return 0
	}
	if token := node.GetToken(); token != nil {
		return token.Position.Line
	}
	return 0
}

func kindOf(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a map"
	case *ast.SequenceNode:
		return "a list"
	}
	return "a single value"
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
