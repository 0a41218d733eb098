package mysql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/schema"
)

// scoutEvery is how often a long reading ahead says how far it is.
const scoutEvery = 10 * time.Second

// scout reads the binlog ahead of the stream for the statements in it, in a dump of its own that is no replica's. It holds one chunk
// of events at a time, and reads no part of the binlog twice in a run, however often it is asked.
type scout struct {
	run   *run
	ahead *schema.Ahead
	read  place // up to here; the zero place: nothing
}

func spotOf(p place) schema.Spot { return schema.Spot{File: fileNumber(p.file), Pos: p.pos} }

// on reads from a point, or from where it was before if that is further, to the end of the binlog as it is now, or until there is enough.
func (c *scout) on(ctx context.Context, from *point, enough func() bool) error {
	var end place
	if err := c.run.side.use(ctx, func(s *session) error {
		timed, cancel := context.WithTimeout(ctx, queryTimeout)
		defer cancel()
		status, err := s.binlogStatus(timed)
		end = status.place
		return err
	}); err != nil {
		return err
	}
	at := from.at
	if at.before(c.read) {
		at = c.read
		from = &point{at: at}
	}
	if at.file != "" && (!at.before(end) || enough()) { // "": the point's place on this server is not known, its GTIDs are
		return nil
	}
	begin := *from
	begin.seek = nil // what is prepared before the point is of no interest
	if begin.base == nil && at.pos > maxDumpPos {
		begin.at.pos = fileStart // what comes before counts as passed
	}
	s, err := c.run.config.dial(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	conn, err := c.run.dump(ctx, s, &begin, noReader, dumpNonBlock)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends a blocked read
	in := packets{src: conn, sequence: 1}
	events := &chunk{buf: make([]byte, 0, chunkBytes)}
	r := reading{scout: c, at: at, decoder: binlog.NewDecoder(binlog.Options{Statements: true})}
	for said := time.Now(); ; {
		if err := conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return fmt.Errorf("read the binlog ahead: %w", err)
		}
		err := in.next(events)
		for _, packet := range events.events {
			if lost, err := r.packet(packet); lost || err != nil {
				return err
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errStreamEnded), err == nil && (enough() || !r.at.before(end)):
			return nil
		case err != nil:
			return c.run.config.dumpError(fmt.Errorf("read the binlog ahead: %w", err))
		}
		if time.Since(said) > scoutEvery {
			said = time.Now()
			c.run.log.Info("the binlog is read ahead for statements that change tables", "at", r.at.String(), "until", end.String())
		}
	}
}

// reading is one dump that is read.
type reading struct {
	*scout
	at      place
	decoder *binlog.Decoder
	alter   bool // MariaDB: the ALTER TABLE of this group only begins, or is rolled back
}

// packet takes one event, and those in it. lost: what follows cannot be read, and may be anything; the stream will say so when it is there.
func (r *reading) packet(packet []byte) (lost bool, err error) {
	for e, err := r.decoder.Decode(packet); ; e, err = r.decoder.Next() {
		if _, ok := errorOfBinlog(err); ok && !errors.Is(err, binlog.ErrChecksum) {
			r.ahead.Reach(schema.Spot{File: fileNumber(r.at.file), Pos: r.at.pos + 1})
			r.ahead.Lose()
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("read the binlog ahead: %w", err)
		}
		if e == nil {
			r.read = r.at
			return false, nil
		}
		r.event(e)
	}
}

func (r *reading) event(e *binlog.Event) {
	switch e.Kind {
	case binlog.KindRotate:
		r.at = place{string(e.Rotate.File), e.Rotate.Position}
		return
	case binlog.KindHeartbeat:
		return
	case binlog.KindGTID:
		r.alter = e.GTID.StartAlter || e.GTID.RollbackAlter
	}
	if e.Header.Flags&binlog.FlagArtificial == 0 {
		r.at.pos = max(r.at.pos, e.End)
	}
	if e.Kind == binlog.KindQuery && !r.alter {
		r.ahead.Reach(spotOf(r.at))
		r.ahead.Statement(&e.Query)
	}
}
