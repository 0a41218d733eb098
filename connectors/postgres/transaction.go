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
	s.open, s.skip = true, m.commit < s.resume
	s.begin = m
	if s.committed() == s.Events {
		s.since.Store(m.timeUs)
	}
	s.Meta = event.Meta{TsMs: s.Meta.TsMs, SourceTsUs: m.timeUs, TxID: m.xid, LastCommit: uint64(s.ended)}
	s.Begin(event.Position{Commit: uint64(m.commit), CommitTime: m.timeUs})
	s.ID = event.AppendTransactionID(s.ID, m.xid, uint64(m.commit))
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
	if err := s.parking.End(ctx, &s.Emitter); err != nil {
		return err
	}
	had, err := s.End(ctx)
	if err != nil {
		return err
	}
	if had {
		s.txs++
	}
	s.previous, s.ended = m.commit, m.end
	if err := s.Room(ctx); err != nil {
		return err
	}
	s.mark(m.end, m.timeUs, false)
	return s.boundary(ctx)
}

// mark places a mark after a whole transaction.
func (s *stream) mark(confirm lsn, timeUs int64, force bool) {
	s.Batch.Mark(connectors.Mark{
		Order: uint64(s.previous), Confirm: uint64(confirm), TimeUs: timeUs, Events: s.Events, Txs: s.txs,
		Resume: s.state(), Force: force,
	})
	s.marked, s.markedAt = confirm, s.Now
}

// idle takes a keepalive: with nothing open, all that committed below the server's WAL end has been read, so the slot of a
// quiet database can advance past other databases' WAL (P10). The new position goes through the log like any other.
func (s *stream) idle(ctx context.Context, end lsn) error {
	if s.open {
		return nil
	}
	s.seen.Store(s.Events) // before quiet, which speaks of them
	s.quiet.Store(uint64(end))
	if end <= s.marked || s.Now.Sub(s.markedAt) < s.idleEvery {
		return nil
	}
	if err := s.Room(ctx); err != nil {
		return err
	}
	s.mark(end, s.Now.UnixMicro(), true)
	return nil
}
