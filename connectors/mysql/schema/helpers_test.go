package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// feed is a Book with the statements and table maps of a stream.
type feed struct {
	t     *testing.T
	b     *Book
	o     Options
	order uint64
	id    uint64
}

func newFeed(t *testing.T, o Options) *feed {
	if o.Version == 0 {
		o.Version = 90704
	}
	f := &feed{t: t, b: New(o), o: o}
	f.sql("CREATE DATABASE d")
	return f
}

func (f *feed) at() Place {
	f.order++
	return Place{Order: f.order, Text: fmt.Sprintf("u:%d", f.order)}
}

func statement(sql string) *binlog.Query {
	return &binlog.Query{Text: []byte(sql), Schema: []byte("d"), Charset: binlog.Charsets{Client: 45, Server: 45}}
}

func (f *feed) sql(statements ...string) (c Change) {
	for _, s := range statements {
		c = f.b.Statement(f.at(), statement(s))
	}
	return c
}

// mapped is the table map of a table that a statement makes.
func (f *feed) mapped(create string, full bool) *binlog.Table {
	f.t.Helper()
	o := ddl.Options{Flavour: f.o.Flavour, Version: f.o.Version, Database: "d"}
	e := ddl.Parse([]byte(create), o)
	table, err := ddl.Create(e, ddl.Database{Charset: "utf8mb4"})
	if err != nil {
		f.t.Fatalf("%s: %v", create, err)
	}
	f.id++
	m := &binlog.Table{ID: f.id, Schema: e.Tables[0].Database, Name: e.Tables[0].Table, Signed: true, Charsets: true, Named: full}
	for i, c := range table.Columns {
		m.Columns = append(m.Columns, f.wire(c, full))
		for _, k := range table.Primary {
			if full && k == c.Name {
				m.PrimaryKey = append(m.PrimaryKey, binlog.KeyPart{Column: i})
			}
		}
	}
	return m
}

func (f *feed) wire(c ddl.Column, full bool) binlog.WireColumn {
	f.t.Helper()
	w := binlog.WireColumn{Nullable: c.Nullable, Unsigned: c.Unsigned}
	collation := map[string]uint32{"utf8mb4": 45, "latin1": 8}[c.Charset]
	switch c.Type {
	case "int":
		w.Type = binlog.WireLong
	case "bigint":
		w.Type = binlog.WireLongLong
	case "varchar":
		w.Type, w.Meta, w.Collation = binlog.WireVarchar, uint16(c.Length*maxBytes(c.Charset)), collation
	case "varbinary":
		w.Type, w.Meta, w.Collation = binlog.WireVarchar, uint16(c.Length), 63
	case "binary", "uuid":
		w.Type, w.Meta, w.Collation = binlog.WireString, 16, 63
	case "text":
		w.Type, w.Meta, w.Collation = binlog.WireBlob, 2, collation
	case "enum":
		w.Type, w.Meta = binlog.WireEnum, 1
		if full {
			w.Labels, w.Collation = c.Values, collation
		}
	case "datetime":
		w.Type = binlog.WireDatetime
	default:
		f.t.Fatalf("no table map of %s", c.Type)
	}
	if full {
		w.Name, w.Invisible = c.Name, c.Invisible
	}
	return w
}

// answer is what the Book says of a table map, on one line.
func (f *feed) answer(m *binlog.Table) string {
	d, err := f.b.Table(f.at(), m)
	return described(d, err)
}

func described(d *Description, err error) string {
	var look *LookError
	var stop *Error
	switch {
	case errors.As(err, &look):
		return "look: " + look.Why
	case errors.As(err, &stop):
		return "error: " + stop.Reason + "; " + stop.Remedy
	case err != nil:
		return err.Error()
	}
	var out []string
	for _, c := range d.columns {
		s := c.Name + " " + c.Type
		if c.Key > 0 {
			s += fmt.Sprintf(" key %d", c.Key)
		}
		if c.Invisible {
			s += " invisible"
		}
		if c.Missing != nil {
			s += " default " + *c.Missing
		}
		out = append(out, s)
	}
	s := strings.Join(out, ", ")
	if !d.Whole {
		s += " (metadata)"
	}
	return s
}

// whole is all of an answer, for comparisons.
func whole(d *Description, err error) string {
	if err != nil {
		return described(d, err)
	}
	text, _ := json.Marshal(d.columns)
	return fmt.Sprintf("%s %v %v %v %s", text, d.bind, d.Whole, d.From, d.Comment)
}

func (f *feed) want(m *binlog.Table, want string) {
	f.t.Helper()
	if got := f.answer(m); got != want {
		f.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// catalog is a read that found the tables of these statements, and none of the names.
func (f *feed) catalog(ahead *Ahead, create []string, gone ...string) {
	f.t.Helper()
	c := newCatalog()
	for _, s := range create {
		e := ddl.Parse([]byte(s), ddl.Options{Flavour: f.o.Flavour, Version: f.o.Version, Database: "d"})
		table, err := ddl.Create(e, ddl.Database{Charset: "utf8mb4"})
		if err != nil {
			f.t.Fatal(err)
		}
		c.Names, c.Tables[e.Tables[0]] = append(c.Names, e.Tables[0]), table
	}
	for _, n := range gone {
		c.Names = append(c.Names, ddl.TableName{Database: "d", Table: n})
	}
	f.b.Catalog(f.at(), c, ahead)
}
