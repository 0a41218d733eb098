package mysql

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
)

// watchEvery is how often the source is asked how far its binlog goes.
const watchEvery = time.Second

// side is an ordinary session for what is asked beside the stream. It is opened when it is needed, and again when it broke.
type side struct {
	config *Config

	mu      sync.Mutex
	session *session
}

// use runs f, which has the session for itself. A session that broke while it was idle is opened anew, once.
func (s *side) use(ctx context.Context, f func(*session) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for attempt := 0; ; attempt++ {
		fresh := s.session == nil || s.session.dead
		if fresh {
			s.session.close()
			s.session = nil
			session, err := s.config.dial(ctx)
			if err != nil {
				return err
			}
			s.session = session
		}
		err := f(s.session)
		if err == nil || fresh || attempt > 0 || !s.session.dead || ctx.Err() != nil {
			return err
		}
	}
}

func (s *side) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session.close()
}

// lookUp is a table as the catalog has it now, nil if it is gone.
func (r *run) lookUp(ctx context.Context, schema, name string) (*table, error) {
	var now *table
	err := r.side.use(ctx, func(s *session) error {
		ctx, cancel := context.WithTimeout(ctx, queryTimeout)
		defer cancel()
		list, err := r.config.catalog(ctx, s, schema, name)
		if len(list) > 0 {
			now = list[0]
		}
		return err
	})
	return now, err
}

// transactional tells whether a table's engine can take changes back.
func (r *run) transactional(ctx context.Context, t *relation) (bool, error) {
	yes, err := r.engine(ctx, t)
	if err == nil && yes == nil {
		err = &connectors.Fault{
			Collection: t.Collection,
			Problem:    "a transaction that changed table " + t.Collection + " was rolled back in part, and the table is gone, so that it cannot be told whether its engine took the change back",
			Remedy:     "leave the table out with table.exclude.list, or " + r.config.again(),
		}
	}
	return yes != nil && *yes, err
}

// engine is transactional where the table may be gone: nil then.
func (r *run) engine(ctx context.Context, t *relation) (*bool, error) {
	if t.transactional != nil {
		return t.transactional, nil
	}
	err := r.side.use(ctx, func(s *session) error {
		list, err := s.query(ctx, `SELECT e.transactions FROM information_schema.tables t JOIN information_schema.engines e ON e.engine = t.engine
 WHERE t.table_schema = `+quoteLiteral(t.schema)+" AND t.table_name = "+quoteLiteral(t.name))
		if err != nil {
			return fmt.Errorf("ask for the engine of table %s: %w", t.Collection, err)
		}
		if len(list) > 0 {
			yes := string(list[0][0]) == "YES"
			t.transactional = &yes
		}
		return nil
	})
	return t.transactional, err
}

// watch looks how far the source's binlog goes, for the lag in bytes.
func (r *run) watch(ctx context.Context) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		if err := r.look(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("the lag in bytes is not known", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func (r *run) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return r.side.use(ctx, func(s *session) error {
		at := r.stream.reached.Load() // before the end
		if m := r.committed.Load(); m != nil && m.Events < r.stream.seen.Load() {
			at = &m.Resume.(*point).at
		}
		if at == nil || at.file == "" {
			at = &r.resume.point.at
		}
		status, err := s.binlogStatus(ctx)
		if err != nil {
			return err
		}
		behind := int64(0)
		if status.file == at.file {
			behind = int64(status.pos) - int64(at.pos)
		} else {
			files, err := s.binlogFiles(ctx)
			if err != nil {
				return err
			}
			from := fileNumber(at.file)
			for _, f := range files {
				switch n := fileNumber(f.file); {
				case n == from:
					behind += int64(f.pos) - int64(at.pos)
				case n > from:
					behind += int64(f.pos)
				}
			}
		}
		r.behind.Store(max(behind, 0))
		return nil
	})
}
