package postgres

import (
	"context"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

// capturesMessages tells whether logical decoding messages are wanted: only when one of their lists is given.
func (c *Config) capturesMessages() bool {
	return len(c.messages.Include) > 0 || len(c.messages.Exclude) > 0
}

func (c *Config) messageTopic() string { return c.Prefix + ".message" }

// logical takes a message of pg_logical_emit_message (P24). A transactional one has the place of its transaction and is not
// counted among the rows. The other kind stands alone in the WAL and is its own mark; at is where its record ends, so a
// transaction that commits at it comes after it.
func (s *stream) logical(ctx context.Context, at lsn, b []byte) error {
	m, err := parseLogical(b)
	if err != nil {
		return malformed(err)
	}
	if !s.config.messages.Match(m.prefix) || (m.transactional && s.skip) || (!m.transactional && at <= s.resume) {
		return nil
	}
	if err := s.Room(ctx); err != nil {
		return err
	}
	meta, pos := s.Meta, event.Position{Commit: s.Pos.Commit, Order: s.Pos.Order, CommitTime: s.Pos.CommitTime}
	meta.LSN = uint64(at)
	if !m.transactional {
		s.ended = at // Debezium's source.sequence takes it for a transaction
		meta = event.Meta{TsMs: s.Meta.TsMs, SourceTsUs: s.Now.UnixMicro(), LSN: uint64(at), LastCommit: uint64(s.ended)}
		pos = event.Position{Commit: uint64(at), CommitTime: meta.SourceTsUs}
	}
	buf := s.Batch.Buf()
	key := connectors.Span{From: len(buf)}
	buf = s.messages.AppendKey(buf, m.prefix)
	key.To = len(buf)
	head := connectors.Span{From: len(buf)}
	buf = pos.Append(buf)
	head.To = len(buf)
	value := connectors.Span{From: len(buf)}
	buf = s.messages.AppendValue(buf, m.prefix, m.content, &meta)
	value.To = len(buf)
	s.Batch.Keep(buf)
	s.Batch.Header(event.PositionHeader, head.Of(buf))
	s.Batch.Record(s.config.messageTopic(), 0, key.Of(buf), value.Of(buf), s.Now)
	s.Events++
	if !m.transactional && !s.open {
		s.mark(at, meta.SourceTsUs, false)
	}
	return nil
}
