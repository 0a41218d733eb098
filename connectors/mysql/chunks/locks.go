package chunks

import (
	"fmt"
	"strings"
)

// Lock is a way to keep a server's tables still while a position is read and snapshots are begun.
type Lock struct {
	Name    string
	Take    []string // statements, in a session of the lock's own: a transaction would end a lock on tables
	Release []string // what was taken ends with the session too
	Needs   string   // privileges, for messages
}

// Snapshot is the statement with which each session that reads begins while the Lock is held.
const Snapshot = beginSnapshot

// Locks are the ways of a snapshot.locking.mode, the best first: the next is for a user who may not take the one before, or a server that
// does not have it. With minimal the Lock is released when every reading session has begun its Snapshot and the position is known, with
// extended when all is read. With none there is no Lock: chunks are read beside the stream.
func Locks(mode string, mariaDB bool, tables []*Table) ([]Lock, error) {
	switch mode {
	case "none":
		return nil, nil
	case "minimal", "extended":
	default:
		return nil, fmt.Errorf("snapshot.locking.mode %q is not known: none, minimal or extended", mode)
	}
	var locks []Lock
	if mariaDB && mode == "minimal" { // commits alone wait, running statements go on
		locks = append(locks, Lock{
			Name:    "BACKUP STAGE",
			Take:    []string{"BACKUP STAGE START", "BACKUP STAGE FLUSH", "BACKUP STAGE BLOCK_DDL", "BACKUP STAGE BLOCK_COMMIT"},
			Release: []string{"BACKUP STAGE END"},
			Needs:   "RELOAD",
		})
	}
	locks = append(locks, Lock{
		Name: "FLUSH TABLES WITH READ LOCK",
		// The first flush waits for running statements without a lock, so that the second keeps everybody waiting for a shorter time.
		Take:    []string{"FLUSH LOCAL TABLES", "FLUSH LOCAL TABLES WITH READ LOCK"},
		Release: []string{"UNLOCK TABLES"},
		Needs:   "RELOAD (MySQL: or FLUSH_TABLES)",
	})
	if len(tables) > 0 {
		locks = append(locks, LockTable(tables...))
	}
	return locks, nil
}

// LockTable is the Lock of some tables alone. For a table without a key it is held for as long as it takes to begin the Snapshot and
// to read the end of the binlog: it waits for the transactions that have changed the table, and up to their commit to the engine.
func LockTable(tables ...*Table) Lock {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.quoted() + " READ"
	}
	return Lock{
		Name: "LOCK TABLES", Take: []string{"LOCK TABLES " + strings.Join(names, ", ")}, Release: []string{"UNLOCK TABLES"},
		Needs: "LOCK TABLES, SELECT",
	}
}
