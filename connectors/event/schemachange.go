package event

import (
	"errors"
	"strconv"
	"strings"
)

// SchemaChange is one statement of MySQL or MariaDB that changed tables: an event of the topic named by topic.prefix.
type SchemaChange struct {
	Database string // that the statement is of; the record's key
	DDL      string
	Tables   []TableChange // of the captured tables; none of what changes no table
}

// TableChange is what became of one table.
type TableChange struct {
	Type     string // TableCreate, TableAlter or TableDrop
	Database string
	Table    string
	// What follows describes the table after the change; a drop has none of it.
	Charset string // default of its columns; "": not known
	Comment *string
	Columns []TableColumn
}

// Types of TableChange.
const (
	TableCreate = "CREATE"
	TableAlter  = "ALTER"
	TableDrop   = "DROP"
)

// TableColumn is a column of a TableChange.
type TableColumn struct {
	Column
	AutoIncrement bool // or ON UPDATE CURRENT_TIMESTAMP, which Debezium calls the same
	Comment       *string
	DefaultText   *string // the default's expression
}

// SchemaChangeEncoder writes schema changes. Not safe for concurrent use.
type SchemaChangeEncoder struct {
	source      sourceBlock
	schemas     bool
	keyPrefix   []byte
	valuePrefix []byte
}

// NewSchemaChangeEncoder prepares the schema changes of one connector.
func NewSchemaChangeEncoder(opts Options) (*SchemaChangeEncoder, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if !fromBinlog(opts.Connector) {
		return nil, errors.New("create encoder of schema changes: only MySQL and MariaDB have them")
	}
	e := &SchemaChangeEncoder{source: newSourceBlock(&Schema{}, opts), schemas: opts.SchemasEnable}
	if e.schemas {
		name := "io.debezium.connector." + opts.Connector + "."
		key := connectType{typ: "struct", name: name + "SchemaChangeKey", version: 1, fields: field("databaseName", "string", false)}
		value := connectType{typ: "struct", name: name + "SchemaChangeValue", version: 1, fields: schemaChangeFields(opts.Connector)}
		e.keyPrefix = schemaPrefix(key.appendSchema(nil, false, ""))
		e.valuePrefix = schemaPrefix(value.appendSchema(nil, false, ""))
	}
	return e, nil
}

func schemaChangeFields(connector string) string {
	list := func(items string, optional bool, name string) string {
		return string(connectType{typ: "array", fields: items}.appendSchema(nil, optional, name))
	}
	text := string(connectType{typ: "string"}.appendSchema(nil, false, ""))
	column := connectType{typ: "struct", name: "io.debezium.connector.schema.Column", version: 1, fields: strings.Join([]string{
		field("name", "string", false), field("jdbcType", "int32", false), field("nativeType", "int32", true),
		field("typeName", "string", false), field("typeExpression", "string", true), field("charsetName", "string", true),
		field("length", "int32", true), field("scale", "int32", true), field("position", "int32", false),
		field("optional", "boolean", true), field("autoIncremented", "boolean", true), field("generated", "boolean", true),
		field("comment", "string", true), field("defaultValueExpression", "string", true), list(text, true, "enumValues"),
	}, ",")}
	table := connectType{typ: "struct", name: "io.debezium.connector.schema.Table", version: 1, fields: strings.Join([]string{
		field("defaultCharsetName", "string", true), list(text, true, "primaryKeyColumnNames"),
		list(string(column.appendSchema(nil, false, "")), false, "columns"), field("comment", "string", true),
	}, ",")}
	change := connectType{typ: "struct", name: "io.debezium.connector.schema.Change", version: 1, fields: strings.Join([]string{
		field("type", "string", false), field("id", "string", false), string(table.appendSchema(nil, true, "table")),
	}, ",")}
	return strings.Join([]string{
		string(sourceSchema(connector)), field("ts_ms", "int64", false), field("databaseName", "string", true),
		field("schemaName", "string", true), field("ddl", "string", true),
		list(string(change.appendSchema(nil, false, "")), false, "tableChanges"),
	}, ",")
}

// AppendKey writes the record key: {"databaseName":"..."}.
func (e *SchemaChangeEncoder) AppendKey(dst []byte, database string) []byte {
	dst = append(dst, e.keyPrefix...)
	dst = appendString(append(dst, `{"databaseName":`...), database)
	return e.end(dst)
}

// AppendValue writes the record value.
func (e *SchemaChangeEncoder) AppendValue(dst []byte, c *SchemaChange, m *Meta) []byte {
	tables := make([]string, len(c.Tables))
	database := c.Database
	for i := range c.Tables {
		tables[i] = c.Tables[i].Table
		database = c.Tables[0].Database
	}
	e.source.setTable(database, strings.Join(tables, ","))
	dst = append(dst, e.valuePrefix...)
	dst = append(dst, '{')
	dst = e.source.append(dst, m)
	dst = strconv.AppendInt(append(dst, `,"ts_ms":`...), m.TsMs, 10)
	dst = appendString(append(dst, `,"databaseName":`...), c.Database)
	dst = appendString(append(dst, `,"schemaName":null,"ddl":`...), c.DDL)
	dst = append(dst, `,"tableChanges":[`...)
	for i := range c.Tables {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = c.Tables[i].append(dst)
	}
	return e.end(append(dst, ']'))
}

// end closes the payload, and what wraps it.
func (e *SchemaChangeEncoder) end(dst []byte) []byte {
	if e.schemas {
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

func (t *TableChange) append(dst []byte) []byte {
	dst = appendString(append(dst, `{"type":`...), t.Type)
	dst = appendString(append(dst, `,"id":`...), doubleQuoted(t.Database)+"."+doubleQuoted(t.Table))
	if t.Type == TableDrop {
		return append(dst, `,"table":null}`...)
	}
	dst = appendStringOrNull(append(dst, `,"table":{"defaultCharsetName":`...), t.Charset)
	dst = append(dst, `,"primaryKeyColumnNames":[`...)
	columns := make([]Column, len(t.Columns))
	for i := range t.Columns {
		columns[i] = t.Columns[i].Column
	}
	for i, k := range (&Schema{Columns: columns}).KeyColumns() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, columns[k].Name)
	}
	dst = append(dst, `],"columns":[`...)
	for i := range t.Columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = t.Columns[i].append(dst, i+1)
	}
	dst = appendOptional(append(dst, `],"comment":`...), t.Comment)
	return append(dst, '}', '}')
}

func doubleQuoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func appendOptional(dst []byte, v *string) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	return appendString(dst, *v)
}

func (c *TableColumn) append(dst []byte, position int) []byte {
	name, sizes := splitType(c.Type)
	var labels []string
	switch c.Kind {
	case KindEnum:
		labels, sizes = c.Enum, []string{"1"}
	case KindSet:
		labels, sizes = c.Enum, []string{strconv.Itoa(max(0, 2*len(c.Enum)-1))}
	}
	size := func(i int) []byte {
		if i < len(sizes) {
			if v, ok := parseInt([]byte(strings.TrimSpace(sizes[i]))); ok {
				return strconv.AppendInt(nil, v, 10)
			}
		}
		return []byte("null")
	}
	dst = appendString(append(dst, `{"name":`...), c.Name)
	dst = strconv.AppendInt(append(dst, `,"jdbcType":`...), int64(jdbcType(name)), 10)
	dst = appendString(append(dst, `,"nativeType":null,"typeName":`...), name)
	dst = appendString(append(dst, `,"typeExpression":`...), name)
	dst = appendStringOrNull(append(dst, `,"charsetName":`...), c.Charset)
	dst = append(append(dst, `,"length":`...), size(0)...)
	dst = append(append(dst, `,"scale":`...), size(1)...)
	dst = strconv.AppendInt(append(dst, `,"position":`...), int64(position), 10)
	dst = strconv.AppendBool(append(dst, `,"optional":`...), !c.NotNull)
	dst = strconv.AppendBool(append(dst, `,"autoIncremented":`...), c.AutoIncrement)
	dst = strconv.AppendBool(append(dst, `,"generated":`...), c.AutoIncrement || c.Generated)
	dst = appendOptional(append(dst, `,"comment":`...), c.Comment)
	dst = appendOptional(append(dst, `,"defaultValueExpression":`...), c.DefaultText)
	dst = append(dst, `,"enumValues":`...)
	if len(labels) == 0 {
		return append(dst, "null}"...)
	}
	for i, label := range labels {
		dst = append(dst, "[,"[min(i, 1)])
		dst = appendString(dst, "'"+strings.ReplaceAll(label, "'", "''")+"'") // as the statement has them
	}
	return append(dst, ']', '}')
}

// splitType takes a column type as the server prints it apart: DECIMAL UNSIGNED and 10, 2 of decimal(10,2) unsigned.
func splitType(columnType string) (name string, sizes []string) {
	columnType, _, _ = strings.Cut(columnType, "/*") // MariaDB's COMPRESSED
	if open, end := strings.IndexByte(columnType, '('), strings.LastIndexByte(columnType, ')'); open >= 0 && end > open {
		sizes = strings.Split(columnType[open+1:end], ",")
		columnType = columnType[:open] + columnType[end+1:]
	}
	return strings.ToUpper(strings.TrimSpace(columnType)), sizes
}

// jdbcType is the number in java.sql.Types that Debezium has for a type.
func jdbcType(name string) int {
	base, _, _ := strings.Cut(name, " ")
	switch base {
	case "BIT":
		return -7
	case "BIGINT":
		return -5
	case "VARBINARY":
		return -3
	case "BINARY":
		return -2
	case "CHAR", "ENUM", "SET":
		return 1
	case "DECIMAL":
		return 3
	case "INT", "MEDIUMINT", "YEAR":
		return 4
	case "SMALLINT", "TINYINT":
		return 5
	case "FLOAT":
		return 6
	case "DOUBLE":
		return 8
	case "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT":
		return 12
	case "DATE":
		return 91
	case "TIME":
		return 92
	case "DATETIME":
		return 93
	case "TIMESTAMP":
		return 2014
	case "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB":
		return 2004
	}
	return 1111
}
