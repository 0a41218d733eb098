package log

import (
	"encoding/binary"
	"fmt"

	"github.com/rowtrail/rowtrail/log/fields"
)

// A trim entry tells every replica where the log starts from now on: what retention and DeleteRecords decide is replicated like
// records, so that it is the same after a change of leader. It carries no records and takes no offset.
const (
	// trimTag is the first byte of a trim entry's payload. A batch never starts with it: that byte is the top of its base offset.
	trimTag     = 0xff
	trimVersion = 1
)

// TrimPayload is the payload of a trim entry.
func TrimPayload(logStart int64) []byte {
	return binary.AppendVarint([]byte{trimTag, trimVersion}, logStart)
}

// IsTrimPayload tells a trim entry's payload from a batch.
func IsTrimPayload(b []byte) bool { return len(b) > 0 && b[0] == trimTag }

func parseTrim(b []byte) (logStart int64, err error) {
	if len(b) < 3 || b[0] != trimTag || b[1] != trimVersion {
		return 0, fmt.Errorf("%w: a trim entry of %d bytes", ErrFormat, len(b))
	}
	r := fields.Read(b[2:])
	if logStart = r.Varint(); !r.Done() || logStart < 0 {
		return 0, fmt.Errorf("%w: a trim entry of %d bytes", ErrFormat, len(b))
	}
	return logStart, nil
}

// metaFacts reads an entry that carries no records.
func (s *Store) metaFacts(m *entryMeta, data []byte) (facts, error) {
	f := noFacts()
	switch {
	case m.typ == EntryTrim:
		start, err := parseTrim(data)
		if err != nil {
			return f, fmt.Errorf("entry %d: %w", m.index, err)
		}
		f.logStart = start
	case len(data) > 0 && s.configuration != nil:
		conf, err := s.configuration(m.typ, data)
		if err != nil {
			return f, fmt.Errorf("entry %d: %w", m.index, err)
		}
		f.conf = conf
	}
	return f, nil
}
