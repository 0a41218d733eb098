package postgres

import (
	"context"
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink/window"
)

// textOID is the element type of every parameter array.
const textOID = 25

// pipeline sends statements without waiting for their results, and reads these in the end.
type pipeline struct {
	p     *pgconn.Pipeline
	wants []want // of each statement, in order
}

// want is what a statement's result has to be.
type want struct {
	rows int64 // -1: any number
	b    *binding
	read func(*pgconn.ResultReader)
}

func (s *session) pipeline(ctx context.Context) *pipeline {
	s.pipe.p, s.pipe.wants = s.conn.StartPipeline(ctx), s.pipe.wants[:0]
	return &s.pipe
}

// begin opens the target transaction when none is open. Constraints that can wait are checked at commit, as the source may
// have done.
func (p *pipeline) begin(s *session) {
	if s.open {
		return
	}
	s.open = true
	p.simple("BEGIN")
	p.simple("SET CONSTRAINTS ALL DEFERRED")
}

func (p *pipeline) simple(sql string) {
	p.p.SendQueryParams(sql, nil, nil, nil, nil)
	p.wants = append(p.wants, want{rows: -1})
}

func (p *pipeline) prepared(name string, params [][]byte, binaryParams bool, read func(*pgconn.ResultReader)) {
	var formats []int16
	if binaryParams {
		formats = []int16{1} // all of them
	}
	p.p.SendQueryPrepared(name, params, formats, nil)
	p.wants = append(p.wants, want{rows: -1, read: read})
}

// expectRows makes the last statement fail unless it changes so many rows.
func (p *pipeline) expectRows(n int64, b *binding) {
	w := &p.wants[len(p.wants)-1]
	w.rows, w.b = n, b
}

// finish sends everything, reads all results and returns the first error.
func (p *pipeline) finish() error {
	err := p.p.Sync()
	for i := 0; err == nil; {
		var results any
		if results, err = p.p.GetResults(); err != nil {
			break
		}
		r, ok := results.(*pgconn.ResultReader)
		if !ok {
			break // the end: *pgconn.PipelineSync
		}
		w := p.wants[i]
		i++
		if w.read != nil {
			w.read(r)
		}
		tag, closeErr := r.Close()
		switch {
		case closeErr != nil:
			err = closeErr
		case w.rows >= 0 && tag.RowsAffected() != w.rows:
			err = window.AbsentRow(w.b.table, w.rows-tag.RowsAffected(), w.rows)
		}
	}
	if closeErr := p.p.Close(); err == nil {
		err = closeErr
	}
	return err
}

// encode writes a statement's parameters: one binary text array per column.
func (s *session) encode(c *call) [][]byte {
	for len(s.params) < len(c.columns) {
		s.params = append(s.params, nil)
	}
	w := s.in
	rows := s.rows[c.first:c.last]
	for i, col := range c.columns {
		p := s.params[i][:0]
		p = binary.BigEndian.AppendUint32(p, 1)       // dimensions
		p = binary.BigEndian.AppendUint32(p, 1)       // may have NULLs
		p = binary.BigEndian.AppendUint32(p, textOID) // element type
		p = binary.BigEndian.AppendUint32(p, uint32(len(rows)))
		p = binary.BigEndian.AppendUint32(p, 1) // lower bound
		for _, first := range rows {
			v := w.Cell(first, col)
			if v.State != event.Text {
				p = append(p, 0xff, 0xff, 0xff, 0xff)
				continue
			}
			p = binary.BigEndian.AppendUint32(p, uint32(v.Size))
			p = append(p, w.Text(v)...)
		}
		s.params[i] = p
	}
	return s.params[:len(c.columns)]
}
