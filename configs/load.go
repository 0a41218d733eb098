package configs

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

const maxFileBytes = 4 << 20

// Load reads and checks a file. The error, when it is about the file's content, is Problems: all of them; the
// configuration then holds what could be read, for those who need a part of it.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, Problems{{File: path, What: "no such file", Remedy: "name an existing file with -c; configs/broker.yaml serves Kafka clients alone, configs/minimal.yaml captures a database too"}}
		}
		return nil, Problems{{File: path, What: "cannot be read: " + err.Error(), Remedy: "make it readable for this user"}}
	}
	return Parse(path, data, OS())
}

// Default is the configuration of an empty file.
func Default() (*Config, error) { return Parse("defaults", nil, OS()) }

// Parse checks the content of a file; name is what problems call it.
func Parse(name string, data []byte, env Environment) (*Config, error) {
	cfg := &Config{file: name}
	if err := setDefaults(reflect.ValueOf(cfg).Elem()); err != nil {
		return nil, fmt.Errorf("set defaults: %w", err)
	}
	d := &decoder{file: name, env: env, lines: map[string]int{}, anchors: map[string]ast.Node{}}
	body, ok := d.parse(data)
	if body != nil {
		d.value(body, "", reflect.ValueOf(cfg).Elem(), "")
	}
	cfg.lines = d.lines
	if ok {
		d.problems = append(d.problems, cfg.validate(d.problems)...)
	}
	if len(d.problems) > 0 {
		return cfg, d.problems.sorted()
	}
	return cfg, nil
}

// parse returns the body of the file's single document, nil when that is empty; ok is false when it is not YAML.
func (d *decoder) parse(data []byte) (body ast.Node, ok bool) {
	if len(data) > maxFileBytes {
		d.problem(0, "", fmt.Sprintf("has %d bytes", len(data)), fmt.Sprintf("keep it under %d", maxFileBytes))
		return nil, false
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		line, what := 0, err.Error()
		if syntax := (*yaml.SyntaxError)(nil); errors.As(err, &syntax) {
			line, what = syntax.Token.Position.Line, syntax.Message // never the source text, which may hold a secret
		}
		d.problem(line, "", "is not YAML here: "+what, "check indentation, quotes and brackets on this line and the one above")
		return nil, false
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			d.problem(lineOf(doc.Body), "", "holds a second document", "put everything into one, without ---")
			continue
		}
		body = doc.Body
	}
	return body, true
}

// Line is where a key stands in the file; 0 when it is not given. A path is written as problems write it.
func (c *Config) Line(path string) int { return c.lines[path] }

// File is the file's name as it was given.
func (c *Config) File() string { return c.file }

// LoadListen reads the listen section alone, for a client that looks for the node: problems elsewhere in the file, such as
// an environment variable that only the node has, do not matter to it.
func LoadListen(path string) (Listen, error) {
	cfg, err := loadPart(path, "listen", "listen.sasl.users")
	if err != nil {
		return Listen{}, err
	}
	return cfg.Listen, nil
}

// LoadKafka reads which cluster holds the log, likewise.
func LoadKafka(path string) (Kafka, error) {
	cfg, err := loadPart(path, "log.kafka", "log.kafka.sasl.password")
	if err != nil {
		return Kafka{}, err
	}
	return cfg.Log.Kafka, nil
}

// loadPart reads a file of which a client needs one section. It may log in as another user, so it need not be able to read what
// begins with own.
func loadPart(path, section, own string) (*Config, error) {
	cfg, err := Load(path)
	if err == nil {
		return cfg, nil
	}
	var problems, ours Problems
	if !errors.As(err, &problems) || cfg == nil {
		return nil, err
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Key, own) {
			continue
		}
		if p.Key == "" || p.Key == section || strings.HasPrefix(p.Key, section+".") {
			ours = append(ours, p)
		}
	}
	if len(ours) > 0 {
		return nil, ours
	}
	return cfg, nil
}
