package event

import "strconv"

// connectType is a Kafka Connect schema in the parts that its JSON form is made of.
type connectType struct {
	typ     string
	name    string
	version int
	doc     string
	params  []param
	// nullable: optional whatever the column is, as Debezium's schema of a geometry
	nullable bool
	fields   string // the fields of a struct, the items of an array, the keys and values of a map: JSON
}

type param struct{ name, value string }

// appendSchema writes the schema as Connect's JSON converter does, as the field's schema when field is not empty.
func (t connectType) appendSchema(dst []byte, optional bool, field string) []byte {
	dst = appendString(append(dst, `{"type":`...), t.typ)
	switch t.typ {
	case "struct":
		dst = append(append(append(dst, `,"fields":[`...), t.fields...), ']')
	case "array":
		dst = append(append(dst, `,"items":`...), t.fields...)
	case "map":
		dst = append(append(dst, ','), t.fields...)
	}
	dst = strconv.AppendBool(append(dst, `,"optional":`...), optional || t.nullable)
	if t.name != "" {
		dst = appendString(append(dst, `,"name":`...), t.name)
	}
	if t.version == 0 && t.name != "" && t.typ != "struct" {
		t.version = 1
	}
	if t.version != 0 {
		dst = strconv.AppendInt(append(dst, `,"version":`...), int64(t.version), 10)
	}
	if t.doc != "" {
		dst = appendString(append(dst, `,"doc":`...), t.doc)
	}
	for i, p := range t.params {
		sep := ","
		if i == 0 {
			sep = `,"parameters":{`
		}
		dst = appendString(append(dst, sep...), p.name)
		dst = appendString(append(dst, ':'), p.value)
	}
	if len(t.params) > 0 {
		dst = append(dst, '}')
	}
	if field != "" {
		dst = appendString(append(dst, `,"field":`...), field)
	}
	return append(dst, '}')
}

// field is a plain schema field.
func field(name, typ string, optional bool) string {
	return string(connectType{typ: typ}.appendSchema(nil, optional, name))
}

const transactionBlockFields = `{"type":"string","optional":false,"field":"id"},` +
	`{"type":"int64","optional":false,"field":"total_order"},` +
	`{"type":"int64","optional":false,"field":"data_collection_order"}`

func transactionBlockSchema() string {
	t := connectType{typ: "struct", name: "event.block", version: 1, fields: transactionBlockFields}
	return string(t.appendSchema(nil, true, "transaction"))
}

// sourceSchema is the source block's schema.
func sourceSchema(connector string) []byte {
	snapshot := `{"type":"string","optional":true,"name":"io.debezium.data.Enum","version":1,"parameters":{"allowed":` +
		`"true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},` +
		`"default":"false","field":"snapshot"}`
	fields := field("version", "string", false) + "," + field("connector", "string", false) + "," +
		field("name", "string", false) + "," + field("ts_ms", "int64", false) + "," + snapshot + "," +
		field("db", "string", false) + "," + field("sequence", "string", true) + "," +
		field("ts_us", "int64", true) + "," + field("ts_ns", "int64", true) + ","
	if fromBinlog(connector) {
		fields += field("table", "string", true) + "," + field("server_id", "int64", false) + "," +
			field("gtid", "string", true) + "," + field("file", "string", false) + "," + field("pos", "int64", false) + "," +
			field("row", "int32", false) + "," + field("thread", "int64", true) + "," + field("query", "string", true)
		return connectType{typ: "struct", name: "io.debezium.connector." + connector + ".Source", version: 1, fields: fields}.
			appendSchema(nil, false, "source")
	}
	fields += field("schema", "string", false) + "," + field("table", "string", false) + "," +
		field("txId", "int64", true) + "," + field("lsn", "int64", true) + "," + field("xmin", "int64", true) + "," +
		field("origin", "string", true) + "," + field("origin_lsn", "int64", true)
	return connectType{typ: "struct", name: "io.debezium.connector.postgresql.Source", version: 1, fields: fields}.
		appendSchema(nil, false, "source")
}

// valueSchema is the envelope's schema. A before image may hold the key alone, so there its other fields are optional.
func valueSchema(name, connector string, columns []encoderColumn) []byte {
	var before, after []byte
	for i := range columns {
		c := &columns[i]
		if i > 0 {
			before = append(before, ',')
			after = append(after, ',')
		}
		before = c.codec.connect().appendSchema(before, !c.key || !c.notNull, c.name)
		after = c.codec.connect().appendSchema(after, !c.notNull, c.name)
	}
	b := []byte{}
	b = connectType{typ: "struct", name: name + ".Value", fields: string(before)}.appendSchema(b, true, "before")
	b = connectType{typ: "struct", name: name + ".Value", fields: string(after)}.appendSchema(append(b, ','), true, "after")
	b = append(append(b, ','), sourceSchema(connector)...)
	b = append(b, ","+transactionBlockSchema()...)
	b = append(b, ","+field("op", "string", false)+","+field("ts_ms", "int64", true)+","+
		field("ts_us", "int64", true)+","+field("ts_ns", "int64", true)...)
	return connectType{typ: "struct", name: name + ".Envelope", version: 2, fields: string(b)}.appendSchema(nil, false, "")
}

func keySchema(name string, columns []encoderColumn, key []int) []byte {
	var b []byte
	for i, k := range key {
		if i > 0 {
			b = append(b, ',')
		}
		b = columns[k].codec.connect().appendSchema(b, !columns[k].notNull, columns[k].name)
	}
	return connectType{typ: "struct", name: name + ".Key", fields: string(b)}.appendSchema(nil, false, "")
}

// schemaPrefix opens {"schema":...,"payload": around a payload.
func schemaPrefix(schema []byte) []byte {
	b := append([]byte(`{"schema":`), schema...)
	return append(b, `,"payload":`...)
}
