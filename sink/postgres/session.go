package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/window"
)

// session is a sink.Session: one connection, one target transaction at a time.
type session struct {
	target  *target
	conn    *pgconn.PgConn
	epoch   string
	offsets []sink.Offset

	open     bool                 // a target transaction is open
	tables   map[tableName]*table // as the catalog has them
	enums    map[string]*enumType // by oid
	traced   map[string]bool      // topics of which the trace was read
	in       *window.Intake[*binding]
	prepared int

	// Reused from one round trip to the next.
	element []byte
	pipe    pipeline
	calls   []call
	rows    []int32
	mask    []byte
	params  [][]byte

	commit struct {
		ready  bool
		params [][]byte
	}
}

func newSession(t *target, conn *pgconn.PgConn) *session {
	s := &session{target: t, conn: conn, tables: make(map[tableName]*table), enums: make(map[string]*enumType), traced: make(map[string]bool)}
	s.in = window.NewIntake(s, t.config.Truncate)
	return s
}

func (s *session) Offsets() []sink.Offset { return s.offsets }
func (s *session) SetCareful(on bool)     { s.in.Careful = on }
func (s *session) Close()                 { closeConn(s.conn) }

// Apply takes an event; it is described at sink.Session.
func (s *session) Apply(ctx context.Context, ev *sink.Event) error {
	return classify(s.in.Apply(ctx, ev))
}

// HoldsRows is of window.Database.
func (s *session) HoldsRows(ctx context.Context, b *binding) (bool, error) {
	rows, err := query(ctx, s.conn, "SELECT EXISTS (SELECT FROM "+b.table.name.String()+")")
	return err == nil && string(rows[0][0]) == "t", err
}

// Commit writes what is left, checks that no newer session exists, stores the offsets and commits: invariant 4.
func (s *session) Commit(ctx context.Context, offsets []sink.Offset) error {
	if err := s.in.Settle(ctx); err != nil {
		return classify(err)
	}
	return classify(s.commitOffsets(ctx, offsets))
}

func (s *session) commitOffsets(ctx context.Context, offsets []sink.Offset) error {
	if err := s.prepareCommit(ctx); err != nil {
		return err
	}
	epoch := ""
	p := s.pipeline(ctx)
	p.begin(s)
	p.prepared("rowtrail_fence", [][]byte{[]byte(s.target.config.Name)}, false, func(r *pgconn.ResultReader) {
		for r.NextRow() {
			epoch = string(r.Values()[0])
		}
	})
	if len(offsets) > 0 {
		p.prepared("rowtrail_offsets", s.offsetParams(offsets), false, nil)
	}
	if err := p.finish(); err != nil {
		return fmt.Errorf("store offsets: %w", err)
	}
	if epoch != s.epoch {
		return fmt.Errorf("commit sink %s at epoch %s, the target is at epoch %s: %w", s.target.config.Name, s.epoch, epoch, sink.ErrFenced)
	}
	results, err := s.conn.Exec(ctx, "COMMIT").ReadAll()
	switch {
	case err != nil:
		return fmt.Errorf("commit target transaction: %w", err)
	case len(results) != 1 || results[0].CommandTag.String() != "COMMIT":
		return errors.New("commit target transaction: the server rolled it back")
	}
	s.open = false
	return nil
}

func (s *session) prepareCommit(ctx context.Context) error {
	if s.commit.ready {
		return nil
	}
	c := s.target.config
	_, err := s.conn.Prepare(ctx, "rowtrail_fence", "SELECT epoch FROM "+c.sinksTable()+" WHERE sink = $1 FOR SHARE", nil)
	if err != nil {
		return fmt.Errorf("prepare epoch check: %w", err)
	}
	_, err = s.conn.Prepare(ctx, "rowtrail_offsets", "INSERT INTO "+c.offsetsTable()+` (sink, topic, partition, next_offset, position, behind, log_id, updated_at)
		SELECT $1, u.t, u.p, u.n, u.c, u.b, u.l, clock_timestamp()
		FROM unnest($2::text[], $3::integer[], $4::bigint[], $5::bigint[], $6::boolean[], $7::text[]) AS u(t, p, n, c, b, l)
		ON CONFLICT (sink, topic, partition) DO UPDATE SET next_offset = EXCLUDED.next_offset, position = EXCLUDED.position,
		behind = EXCLUDED.behind, log_id = EXCLUDED.log_id, updated_at = EXCLUDED.updated_at`, nil)
	if err != nil {
		return fmt.Errorf("prepare offsets: %w", err)
	}
	s.commit.ready = true
	s.commit.params = make([][]byte, 7)
	return nil
}

// offsetParams writes the offsets as text arrays.
func (s *session) offsetParams(offsets []sink.Offset) [][]byte {
	p := s.commit.params
	p[0] = append(p[0][:0], s.target.config.Name...)
	for i := 1; i < len(p); i++ {
		p[i] = append(p[i][:0], '{')
	}
	for i, o := range offsets {
		if i > 0 {
			for j := 1; j < len(p); j++ {
				p[j] = append(p[j], ',')
			}
		}
		p[1] = strconv.AppendQuote(p[1], o.Topic) // topic names are [a-zA-Z0-9._-]
		p[2] = strconv.AppendInt(p[2], int64(o.Partition), 10)
		p[3] = strconv.AppendInt(p[3], o.Next, 10)
		p[4] = strconv.AppendInt(p[4], int64(o.Position), 10)
		p[5] = strconv.AppendBool(p[5], o.Behind)
		if o.Log == "" {
			p[6] = append(p[6], "NULL"...)
		} else {
			p[6] = strconv.AppendQuote(p[6], o.Log)
		}
	}
	for i := 1; i < len(p); i++ {
		p[i] = append(p[i], '}')
	}
	return p
}
