package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/sink"
)

// Type is this sink's type in the configuration.
const Type = "postgres"

const (
	defaultOffsetsSchema = "rowtrail"
	evolutionBasic       = "basic"
	evolutionNone        = "none"
)

// Config is a Postgres sink's configuration.
type Config struct {
	sink.Settings
	Connect       *pgconn.Config
	OffsetsSchema string
	Naming        sink.Naming
	Evolve        bool
	Truncate      bool
}

// tableName is a table of the target.
type tableName sink.TableName

func (n tableName) String() string { return quote(n.Schema) + "." + quote(n.Table) }

// ParseConfig reads the properties; it reports everything that is wrong at once.
//
//	dsn               connection string or URL of the target (required)
//	target.schema     schema for all tables; by default the source's schema
//	table.map         source.table:target.table, ... for tables of another name
//	schema.evolution  basic (default): create missing tables, columns, enum types and labels; none: refuse
//	truncate.enabled  true (default): apply truncates; false: stop at one
//	offsets.schema    schema of the tables sinks and offsets; default rowtrail
//	batch.max.rows, batch.max.bytes, batch.max.ms   bounds of a target transaction
//	consistency       transaction
func ParseConfig(name string, topics []string, props map[string]string) (*Config, []error) {
	p := sink.NewProperties(props)
	c := &Config{
		Settings:      p.Settings(name, Type, topics),
		OffsetsSchema: p.String("offsets.schema", defaultOffsetsSchema),
		Naming:        p.Naming("target.schema"),
		Evolve:        p.Enum("schema.evolution", evolutionBasic, evolutionNone) == evolutionBasic,
		Truncate:      p.Enum("truncate.enabled", "true", "false") == "true",
	}
	if c.OffsetsSchema == "" {
		p.Fail("offsets.schema", errors.New("name a schema"))
	}
	if dsn := p.String("dsn", ""); dsn == "" {
		p.Fail("dsn", errors.New("give the target's connection string, such as postgres://user@host:5432/database"))
	} else if conn, err := pgconn.ParseConfig(dsn); err != nil {
		p.Fail("dsn", fmt.Errorf("parse connection string: %w", err))
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

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
