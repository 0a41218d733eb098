package postgres

import (
	"context"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// capturesMessages tells whether logical decoding messages are wanted: only when one of their lists is given.
func (c *Config) capturesMessages() bool {
	return len(c.messages.include) > 0 || len(c.messages.exclude) > 0
}

func (c *Config) messageTopic() string { return c.Prefix + ".message" }

// logical takes a message of pg_logical_emit_message (P24). A transactional one has the place of its transaction and is not
// counted among the rows. The other kind stands alone in the WAL and is its own mark.
func (s *stream) logical(ctx context.Context, at lsn, b []byte) error {
	m, err := parseLogical(b)
	if err != nil {
		return malformed(err)
	}
	if !s.config.messages.match(m.prefix) || (m.transactional && s.skip) || (!m.transactional && at < s.resume) {
		return nil
	}
	if err := s.room(ctx); err != nil {
		return err
	}
	meta, pos := s.meta, event.Position{Commit: s.pos.Commit, Order: s.pos.Order, CommitTime: s.pos.CommitTime}
	meta.LSN = uint64(at)
	if !m.transactional {
		meta = event.Meta{TsMs: s.meta.TsMs, SourceTsUs: s.now.UnixMicro(), LSN: uint64(at), LastCommit: uint64(s.previous)}
		pos = event.Position{Commit: uint64(at), CommitTime: meta.SourceTsUs}
	}
	buf := s.batch.Buf()
	key := span{from: len(buf)}
	buf = s.messages.AppendKey(buf, m.prefix)
	key.to = len(buf)
	head := span{from: len(buf)}
	buf = pos.Append(buf)
	head.to = len(buf)
	value := span{from: len(buf)}
	buf = s.messages.AppendValue(buf, m.prefix, m.content, &meta)
	value.to = len(buf)
	s.batch.Keep(buf)
	s.batch.Header(event.PositionHeader, head.of(buf))
	s.batch.Record(s.config.messageTopic(), 0, key.of(buf), value.of(buf), s.now)
	s.events++
	if !m.transactional && !s.open {
		s.mark(at+1, meta.SourceTsUs, false)
	}
	return nil
}
