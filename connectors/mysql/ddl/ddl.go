// Package ddl says what a statement of the binlog does to which tables, and how a table's description follows it.
//
// The parser is the package's own, because all of what matters is in the outline of a statement: an expression is passed over
// from bracket to bracket, so that neither server's functions, types nor options have to be known. What does not parse is
// never an error and never ignored: its Effect is Unknown and lists every table that its text may name.
package ddl

// Flavour is the kind of server.
type Flavour uint8

// The two flavours.
const (
	MySQL Flavour = iota
	MariaDB
)

// SQLMode is the bits of sql_mode that decide how a statement reads, as a query event's status variables have them.
type SQLMode uint64

// The modes that matter, of both servers.
const (
	RealAsFloat        SQLMode = 1 << 0
	ANSIQuotes         SQLMode = 1 << 2
	NoBackslashEscapes SQLMode = 1 << 20
)

// Options are the circumstances of a statement.
type Options struct {
	Flavour  Flavour
	Version  int    // 90704 is MySQL 9.7.4, 110809 MariaDB 11.8.9
	Database string // the session's
	Mode     SQLMode
	// ImplicitTimestamps is explicit_defaults_for_timestamp=OFF.
	ImplicitTimestamps bool
}

// Kind is what a statement does.
type Kind uint8

// The kinds of statements.
const (
	Unknown        Kind = iota // not understood: Tables are those that it may touch
	Other                      // touches no table's definition or rows
	Transaction                // begins or ends a transaction, or a part of it
	DML                        // changes rows of Tables
	CreateTable                // Tables[0]
	AlterTable                 // Tables[0]; Renames if it gives a new name
	DropTable                  // Tables
	TruncateTable              // Tables[0]
	RenameTable                // Renames, in order; Tables are their sources
	CreateDatabase             // Database
	AlterDatabase              // Database
	DropDatabase               // Database, and all tables in it
)

// String is the kind in words.
func (k Kind) String() string {
	return [...]string{"unknown", "other", "transaction", "DML", "create table", "alter table", "drop table", "truncate table",
		"rename table", "create database", "alter database", "drop database"}[k]
}

// TableName is a table's name.
type TableName struct{ Database, Table string }

// Rename is one step of a rename; a later step sees the names that earlier ones gave.
type Rename struct{ From, To TableName }

// MaxTables bounds the tables that an unknown statement may name.
const MaxTables = 4096

// Effect is what a statement does.
type Effect struct {
	Kind     Kind
	Tables   []TableName
	Renames  []Rename
	Database string
	// Any says of an Unknown statement that it may touch any table: it breaks off, or names more than MaxTables.
	Any bool
	// IfExists stands for IF NOT EXISTS too: the statement may do nothing.
	IfExists bool
	// Replace is CREATE OR REPLACE: a table of the name is gone first.
	Replace bool
	// Like is the table whose description the new one has.
	Like *TableName
	// Rows says that rows come or go without row events: by partitions or tablespaces.
	Rows bool
	// Doubt are tables that come of a partition or become one.
	Doubt []TableName

	definition *definition
	why        string // there is no definition
	options    Options
}

// Defined says whether the statement's effect on the description is known; if not, why.
func (e Effect) Defined() (bool, string) { return e.definition != nil, e.why }
