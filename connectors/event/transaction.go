package event

import (
	"errors"
	"fmt"
	"strconv"
)

// Status of a transaction record.
const (
	TransactionBegin   = "BEGIN"
	TransactionEndMark = "END"
)

// ErrTransaction tells that a record of the transaction topic cannot be read.
var ErrTransaction = errors.New("malformed transaction record")

// TransactionEnd is a record of the transaction topic: {"status":"END","id":"...","event_count":n,
// "data_collections":[{"data_collection":"public.orders","event_count":n}],"ts_ms":...}. Its record has a PositionHeader too
// (Order 0, Schema 0), so that a reader never parses ids. A BEGIN record has no counts.
type TransactionEnd struct {
	Status      string            `json:"status"`
	ID          string            `json:"id"`
	EventCount  int64             `json:"event_count"`
	Collections []CollectionCount `json:"data_collections"`
	TsMs        int64             `json:"ts_ms"`
}

// CollectionCount is one table's share of a transaction.
type CollectionCount struct {
	Collection string `json:"data_collection"`
	Count      int64  `json:"event_count"`
}

const (
	transactionKeySchema = `{"type":"struct","fields":[{"type":"string","optional":false,"field":"id"}],` +
		`"optional":false,"name":"io.debezium.connector.common.TransactionMetadataKey","version":1}`
	transactionValueSchema = `{"type":"struct","fields":[{"type":"string","optional":false,"field":"status"},` +
		`{"type":"string","optional":false,"field":"id"},{"type":"int64","optional":true,"field":"event_count"},` +
		`{"type":"array","items":{"type":"struct","fields":[{"type":"string","optional":false,"field":"data_collection"},` +
		`{"type":"int64","optional":false,"field":"event_count"}],"optional":true,"name":"event.collection","version":1},` +
		`"optional":true,"field":"data_collections"},{"type":"int64","optional":false,"field":"ts_ms"}],` +
		`"optional":false,"name":"io.debezium.connector.common.TransactionMetadataValue","version":1}`
)

// AppendTransactionID writes a source transaction's id as Debezium does for Postgres: <txid>:<lsn>.
func AppendTransactionID(dst []byte, txID uint32, lsn uint64) []byte {
	dst = strconv.AppendUint(dst, uint64(txID), 10)
	dst = append(dst, ':')
	return strconv.AppendUint(dst, lsn, 10)
}

// AppendBinlogTransactionID writes a source transaction's id as Debezium does for MySQL and MariaDB: its GTID, or without one where
// it begins.
func AppendBinlogTransactionID(dst []byte, gtid, file string, pos uint64) []byte {
	if gtid != "" {
		return append(dst, gtid...)
	}
	dst = append(append(dst, "file="...), file...)
	return strconv.AppendUint(append(dst, ",pos="...), pos, 10)
}

// AppendKey writes the record key: {"id":"..."}.
func (t *TransactionEnd) AppendKey(dst []byte, schemas bool) []byte {
	if schemas {
		dst = append(dst, `{"schema":`+transactionKeySchema+`,"payload":`...)
	}
	dst = appendString(append(dst, `{"id":`...), t.ID)
	dst = append(dst, '}')
	if schemas {
		dst = append(dst, '}')
	}
	return dst
}

// AppendValue writes the record value.
func (t *TransactionEnd) AppendValue(dst []byte, schemas bool) []byte {
	if schemas {
		dst = append(dst, `{"schema":`+transactionValueSchema+`,"payload":`...)
	}
	dst = appendString(append(dst, `{"status":`...), t.Status)
	dst = appendString(append(dst, `,"id":`...), t.ID)
	if t.Status == TransactionBegin {
		dst = append(dst, `,"event_count":null,"data_collections":null`...)
	} else {
		dst = strconv.AppendInt(append(dst, `,"event_count":`...), t.EventCount, 10)
		dst = append(dst, `,"data_collections":[`...)
		for i := range t.Collections {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(append(dst, `{"data_collection":`...), t.Collections[i].Collection)
			dst = strconv.AppendInt(append(dst, `,"event_count":`...), t.Collections[i].Count, 10)
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
	}
	dst = strconv.AppendInt(append(dst, `,"ts_ms":`...), t.TsMs, 10)
	dst = append(dst, '}')
	if schemas {
		dst = append(dst, '}')
	}
	return dst
}

// ParseTransaction reads a record of the transaction topic, with or without its Connect schema.
func ParseTransaction(value []byte) (*TransactionEnd, error) {
	t, err := scanTransaction(value)
	if err != nil {
		return nil, fmt.Errorf("parse transaction record: %w: %w", ErrTransaction, err)
	}
	if (t.Status != TransactionBegin && t.Status != TransactionEndMark) || t.ID == "" || t.EventCount < 0 {
		return nil, fmt.Errorf("parse transaction record: status %q, id %q: %w", t.Status, t.ID, ErrTransaction)
	}
	sum := int64(0)
	for i := range t.Collections {
		if t.Collections[i].Count < 0 {
			return nil, fmt.Errorf("parse transaction record %s: negative count: %w", t.ID, ErrTransaction)
		}
		sum += t.Collections[i].Count
	}
	if sum != t.EventCount {
		return nil, fmt.Errorf("parse transaction record %s: event_count is %d, the tables' counts add up to %d: %w",
			t.ID, t.EventCount, sum, ErrTransaction)
	}
	return t, nil
}

// scanTransaction reads the record's fields. A sink reads one for every source transaction.
func scanTransaction(value []byte) (*TransactionEnd, error) {
	var s scanner
	s.reset(value)
	t := new(TransactionEnd)
	err := s.members(func(name []byte) error {
		if string(name) != "payload" {
			return t.scan(&s, name)
		}
		*t = TransactionEnd{}
		return s.members(func(name []byte) error { return t.scan(&s, name) })
	})
	if err == nil && !s.atEnd() {
		err = errSyntax
	}
	return t, err
}

func (t *TransactionEnd) scan(s *scanner, name []byte) (err error) {
	if s.literal("null") {
		return nil
	}
	switch string(name) {
	case "status":
		t.Status, err = s.text()
	case "id":
		t.ID, err = s.text()
	case "event_count":
		t.EventCount, err = s.integer()
	case "ts_ms":
		t.TsMs, err = s.integer()
	case "data_collections":
		err = s.elements(func() error {
			var c CollectionCount
			err := s.members(func(name []byte) (err error) {
				switch string(name) {
				case "data_collection":
					c.Collection, err = s.text()
				case "event_count":
					c.Count, err = s.integer()
				default:
					err = s.skip()
				}
				return err
			})
			t.Collections = append(t.Collections, c)
			return err
		})
	default:
		err = s.skip()
	}
	return err
}
