package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// ErrRefused is the server's own answer to a statement, which a new session would get, too.
var ErrRefused = errors.New("the server refuses it")

// Session is a session of the server. Query gives the rows of a statement, NULL as nil; where the server answers with an error, that is an
// ErrRefused.
type Session interface {
	Query(ctx context.Context, sql string) ([][]*string, error)
}

// sqlModes that would print statements in another way.
const plainSession = "SET NAMES utf8mb4, sql_mode = '', sql_quote_show_create = 1"

// Read reads descriptions from the catalog: SHOW CREATE TABLE, taken apart as any statement. It sets the session up for that: its
// character set, sql_mode, and what it shows of keys that MySQL makes. The position of the binlog's end is to be asked for
// afterwards: what the read saw was in the binlog by then.
func Read(ctx context.Context, s Session, o Options, names ...ddl.TableName) (*Catalog, error) {
	c := newCatalog()
	if err := prepare(ctx, s, o); err != nil {
		return nil, err
	}
	for _, n := range names {
		if err := c.read(ctx, s, o, n); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// ReadDatabases reads the defaults of databases and all of their tables. One that the server refuses to show stays unknown.
func ReadDatabases(ctx context.Context, s Session, o Options, databases ...string) (*Catalog, error) {
	c := newCatalog()
	if err := prepare(ctx, s, o); err != nil {
		return nil, err
	}
	if len(databases) == 0 {
		return c, nil
	}
	list := make([]string, len(databases))
	for i, d := range databases {
		list[i] = literalText(d)
	}
	in := "(" + strings.Join(list, ", ") + ")"
	rows, err := query(ctx, s, "SELECT schema_name, default_character_set_name, default_collation_name FROM information_schema.schemata WHERE schema_name IN "+in, 3)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		c.Databases[*r[0]] = ddl.Database{Charset: canonicalCharset(*r[1]), Collation: *r[2]}
		c.Whole = append(c.Whole, *r[0])
	}
	rows, err = query(ctx, s, "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND table_schema IN "+
		in+" ORDER BY table_schema, table_name", 2)
	if err != nil {
		return nil, err
	}
	var names []ddl.TableName
	for _, r := range rows {
		names = append(names, ddl.TableName{Database: *r[0], Table: *r[1]})
	}
	for _, n := range names {
		err := c.read(ctx, s, o, n)
		if errors.Is(err, ErrRefused) { // a table that nobody may want; should it be one that is captured, Read tells
			c.Whole = slices.DeleteFunc(c.Whole, func(d string) bool { return d == n.Database })
			err = nil
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// ReadCollations reads the server's collations for Options.
func ReadCollations(ctx context.Context, s Session, o Options) (*Collations, error) {
	sql := "SELECT id, collation_name, character_set_name, is_default FROM information_schema.collations WHERE id IS NOT NULL"
	if o.Flavour == ddl.MariaDB && o.Version >= 101001 { // there the collations that go with any charset have their names here
		sql = "SELECT id, full_collation_name, character_set_name, is_default FROM information_schema.collation_character_set_applicability WHERE id IS NOT NULL"
	}
	rows, err := query(ctx, s, sql, 4)
	if err != nil {
		return nil, err
	}
	c := &Collations{names: map[uint32]string{}, known: map[string]bool{}, defaults: map[string]string{}}
	for _, r := range rows {
		id, err := strconv.ParseUint(*r[0], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%s: collation %q: %w", sql, *r[0], err)
		}
		c.names[uint32(id)], c.known[*r[1]] = *r[1], true
		if strings.EqualFold(*r[3], "yes") {
			c.defaults[canonicalCharset(*r[2])] = *r[1]
		}
	}
	return c, nil
}

func newCatalog() *Catalog {
	return &Catalog{Tables: map[ddl.TableName]*ddl.Table{}, Why: map[ddl.TableName]string{}, Databases: map[string]ddl.Database{}}
}

func prepare(ctx context.Context, s Session, o Options) error {
	sql := plainSession
	if o.Flavour == ddl.MySQL && o.Version >= 80030 {
		sql += ", show_gipk_in_create_table_and_information_schema = ON"
	}
	if _, err := s.Query(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

func (c *Catalog) read(ctx context.Context, s Session, o Options, n ddl.TableName) error {
	sql := "SHOW CREATE TABLE " + quoted(n.Database) + "." + quoted(n.Table)
	rows, err := s.Query(ctx, sql)
	if err != nil {
		if there, again := exists(ctx, s, n); again != nil || there {
			return fmt.Errorf("%s: %w", sql, err)
		}
		c.Names = append(c.Names, n)
		return nil
	}
	c.Names = append(c.Names, n)
	if len(rows) != 1 || len(rows[0]) != 2 || rows[0][1] == nil { // a view has more
		c.Why[n] = "it is no table"
		return nil
	}
	t, err := ddl.Create(ddl.Parse([]byte(*rows[0][1]), ddl.Options{Flavour: o.Flavour, Version: o.Version, Database: n.Database}), ddl.Database{})
	if err != nil {
		c.Why[n] = "SHOW CREATE TABLE is not understood: " + err.Error()
		return nil
	}
	c.Tables[n] = t
	return nil
}

func exists(ctx context.Context, s Session, n ddl.TableName) (bool, error) {
	rows, err := s.Query(ctx, "SELECT 1 FROM information_schema.tables WHERE table_schema = "+literalText(n.Database)+" AND table_name = "+literalText(n.Table))
	return len(rows) > 0, err
}

// query wants rows of so many columns, none of them NULL.
func query(ctx context.Context, s Session, sql string, columns int) ([][]*string, error) {
	rows, err := s.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sql, err)
	}
	for _, r := range rows {
		if len(r) != columns || slices.Contains(r, nil) {
			return nil, fmt.Errorf("%s: a row of %d columns, or with NULL", sql, len(r))
		}
	}
	return rows, nil
}

func canonicalCharset(s string) string {
	if s == "utf8" {
		return "utf8mb3"
	}
	return s
}

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

func literalText(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(s) + "'"
}
