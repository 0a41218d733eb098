package event

import (
	"bytes"
	"encoding/json"
	"testing"
)

var binlogMeta = Meta{TsMs: 1651535750300, SourceTsUs: 1651535750218000,
	Binlog: Binlog{ServerID: 223344, File: "mysql-bin.000003", Pos: 570, Row: 1}}

func mysqlOrders(t testing.TB) ([]Column, Row) {
	column := func(name string, f MySQLFacts, notNull bool, key int) Column {
		c, err := MySQLColumn(name, f, notNull, key)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	status, place := facts("enum('new','paid')"), facts("point")
	status.Labels, status.Charset, status.Collation = []string{"new", "paid"}, "utf8mb4", "utf8mb4_0900_ai_ci"
	srid, standard := uint32(4326), "new"
	place.SRID, status.Default = &srid, &standard
	tax := facts("decimal(10,2)", 10, 2)
	tax.Generated, tax.Invisible = true, true
	return []Column{
			column("id", facts("bigint unsigned"), true, 1), column("status", status, true, 0),
			column("total", facts("decimal(10,2)", 10, 2), false, 0), column("tax", tax, false, 0),
			column("placed", facts("timestamp(3)", 3), true, 0), column("due", facts("date"), false, 0),
			column("open", facts("time"), false, 0), column("place", place, false, 0), column("scan", facts("blob"), false, 0),
		}, Row{text("18446744073709551615"), text("paid"), text("12.50"), text("2.38"), text("2024-02-29 12:00:00.500"), text("0000-00-00"),
			text("-838:59:59"), text(`\xe6100000010100000000000000000024400000000000003440`), text(`\x00ff`)}
}

// TestGoldenMySQLEnvelopes pins the JSON of every operation of both sources, with and without Connect schemas.
func TestGoldenMySQLEnvelopes(t *testing.T) {
	columns, row := mysqlOrders(t)
	inTransaction, load := binlogMeta, binlogMeta
	inTransaction.Binlog.GTID, inTransaction.Binlog.Thread, inTransaction.Binlog.Query = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23", 7, "UPDATE orders SET status = 'paid'"
	inTransaction.Transaction = &Transaction{ID: string(AppendBinlogTransactionID(nil, inTransaction.Binlog.GTID, "mysql-bin.000003", 4)), TotalOrder: 3, CollectionOrder: 1}
	load.Snapshot, load.Binlog.Row = "first", 0
	for _, o := range []Options{{Connector: SourceMySQL}, {Connector: SourceMariaDB, SchemasEnable: true}} {
		o.Name, o.Version = "shop", "1.2.3"
		s, err := NewSchema(o, "inventory", "orders", columns)
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewEncoder(s, o)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := NewSchemaChangeEncoder(o)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		line := func(name string, b []byte, err error) {
			if err != nil || !json.Valid(b) {
				t.Fatalf("%s: %s, %v", name, b, err)
			}
			out.WriteString(name + "\t" + string(b) + "\n")
		}
		key, _, err := e.AppendKey(nil, row)
		line("key", key, err)
		for _, c := range []struct {
			name          string
			op            Op
			before, after Row
			meta          Meta
		}{
			{"create", OpCreate, nil, row, binlogMeta}, {"read", OpRead, nil, row, load},
			{"update in a transaction", OpUpdate, row, row, inTransaction}, {"delete", OpDelete, row, nil, binlogMeta},
		} {
			b, err := e.AppendValue(nil, c.op, c.before, c.after, &c.meta)
			line(c.name, b, err)
		}
		line("schema change key", changes.AppendKey(nil, "inventory"), nil)
		line("schema change", changes.AppendValue(nil, tableChange(columns), &binlogMeta), nil)
		line("schema change of two tables", changes.AppendValue(nil, &SchemaChange{Database: "inventory", DDL: "DROP TABLE a, `b\"c`", Tables: []TableChange{
			{Type: TableDrop, Database: "inventory", Table: "a"}, {Type: TableDrop, Database: "inventory", Table: `b"c`}}}, &binlogMeta), nil)
		line("schema change of no table", changes.AppendValue(nil, &SchemaChange{Database: "inventory", DDL: "CREATE DATABASE inventory"}, &binlogMeta), nil)
		stored, err := s.MarshalJSON()
		line("schema", stored, err)
		line("schema key", s.TopicKey(), nil)
		name := o.Connector + ".golden"
		golden(t, name, out.Bytes())
	}
}

func tableChange(columns []Column) *SchemaChange {
	comment, expression := "what it is", "new"
	table := TableChange{Type: TableAlter, Database: "inventory", Table: "orders", Charset: "utf8mb4", Comment: &comment}
	for i, c := range columns {
		table.Columns = append(table.Columns, TableColumn{Column: c, AutoIncrement: i == 0})
	}
	table.Columns[1].DefaultText = &expression
	return &SchemaChange{Database: "inventory", DDL: "ALTER TABLE orders ADD scan BLOB", Tables: []TableChange{table}}
}

// TestSchemaChangeAsDocumented is the example of Debezium's documentation, with the fields that its serializer adds.
func TestSchemaChangeAsDocumented(t *testing.T) {
	e, err := NewSchemaChangeEncoder(Options{Connector: SourceMySQL, Name: "mysql", Version: "3"})
	if err != nil {
		t.Fatal(err)
	}
	name := facts("varchar(255)", 255)
	name.Charset = "utf8mb4"
	table := TableChange{Type: TableAlter, Database: "inventory", Table: "customers", Charset: "utf8mb4"}
	id, first := describeMySQL(t, facts("int"), true), describeMySQL(t, name, true)
	id.Name, first.Name, first.Key = "id", "first_name", 0
	table.Columns = []TableColumn{{Column: id, AutoIncrement: true}, {Column: first}}
	meta := binlogMeta
	meta.Binlog.Row = 0
	got := e.AppendValue(nil, &SchemaChange{Database: "inventory", DDL: "ALTER TABLE customers", Tables: []TableChange{table}}, &meta)
	want := `{"source":{"version":"3","connector":"mysql","name":"mysql","ts_ms":1651535750218,"snapshot":"false","db":"inventory","sequence":null,` +
		`"ts_us":1651535750218000,"ts_ns":1651535750218000000,"table":"customers","server_id":223344,"gtid":null,"file":"mysql-bin.000003","pos":570,"row":0,` +
		`"thread":null,"query":null},"ts_ms":1651535750300,"databaseName":"inventory","schemaName":null,"ddl":"ALTER TABLE customers","tableChanges":[` +
		`{"type":"ALTER","id":"\"inventory\".\"customers\"","table":{"defaultCharsetName":"utf8mb4","primaryKeyColumnNames":["id"],"columns":[` +
		`{"name":"id","jdbcType":4,"nativeType":null,"typeName":"INT","typeExpression":"INT","charsetName":null,"length":null,"scale":null,"position":1,` +
		`"optional":false,"autoIncremented":true,"generated":true,"comment":null,"defaultValueExpression":null,"enumValues":null},` +
		`{"name":"first_name","jdbcType":12,"nativeType":null,"typeName":"VARCHAR","typeExpression":"VARCHAR","charsetName":"utf8mb4","length":255,"scale":null,` +
		`"position":2,"optional":false,"autoIncremented":false,"generated":false,"comment":null,"defaultValueExpression":null,"enumValues":null}],"comment":null}}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := NewSchemaChangeEncoder(Options{}); err == nil {
		t.Error("Postgres has schema changes")
	}
}

func TestBinlogTransactionID(t *testing.T) {
	if got := string(AppendBinlogTransactionID(nil, "0-1-5", "x", 4)); got != "0-1-5" {
		t.Error(got)
	}
	if got := string(AppendBinlogTransactionID(nil, "", "mysql-bin.000003", 197)); got != "file=mysql-bin.000003,pos=197" {
		t.Error(got)
	}
}

// TestStoredSchemasStayReadable: records of schema topics that were written before MySQL's fields came are read, and written again
// as they were.
func TestStoredSchemasStayReadable(t *testing.T) {
	for _, stored := range []string{
		`{"id":"f1a0e8ed82c9fc94","source":"postgresql","db":"shopdb","schema":"public","table":"t","format":{"schemas":false,"decimal":"precise","time":"adaptive",` +
			`"interval":"string","binary":"bytes","hstore":"json"},"columns":[{"name":"id","type":"bigint","kind":"int64","oid":20,"modifier":-1,"notNull":true,"key":1,"number":1},` +
			`{"name":"v","type":"text","kind":"text","oid":25,"modifier":-1,"number":3,"missing":"x"},{"name":"w","type":"text","kind":"text","oid":25,"modifier":-1,"number":4,` +
			`"default":true}],"identity":77}`,
		`{"id":"fec47e4f4f437fda","source":"postgresql","db":"shopdb","schema":"public","table":"orders","format":{"schemas":false,"decimal":"precise","time":"adaptive",` +
			`"interval":"string","binary":"bytes","hstore":"json"},"columns":[{"name":"id","type":"bigint","kind":"int64","oid":20,"modifier":-1,"notNull":true,"key":1},` +
			`{"name":"status","type":"public.status","kind":"enum","oid":16400,"modifier":-1,"enum":["new","paid"],"notNull":true},` +
			`{"name":"total","type":"numeric(10,2)","kind":"numeric","oid":1700,"modifier":655366},{"name":"rate","type":"numeric","kind":"numeric","oid":1700,"modifier":-1},` +
			`{"name":"placed","type":"timestamp with time zone","kind":"timestamptz","oid":1184,"modifier":-1},{"name":"due","type":"date","kind":"date","oid":1082,"modifier":-1},` +
			`{"name":"note","type":"text","kind":"text","oid":25,"modifier":-1},{"name":"scan","type":"bytea","kind":"bytes","oid":17,"modifier":-1},` +
			`{"name":"tags","type":"text[]","kind":"array","oid":1009,"modifier":-1,"elem":"text","elemOid":25},` +
			`{"name":"sizes","type":"integer[]","kind":"array","oid":1007,"modifier":-1,"elem":"int32","elemOid":23},` +
			`{"name":"extra","type":"public.hstore","kind":"hstore","oid":16500,"modifier":-1}]}`,
	} {
		s, err := ParseSchema([]byte(stored))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.MarshalJSON(); err != nil || string(again) != stored {
			t.Errorf("%s was written again as %s, %v", stored, again, err)
		}
		if _, err := NewEncoder(s, s.Options("shop")); err != nil {
			t.Error(err)
		}
	}
}

// TestMySQLSchemaFingerprint: everything about a column is part of the table's version.
func TestMySQLSchemaFingerprint(t *testing.T) {
	srid, other := uint32(0), uint32(4326)
	seen := map[uint64]string{}
	for name, change := range map[string]func(*Options, *Column){
		"nothing": func(*Options, *Column) {}, "unsigned": func(_ *Options, c *Column) { c.Unsigned = true },
		"charset": func(_ *Options, c *Column) { c.Charset = "latin1" }, "collation": func(_ *Options, c *Column) { c.Collation = "latin1_bin" },
		"srid": func(_ *Options, c *Column) { c.SRID = &srid }, "other srid": func(_ *Options, c *Column) { c.SRID = &other },
		"generated": func(_ *Options, c *Column) { c.Generated = true }, "invisible": func(_ *Options, c *Column) { c.Invisible = true },
		"bigint": func(o *Options, _ *Column) { o.BigintUnsigned = BigintUnsignedLong }, "zero": func(o *Options, _ *Column) { o.ZeroDate = ZeroDateFail },
		"source": func(o *Options, _ *Column) { o.Connector = SourceMariaDB },
	} {
		o, c := Options{Connector: SourceMySQL}, Column{Name: "a", Type: "text", Kind: KindText, Modifier: -1}
		change(&o, &c)
		s, err := NewSchema(o, "shop", "t", []Column{c})
		if err != nil {
			t.Fatal(err)
		}
		if same, ok := seen[s.ID]; ok {
			t.Errorf("%s and %s have one fingerprint", name, same)
		}
		seen[s.ID] = name
		stored, _ := s.MarshalJSON()
		read, err := ParseSchema(stored)
		if err != nil || read.Format != s.Options("p").Format() || read.Collection() != "shop.t" || read.Database != "shop" {
			t.Errorf("%s: %+v, %v", name, read, err)
		}
	}
}
