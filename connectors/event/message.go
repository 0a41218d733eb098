package event

import "encoding/hex"

// MessageEncoder writes logical decoding messages (op m), which belong to no table: source.schema and source.table are
// empty, the key is the prefix. It may be used concurrently.
type MessageEncoder struct {
	source      sourceBlock
	schemas     bool
	valuePrefix []byte
	keyPrefix   []byte
	content     bytesCodec
}

// NewMessageEncoder prepares the messages of one Postgres connector.
func NewMessageEncoder(opts Options) (*MessageEncoder, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	e := &MessageEncoder{
		source:  newSourceBlock(&Schema{Database: opts.Database}, opts),
		schemas: opts.SchemasEnable,
		content: newBytesCodec(opts.Format().Binary),
	}
	if e.schemas {
		e.keyPrefix = schemaPrefix(messageType("MessageKey", field("prefix", "string", true)).appendSchema(nil, false, ""))
		content := e.content.connect().appendSchema(nil, true, "content")
		message := messageType("Message", field("prefix", "string", true)+","+string(content)).appendSchema(nil, false, "message")
		value := field("op", "string", false) + "," + field("ts_ms", "int64", true) + "," + field("ts_us", "int64", true) + "," +
			field("ts_ns", "int64", true) + "," + string(sourceSchema(SourcePostgres)) + "," + transactionBlockSchema() + "," + string(message)
		e.valuePrefix = schemaPrefix(messageType("MessageValue", value).appendSchema(nil, false, ""))
	}
	return e, nil
}

func messageType(name, fields string) connectType {
	return connectType{typ: "struct", name: "io.debezium.connector.postgresql." + name, version: 1, fields: fields}
}

// AppendKey writes the record key: {"prefix":"..."}.
func (e *MessageEncoder) AppendKey(dst []byte, prefix string) []byte {
	dst = append(dst, e.keyPrefix...)
	dst = appendString(append(dst, `{"prefix":`...), prefix)
	return e.end(append(dst, '}'))
}

// AppendValue writes the record value with the message's content in binary.handling.mode.
func (e *MessageEncoder) AppendValue(dst []byte, prefix string, content []byte, m *Meta) []byte {
	dst = append(dst, e.valuePrefix...)
	dst = append(dst, '{')
	dst = e.source.append(dst, m)
	dst = appendString(append(dst, `,"message":{"prefix":`...), prefix)
	dst = append(dst, `,"content":"`...)
	if e.content.enc == nil {
		dst = hex.AppendEncode(dst, content)
	} else {
		dst = e.content.enc.AppendEncode(dst, content)
	}
	dst = append(dst, '"', '}')
	return e.end(appendEnvelopeEnd(dst, OpMessage, m))
}

func (e *MessageEncoder) end(dst []byte) []byte {
	if e.schemas {
		dst = append(dst, '}')
	}
	return dst
}
