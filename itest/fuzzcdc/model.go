package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// stampColumn holds what no two row versions of a run share; indexColumn says which of a table's possible keys a row has.
const (
	stampColumn = "v"
	indexColumn = "i"
)

// keySpace is how many keys a table may have: few, so that rows are met again.
const keySpace = 30

// kind is a type of column.
type kind struct {
	name    string                           // as DDL has it
	literal func(r *rand.Rand) string        // a value as SQL
	key     func(r *rand.Rand, i int) string // the i-th of at least keySpace values; nil: no type of keys
	wider   []string                         // kinds that hold all its values
	few     int                              // how many keys it has, where these are fewer than keySpace
}

type column struct {
	name    string
	kind    *kind
	notNull bool
}

// table is a table of the model: as it is once every statement before has run.
type table struct {
	name     string
	key      []column // none: the table has no key
	columns  []column
	before   int             // how many columns come before the key
	clauses  []string        // of its creation, after the columns
	after    []string        // statements of its creation
	engine   string          // MySQL: the storage engine
	born     int             // the round that made it
	replaced bool            // it took the name of another one, or was made while the connector ran
	altered  map[string]bool // columns that rows from before have in another form
}

func (t *table) keyed() bool { return len(t.key) > 0 }

// all are the columns.
func (t *table) all() []column { return slices.Concat(t.key, t.columns) }

// ordered are the columns as the table is created with them.
func (t *table) ordered() []column {
	n := min(t.before, len(t.columns))
	return slices.Concat(t.columns[:n], t.key, t.columns[n:])
}

// keys is how many rows it may have.
func (t *table) keys() int {
	n := 1
	for _, c := range t.key {
		if c.kind.few == 0 {
			return keySpace
		}
		n *= c.kind.few
	}
	return min(n, keySpace)
}

// keyValues are the values of the i-th key, column by column.
func (t *table) keyValues(r *rand.Rand, i int) []string {
	values := make([]string, len(t.key))
	for c, col := range t.key {
		switch {
		case len(t.key) == 1:
			values[c] = col.kind.key(r, i)
		case c == len(t.key)-1:
			values[c] = col.kind.key(r, i) // makes the key unique by itself where it has as many values
		default:
			few := max(col.kind.few, 2)
			values[c] = col.kind.key(r, i%few)
		}
	}
	return values
}

// usable are key kinds of which a composite key is unique: the last has all keys.
func usable(kinds []*kind, few bool) []*kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k *kind) bool { return !few && k.few > 0 })
}

// statement is one statement of a session.
type statement struct {
	sql     string
	tables  []string
	index   int  // of the key that it is about; many: of several
	guarded bool // a savepoint before it is gone back to when it fails
}

const many = -1

// transaction is what a session runs between BEGIN and its end.
type transaction struct {
	begin      string
	statements []statement
	end        []string // COMMIT, ROLLBACK, or the steps of a two-phase commit
	pause      int      // milliseconds before it
}

// step is one change of tables.
type step struct {
	sql   []string // in one transaction where the server can
	about []string // tables
}

func (s step) String() string { return strings.Join(s.sql, "; ") }

// faultKind is something that happens to the system.
type faultKind int

const (
	killNode faultKind = iota
	stopNode
	pauseNode
	restartConnector
	crashSource
	restartSource
	crashTarget
	cutSessions
	faultKinds
)

func (k faultKind) String() string {
	return [...]string{"kill the node", "stop the node", "pause the node", "restart the connector", "crash the source",
		"restart the source", "crash the target", "cut the connector's sessions"}[k]
}

// fault happens once so many of the round's transactions have ended.
type fault struct {
	after int
	kind  faultKind
}

// round is a piece of the plan, at the end of which all is quiet and compared.
type round struct {
	number   int
	ddl      [][]step // by segment
	settings [][][]string
	scripts  [][][]transaction // by session and segment
	faults   []fault
	touch    []statement // writes every row of the altered tables once more
	restart  bool        // there are new tables, which a connector takes in when it starts
	tables   []view      // what is compared
}

// view is a table as it is compared.
type view struct {
	name     string
	keyed    bool
	key      []string
	steady   bool            // it is there since before the connector was first started, under its name
	altered  map[string]bool // columns of which state has older forms: not compared there
	replaced bool
}

// text of the whole round: equal text, equal plan.
func (r *round) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "round %d restart %v\n", r.number, r.restart)
	for s, steps := range r.ddl {
		for _, step := range steps {
			fmt.Fprintf(&b, "segment %d: %s\n", s, step)
		}
	}
	for n, segments := range r.scripts {
		for s, list := range segments {
			fmt.Fprintf(&b, "session %d segment %d: %s\n", n, s, strings.Join(r.settings[n][s], "; "))
			for _, tx := range list {
				fmt.Fprintf(&b, "  %d ms %s\n", tx.pause, tx.begin)
				for _, st := range tx.statements {
					fmt.Fprintf(&b, "    %v %s\n", st.guarded, st.sql)
				}
				fmt.Fprintf(&b, "  %s\n", strings.Join(tx.end, "; "))
			}
		}
	}
	for _, f := range r.faults {
		fmt.Fprintf(&b, "after %d transactions: %s\n", f.after, f.kind)
	}
	for _, st := range r.touch {
		fmt.Fprintf(&b, "touch: %s\n", st.sql)
	}
	return b.String()
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }
