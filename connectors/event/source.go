package event

import "strconv"

// sourceBlock holds the parts of "source" that are the same for all events of a table.
type sourceBlock struct {
	head  []byte // up to ts_ms
	db    []byte // from behind snapshot up to sequence; of a binlog up to ts_us
	table []byte // schema and table, up to txId; of a binlog table, up to server_id

	binlog bool
}

func newSourceBlock(s *Schema, opts Options) sourceBlock {
	var b sourceBlock
	b.head = appendString([]byte(`"source":{"version":`), opts.Version)
	b.head = appendString(append(b.head, `,"connector":`...), orDefault(opts.Connector, SourcePostgres))
	b.head = appendString(append(b.head, `,"name":`...), opts.Name)
	b.head = append(b.head, `,"ts_ms":`...)
	if b.binlog = fromBinlog(opts.Connector); b.binlog {
		b.setTable(s.Database, s.Table)
		return b
	}
	b.db = appendString([]byte(`,"db":`), s.Database)
	b.db = append(b.db, `,"sequence":"[`...)
	b.table = appendString([]byte(`,"schema":`), s.Schema)
	b.table = appendString(append(b.table, `,"table":`...), s.Table)
	b.table = append(b.table, `,"txId":`...)
	return b
}

func (s *sourceBlock) append(dst []byte, m *Meta) []byte {
	dst = append(dst, s.head...)
	dst = strconv.AppendInt(dst, floorDiv(m.SourceTsUs, 1000), 10)
	dst = append(dst, `,"snapshot":`...)
	if m.Snapshot == "" {
		dst = append(dst, `"false"`...)
	} else {
		dst = appendString(dst, m.Snapshot)
	}
	dst = append(dst, s.db...)
	if s.binlog {
		return s.appendBinlog(dst, m)
	}
	if m.LastCommit == 0 {
		dst = append(dst, `null`...)
	} else {
		dst = append(dst, '\\', '"')
		dst = strconv.AppendUint(dst, m.LastCommit, 10)
		dst = append(dst, '\\', '"')
	}
	dst = append(dst, ',', '\\', '"')
	dst = strconv.AppendUint(dst, m.LSN, 10)
	dst = append(dst, `\"]","ts_us":`...)
	dst = strconv.AppendInt(dst, m.SourceTsUs, 10)
	dst = append(dst, `,"ts_ns":`...)
	dst = appendNanos(dst, m.SourceTsUs, "000")
	dst = append(dst, s.table...)
	dst = appendOrNull(dst, uint64(m.TxID))
	dst = append(dst, `,"lsn":`...)
	dst = appendOrNull(dst, m.LSN)
	dst = append(dst, `,"xmin":null,"origin":`...)
	if m.Origin == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendString(dst, m.Origin)
	}
	dst = append(dst, `,"origin_lsn":`...)
	dst = appendOrNull(dst, m.OriginLSN)
	return append(dst, '}')
}

// setTable makes the parts that a binlog's events say about their tables; a schema change can have none.
func (s *sourceBlock) setTable(database, tables string) {
	s.db = appendString(append(s.db[:0], `,"db":`...), database)
	s.db = append(s.db, `,"sequence":null,"ts_us":`...)
	s.table = appendStringOrNull(append(s.table[:0], `,"table":`...), tables)
	s.table = append(s.table, `,"server_id":`...)
}

func (s *sourceBlock) appendBinlog(dst []byte, m *Meta) []byte {
	dst = strconv.AppendInt(dst, m.SourceTsUs, 10)
	dst = append(dst, `,"ts_ns":`...)
	dst = appendNanos(dst, m.SourceTsUs, "000")
	dst = append(dst, s.table...)
	dst = strconv.AppendUint(dst, uint64(m.Binlog.ServerID), 10)
	dst = appendStringOrNull(append(dst, `,"gtid":`...), m.Binlog.GTID)
	dst = appendString(append(dst, `,"file":`...), m.Binlog.File)
	dst = strconv.AppendUint(append(dst, `,"pos":`...), m.Binlog.Pos, 10)
	dst = strconv.AppendInt(append(dst, `,"row":`...), int64(m.Binlog.Row), 10)
	dst = appendOrNull(append(dst, `,"thread":`...), m.Binlog.Thread)
	dst = appendStringOrNull(append(dst, `,"query":`...), m.Binlog.Query)
	return append(dst, '}')
}

func appendStringOrNull(dst []byte, v string) []byte {
	if v == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, v)
}

func appendEnvelopeEnd(dst []byte, op Op, m *Meta) []byte {
	dst = append(dst, `,"transaction":`...)
	if t := m.Transaction; t == nil {
		dst = append(dst, "null"...)
	} else {
		dst = appendString(append(dst, `{"id":`...), t.ID)
		dst = strconv.AppendUint(append(dst, `,"total_order":`...), t.TotalOrder, 10)
		dst = strconv.AppendUint(append(dst, `,"data_collection_order":`...), t.CollectionOrder, 10)
		dst = append(dst, '}')
	}
	dst = append(dst, `,"op":"`...)
	dst = append(dst, byte(op))
	dst = append(dst, `","ts_ms":`...)
	dst = strconv.AppendInt(dst, m.TsMs, 10)
	dst = append(dst, `,"ts_us":`...)
	dst = appendNanos(dst, m.TsMs, "000")
	dst = append(dst, `,"ts_ns":`...)
	dst = appendNanos(dst, m.TsMs, "000000")
	return append(dst, '}')
}

// appendNanos writes v times a power of ten.
func appendNanos(dst []byte, v int64, zeros string) []byte {
	dst = strconv.AppendInt(dst, v, 10)
	if v == 0 {
		return dst
	}
	return append(dst, zeros...)
}

func appendOrNull(dst []byte, v uint64) []byte {
	if v == 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendUint(dst, v, 10)
}
