package mysql

import (
	"errors"
	"strings"

	"github.com/rowtrail/rowtrail/sink"
)

// Type is this sink's type in the configuration.
const Type = "mysql"

const (
	defaultOffsetsDatabase = "rowtrail"
	evolutionBasic         = "basic"
	evolutionNone          = "none"
)

// Config is a MySQL or MariaDB sink's configuration.
type Config struct {
	sink.Settings
	Connect         *Connection
	OffsetsDatabase string
	Naming          sink.Naming
	Evolve          bool
	Truncate        bool
}

// tableName is a table of the target.
type tableName sink.TableName

func (n tableName) String() string { return quote(n.Schema) + "." + quote(n.Table) }

// ParseConfig reads the properties; it reports everything that is wrong at once.
//
//	dsn               URL of the target, mysql://user:password@host:port/?ssl-mode=... (required)
//	target.database   database for all tables; by default the source's database or schema
//	table.map         source.table:database.table, ... for tables of another name
//	schema.evolution  basic (default): create missing databases, tables and columns, widen types; none: refuse
//	truncate.enabled  true (default): apply truncates; false: stop at one
//	offsets.database  database of the tables sinks, offsets and columns; default rowtrail
//	batch.max.rows, batch.max.bytes, batch.max.ms   bounds of a target transaction
//	consistency       transaction
func ParseConfig(name string, topics []string, props map[string]string) (*Config, []error) {
	p := sink.NewProperties(props)
	c := &Config{
		Settings:        p.Settings(name, Type, topics),
		OffsetsDatabase: p.String("offsets.database", defaultOffsetsDatabase),
		Naming:          p.Naming("target.database"),
		Evolve:          p.Enum("schema.evolution", evolutionBasic, evolutionNone) == evolutionBasic,
		Truncate:        p.Enum("truncate.enabled", "true", "false") == "true",
	}
	if c.OffsetsDatabase == "" {
		p.Fail("offsets.database", errors.New("name a database"))
	}
	if dsn := p.String("dsn", ""); dsn == "" {
		p.Fail("dsn", errors.New("give the target's URL, such as mysql://user:password@host:3306/"))
	} else if conn, err := parseDSN(dsn); err != nil {
		p.Fail("dsn", err)
	} else {
		c.Connect = conn
	}
	if errs := p.Finish(); len(errs) > 0 {
		return nil, errs
	}
	return c, nil
}

// tableFor maps a source table to the target's.
func (c *Config) tableFor(schema, table string) tableName {
	return tableName(c.Naming.For(schema, table))
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// quoted lists names.
func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = quote(n)
	}
	return strings.Join(out, ", ")
}
