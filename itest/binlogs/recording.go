package binlogs

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed testdata
var fixtures embed.FS

// maxLine bounds a line of a fixture: the hex of one event.
const maxLine = 4 << 20

// Recording is what a server wrote while it ran some statements.
type Recording struct {
	Flavour string   // mysql or mariadb
	Server  string   // as VERSION() has it
	Head    [][]byte // events before the first statement's
	Steps   []Step
}

// Step is one statement. Its events are packets without the byte that the protocol puts before them: header, body and,
// where the format description says so, checksum. What is written at COMMIT is of that step.
type Step struct {
	SQL    string
	Events [][]byte
	Tables []Table // those that are others than before the statement
}

// Table is what a table holds after a step.
type Table struct {
	Schema, Name string
	Dropped      bool
	Columns      []Column
	Rows         [][]*string // by Columns, NULL is nil; in no order
}

// Column as information_schema has it.
type Column struct {
	Name      string `json:"name"`
	Type      string `json:"type"`
	Charset   string `json:"charset,omitempty"`
	Collation string `json:"collation,omitempty"`
	Key       string `json:"key,omitempty"`
	Extra     string `json:"extra,omitempty"`
	Nullable  bool   `json:"nullable,omitempty"`
}

// line is one line of a fixture. Each kind of line belongs to the last one above that can hold it.
type line struct {
	Flavour string    `json:"flavour,omitempty"`
	Server  string    `json:"server,omitempty"`
	SQL     *string   `json:"sql,omitempty"`
	Event   string    `json:"event,omitempty"`
	Table   string    `json:"table,omitempty"` // schema.name
	Dropped bool      `json:"dropped,omitempty"`
	Columns []Column  `json:"columns,omitempty"`
	Row     []*string `json:"row,omitempty"`
}

// Marshal is a recording as text, one JSON object a line.
func (r *Recording) Marshal() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	var err error
	put := func(l line) { err = errors.Join(err, enc.Encode(l)) }
	put(line{Flavour: r.Flavour, Server: r.Server})
	for _, e := range r.Head {
		put(line{Event: hex.EncodeToString(e)})
	}
	for _, s := range r.Steps {
		put(line{SQL: &s.SQL})
		for _, e := range s.Events {
			put(line{Event: hex.EncodeToString(e)})
		}
		for _, t := range s.Tables {
			put(line{Table: t.Schema + "." + t.Name, Dropped: t.Dropped, Columns: t.Columns})
			for _, row := range t.Rows {
				put(line{Row: row})
			}
		}
	}
	return out.Bytes(), err
}

// Unmarshal reads what Marshal writes.
func Unmarshal(data []byte) (*Recording, error) {
	r := &Recording{}
	scan := bufio.NewScanner(bytes.NewReader(data))
	scan.Buffer(nil, maxLine)
	for n := 1; scan.Scan(); n++ {
		var l line
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if err := r.add(l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return r, scan.Err()
}

func (r *Recording) add(l line) error {
	if l.Flavour != "" {
		r.Flavour, r.Server = l.Flavour, l.Server
		return nil
	}
	if l.SQL != nil {
		r.Steps = append(r.Steps, Step{SQL: *l.SQL})
		return nil
	}
	if l.Event != "" {
		e, err := hex.DecodeString(l.Event)
		if err != nil {
			return err
		}
		if len(r.Steps) == 0 {
			r.Head = append(r.Head, e)
		} else {
			s := &r.Steps[len(r.Steps)-1]
			s.Events = append(s.Events, e)
		}
		return nil
	}
	if len(r.Steps) == 0 {
		return errors.New("a table before the first statement")
	}
	s := &r.Steps[len(r.Steps)-1]
	if l.Table != "" {
		schema, name, _ := strings.Cut(l.Table, ".")
		s.Tables = append(s.Tables, Table{Schema: schema, Name: name, Dropped: l.Dropped, Columns: l.Columns})
		return nil
	}
	if len(s.Tables) == 0 {
		return errors.New("a row before the first table")
	}
	t := &s.Tables[len(s.Tables)-1]
	t.Rows = append(t.Rows, l.Row)
	return nil
}

// Fixtures are the stored recordings by name: mysql-9.7/types.
func Fixtures() (map[string]*Recording, error) {
	all := map[string]*Recording{}
	err := fs.WalkDir(fixtures, "testdata", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".jsonl" {
			return err
		}
		data, err := fixtures.ReadFile(name)
		if err != nil {
			return err
		}
		r, err := Unmarshal(data)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all[strings.TrimSuffix(strings.TrimPrefix(name, "testdata/"), ".jsonl")] = r
		return nil
	})
	return all, err
}
