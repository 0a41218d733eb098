package mysql

import (
	"context"
	"math"

	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
)

const (
	// fileStart is where the first event of a binlog file is.
	fileStart = 4
	// seekBytes is how much of the binlog before the begin is read for transactions that are prepared then.
	seekBytes = 1 << 30
)

// seek is a part of the binlog before the begin that is read for what is prepared in it (XA) and not committed there: what such transactions
// changed counts after the begin. Everything else in it is left out.
type seek struct{ from, to place }

type seekJSON struct {
	File   string `json:"file"`
	Pos    uint64 `json:"pos"`
	ToFile string `json:"to_file"`
	ToPos  uint64 `json:"to_pos"`
}

func (k *seek) json() *seekJSON { return &seekJSON{k.from.file, k.from.pos, k.to.file, k.to.pos} }

func (j *seekJSON) seek() *seek {
	return &seek{from: place{j.File, j.Pos}, to: place{j.ToFile, j.ToPos}}
}

// position is where a dump can begin, which takes 32 bits.
func (k *seek) position() uint32 {
	if k.from.pos > math.MaxUint32 {
		return fileStart
	}
	return uint32(k.from.pos)
}

// beforeBegin is what the source says before the begin is chosen: whatever is prepared before the begin and not committed there is either
// in the list, or its XA PREPARE is after the place.
type beforeBegin struct {
	at       place
	prepared []string
	ok       bool // the list may be asked for
}

func (s *session) beforeBegin(ctx context.Context) (*beforeBegin, error) {
	status, err := s.binlogStatus(ctx)
	if err != nil {
		return nil, err
	}
	b := &beforeBegin{at: status.place}
	b.prepared, b.ok, err = s.prepared(ctx)
	return b, err
}

// seek says from where a connector that begins at p reads. Where the XA PREPARE of what is prepared already stands is not known: whole
// files are read, of seekBytes together, and at least the last one.
func (r *run) seek(ctx context.Context, s *session, p *point) error {
	uses := r.replica
	if !uses {
		var err error
		if uses, err = s.usesXA(ctx); err != nil {
			return err
		}
	}
	end, err := s.binlogStatus(ctx)
	if err != nil {
		return err
	}
	b := r.before
	if len(b.prepared) == 0 && (b.ok && b.at == end.place || !uses) {
		return nil
	}
	from := b.at
	if len(b.prepared) > 0 || !b.ok {
		files, err := s.binlogFiles(ctx)
		if err != nil {
			return err
		}
		size := uint64(0)
		for i := len(files) - 1; i >= 0; i-- {
			if size += files[i].pos; size > seekBytes && fileNumber(files[i].file) < fileNumber(b.at.file) {
				break
			}
			if fileNumber(files[i].file) <= fileNumber(b.at.file) {
				from = place{files[i].file, fileStart}
			}
		}
		r.log.Info("the binlog before the begin is read for prepared transactions", "transactions", len(b.prepared), "from", from.String())
	}
	p.seek = &seek{from: from, to: end.place}
	return nil
}

func (p place) before(q place) bool {
	n, m := fileNumber(p.file), fileNumber(q.file)
	return n < m || n == m && p.pos < q.pos
}

// seeks tells whether a group that begins at a place is before the point. With MySQL's GTIDs they tell.
func (p *point) seeks(start place) bool {
	return p.seek != nil && p.at.file != "" && start.before(p.at)
}

// sought ends the seeking where the stream has come to its end.
func (s *stream) sought(at place) {
	if s.point.seek == nil || at.before(s.point.seek.to) {
		return
	}
	next := *s.point
	next.seek = nil
	s.point = &next
}

// seekRows takes rows of a group that is before the point. The table's columns of then need not be known unless the transaction is
// committed.
func (s *stream) seekRows(ctx context.Context, e *binlog.Event) error {
	if s.group.hold == nil || !s.config.captures(e.Rows.Table.Schema, e.Rows.Table.Name) {
		return nil
	}
	return s.holdRows(ctx, e)
}
