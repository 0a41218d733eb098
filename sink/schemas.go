package sink

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// schemaBook holds the table versions of one connector, as its schema topic tells them, and their decoders.
type schemaBook struct {
	topic   string
	fetched int64 // after the last record read
	known   map[uint64]*version
}

// version is one table version.
type version struct {
	schema  *event.Schema
	decoder *event.Decoder
}

func newSchemaBook(topic string, start int64) *schemaBook {
	return &schemaBook{topic: topic, fetched: start, known: make(map[uint64]*version)}
}

// add reads a record of the schema topic.
func (b *schemaBook) add(rec *kgo.Record) error {
	b.fetched = rec.Offset + 1
	if rec.Attrs.IsControl() || rec.Value == nil {
		return nil
	}
	s, err := event.ParseSchema(rec.Value)
	if err != nil {
		return recordErr(rec.Topic, rec.Partition, rec.Offset, err)
	}
	if b.known[s.ID] != nil {
		return nil
	}
	d, err := event.NewDecoder(s)
	if err != nil {
		return recordErr(rec.Topic, rec.Partition, rec.Offset, fmt.Errorf("prepare decoder of %s: %w", s.Collection(), err))
	}
	b.known[s.ID] = &version{s, d}
	return nil
}
