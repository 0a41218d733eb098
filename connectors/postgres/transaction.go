package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

// beginTransaction opens a source transaction, which is passed over when the log has it.
func (s *stream) beginTransaction(b []byte) error {
	m, err := parseBegin(b)
	if err != nil {
		return malformed(err)
	}
	if s.open {
		return malformed(errors.New("transaction begins inside another"))
	}
	// P1: only the commit record's place decides; LSNs of changes overlap between transactions.
	s.open, s.skip, s.began = true, m.commit < s.resume, false
	s.begin = m
	s.serial++
	s.touched = s.touched[:0]
	if s.committed() == s.events {
		s.since.Store(m.timeUs)
	}
	s.meta = event.Meta{TsMs: s.meta.TsMs, SourceTsUs: m.timeUs, TxID: m.xid, LastCommit: uint64(s.previous)}
	s.pos = event.Position{Commit: uint64(m.commit), CommitTime: m.timeUs}
	s.id = event.AppendTransactionID(s.id[:0], m.xid, uint64(m.commit))
	return nil
}

func (s *stream) commitTransaction(ctx context.Context, b []byte) error {
	m, err := parseCommit(b)
	if err != nil {
		return malformed(err)
	}
	if !s.open || m.commit != s.begin.commit {
		return malformed(fmt.Errorf("commit of %s inside the transaction of %s", m.commit, s.begin.commit))
	}
	s.open = false
	if s.skip {
		return nil
	}
	if s.pos.Order > 0 {
		if err := s.transactionRecord(ctx, event.TransactionEndMark); err != nil {
			return err
		}
		s.txs++
	}
	s.previous = m.commit
	if err := s.room(ctx); err != nil {
		return err
	}
	s.mark(m.end, m.timeUs, false)
	return nil
}

// mark places a mark after a whole transaction.
func (s *stream) mark(confirm lsn, timeUs int64, force bool) {
	s.batch.Mark(connectors.Mark{
		Order: uint64(s.previous), Confirm: uint64(confirm), TimeUs: timeUs, Events: s.events, Txs: s.txs,
		Resume: s.encoded, Force: force,
	})
	s.marked, s.markedAt = confirm, s.now
}

// transactionRecord writes BEGIN or END (invariant 5: by END a reader knows that it has all).
func (s *stream) transactionRecord(ctx context.Context, status string) error {
	if err := s.room(ctx); err != nil {
		return err
	}
	t := event.TransactionEnd{Status: status, ID: string(s.id), TsMs: s.begin.timeUs / 1000}
	if status == event.TransactionEndMark {
		s.counts = s.counts[:0]
		for _, r := range s.touched {
			s.counts = append(s.counts, event.CollectionCount{Collection: r.collection, Count: int64(r.count)})
		}
		t.EventCount, t.Collections = int64(s.pos.Order), s.counts
	}
	buf := s.batch.Buf()
	key := span{from: len(buf)}
	buf = t.AppendKey(buf, s.config.Event.SchemasEnable)
	key.to = len(buf)
	value := span{from: len(buf)}
	buf = t.AppendValue(buf, s.config.Event.SchemasEnable)
	value.to = len(buf)
	head := span{from: len(buf)}
	buf = event.Position{Commit: s.pos.Commit, CommitTime: s.pos.CommitTime}.Append(buf)
	head.to = len(buf)
	s.batch.Keep(buf)
	s.batch.Header(event.PositionHeader, head.of(buf))
	s.batch.Record(s.config.Prefix+".transaction", 0, key.of(buf), value.of(buf), s.now)
	return nil
}

// idle takes a keepalive: with nothing open, all that committed below the server's WAL end has been read, so the slot of a
// quiet database can advance past other databases' WAL (P10). The new position goes through the log like any other.
func (s *stream) idle(ctx context.Context, end lsn) error {
	if s.open {
		return nil
	}
	s.seen.Store(s.events) // before quiet, which speaks of them
	s.quiet.Store(uint64(end))
	if end <= s.marked || s.now.Sub(s.markedAt) < s.idleEvery {
		return nil
	}
	if err := s.room(ctx); err != nil {
		return err
	}
	s.mark(end, s.now.UnixMicro(), true)
	return nil
}

// next numbers the event that follows.
func (s *stream) next(r *relation) {
	if r.transaction != s.serial {
		r.transaction, r.count = s.serial, 0
		s.touched = append(s.touched, r)
	}
	r.count++
	s.pos.Order++
	s.pos.CollectionOrder = r.count
	s.events++
	if s.config.TransactionMetadata {
		s.meta.Transaction = &event.Transaction{ID: string(s.id), TotalOrder: s.pos.Order, CollectionOrder: r.count}
	}
}
