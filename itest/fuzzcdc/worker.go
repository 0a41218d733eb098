package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	attempts    = 4  // of a transaction
	alterations = 60 // attempts of a change of tables
	retryPause  = 150 * time.Millisecond
	patience    = 60 * time.Second // for a server that is away
)

// worker is one session of the workload.
type worker struct {
	*run
	name     string
	rounds   [][]transaction // by segment
	settings [][]string
	reach    func(segment int)

	session session
	setting []string // of the session, to be made again after it was lost
}

func (w *worker) work(ctx context.Context) error {
	defer w.drop()
	for segment, list := range w.rounds {
		w.reach(segment)
		w.setting = w.settings[segment]
		w.drop() // settings are those of a new session
		for _, tx := range list {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			sleep.For(ctx, time.Duration(tx.pause)*time.Millisecond)
			if err := w.transaction(ctx, tx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *worker) drop() {
	if w.session != nil {
		w.session.close()
		w.session = nil
	}
}

// open waits for the server.
func (w *worker) open(ctx context.Context) error {
	deadline := time.Now().Add(patience)
	for w.session == nil {
		s, err := w.src.connect(ctx)
		if err == nil {
			w.session = s
			for _, sql := range w.setting {
				if err = w.exec(ctx, statement{sql: sql}); err != nil {
					break
				}
			}
		}
		if err == nil {
			return nil
		}
		w.drop()
		if time.Now().After(deadline) || !sleep.For(ctx, retryPause) {
			return fmt.Errorf("%s: connect to the source: %w", w.name, err)
		}
	}
	return nil
}

func (w *worker) exec(ctx context.Context, st statement) error {
	n, err := w.session.exec(ctx, st.sql)
	outcome := fmt.Sprintf("%d rows", n)
	if err != nil {
		outcome = err.Error()
	}
	w.journal.add(w.name, st, outcome)
	return err
}

// transaction runs one, again when another session stood in its way. What fails is no error: the server says what there is.
func (w *worker) transaction(ctx context.Context, tx transaction) error {
	for range attempts {
		if err := w.open(ctx); err != nil {
			return err
		}
		err := w.attempt(ctx, tx)
		if err == nil {
			w.done.Add(1)
			return nil
		}
		switch w.src.judge(err) {
		case lost:
			w.drop()
			w.failed.Add(1)
			return w.second(ctx, tx)
		case again, notYet:
			if !sleep.For(ctx, retryPause) {
				return ctx.Err()
			}
			continue
		}
		break
	}
	w.failed.Add(1)
	return nil
}

// second ends a prepared transaction whose session was lost after its first phase, so that its locks do not stay.
func (w *worker) second(ctx context.Context, tx transaction) error {
	if len(tx.end) < 2 || strings.HasPrefix(tx.end[0], "SELECT") {
		return nil
	}
	for range attempts {
		if err := w.open(ctx); err != nil {
			return err
		}
		err := w.exec(ctx, statement{sql: tx.end[1]})
		if err == nil || w.src.judge(err) != lost {
			return nil
		}
		w.drop()
	}
	return nil
}

func (w *worker) attempt(ctx context.Context, tx transaction) error {
	if err := w.exec(ctx, statement{sql: tx.begin}); err != nil {
		return err
	}
	for _, st := range tx.statements {
		if !st.guarded {
			if err := w.exec(ctx, st); err != nil {
				return w.rollback(ctx, err)
			}
			continue
		}
		if err := w.exec(ctx, statement{sql: "SAVEPOINT guard"}); err != nil {
			return w.rollback(ctx, err)
		}
		if err := w.exec(ctx, st); err != nil {
			if w.src.judge(err) != refused {
				return w.rollback(ctx, err)
			}
			if err := w.exec(ctx, statement{sql: "ROLLBACK TO SAVEPOINT guard"}); err != nil {
				return w.rollback(ctx, err)
			}
		}
	}
	for i, sql := range tx.end {
		if err := w.exec(ctx, statement{sql: sql}); err != nil {
			if i > 0 {
				return err
			}
			return w.rollback(ctx, err)
		}
	}
	return nil
}

func (w *worker) rollback(ctx context.Context, cause error) error {
	if w.src.judge(cause) == lost {
		return cause
	}
	if err := w.exec(ctx, statement{sql: "ROLLBACK"}); err != nil {
		return err
	}
	return cause
}

// alter makes a change of tables, until it is made.
func (r *run) alter(ctx context.Context, s step) error {
	w := &worker{run: r, name: "ddl"}
	defer w.drop()
	var last error
	for range alterations {
		if err := w.open(ctx); err != nil {
			return err
		}
		err := w.change(ctx, s, last != nil)
		if err == nil {
			r.result.Changes++
			return nil
		}
		last = err
		if v := r.src.judge(err); v == lost {
			w.drop()
		} else if v == refused {
			break
		}
		if !sleep.For(ctx, retryPause) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s: %w", s, last)
}

// change runs a step once. After a failure whose outcome is not known, what is done already is no error.
func (w *worker) change(ctx context.Context, s step, retried bool) error {
	run := func(sql string) error { return w.exec(ctx, statement{sql: sql, tables: s.about, index: many}) }
	whole := len(s.sql) > 1
	if whole {
		if err := run("BEGIN"); err != nil {
			return err
		}
	}
	for _, sql := range s.sql {
		if err := run(sql); err != nil {
			v := w.src.judge(err)
			if whole && v != lost {
				if err := run("ROLLBACK"); err != nil {
					return err
				}
			}
			if retried && (v == settled || v == notYet) {
				return nil
			}
			return err
		}
	}
	if whole {
		return run("COMMIT")
	}
	return nil
}
