package main

import (
	"context"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// verdict is what an error of a statement means.
type verdict int

const (
	refused   verdict = iota // the statement failed, the session is well
	again                    // a deadlock and the like: the whole transaction may be tried again
	notYet                   // a table or column that another session has still to make, or made away with
	lost                     // the session is gone, and the outcome is not known
	settled                  // what was to be done is done already
	transient                // of changes of tables: to be tried again until it works
)

// session runs statements.
type session interface {
	exec(ctx context.Context, sql string) (affected int64, err error)
	close()
}

// source is the server that is captured, as the run needs it.
type source interface {
	connect(ctx context.Context) (session, error)
	judge(err error) verdict
	restart(ctx context.Context, how servers.Shutdown) error
	// settle ends what sessions have left open.
	settle(ctx context.Context) error
	// cut ends the connector's sessions.
	cut(ctx context.Context) error
}

// copied is a table as one end has it, in the source's text.
type copied struct {
	columns []string
	rows    map[string][]*string // by key
	twice   []string             // keys that more than one row has
}

// end is a database whose tables are compared.
type end interface {
	// columns of a table that travel, in order.
	columns(ctx context.Context, table string) ([]string, error)
	// read reads the columns of a table as text, by key.
	read(ctx context.Context, table string, columns, key []string) (*copied, error)
	close()
}

// auditor tells what the source has committed, row version by row version.
type auditor interface {
	// take adds what has been committed since it was asked last.
	take(ctx context.Context, to *commits) error
}
