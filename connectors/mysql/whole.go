package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/mysql/chunks"
)

// whole begins the load of a table without a key: a snapshot of it at a position, under a lock that is held that long. The stream
// waits. An engine without transactions has no snapshots: the lock is then held until the rows are read, in its own session.
func (l *loader) whole(ctx context.Context, t *chunks.Task) error {
	name := t.Plan.Table.Collection()
	now, err := l.run.lookUp(ctx, t.Plan.Table.Database, t.Plan.Table.Name)
	if err != nil {
		return err
	}
	lock, _, err := l.session(ctx)
	if err != nil {
		return err
	}
	s := lock
	if now == nil || now.transactional() {
		defer lock.close() // ends the lock, too
		if s, _, err = l.session(ctx); err != nil {
			return err
		}
	}
	fail := func(err error) error {
		s.close()
		return fmt.Errorf("load table %s: %w", name, err)
	}
	if err := l.run.config.bound(ctx, lock); err != nil {
		return fail(err)
	}
	way := chunks.LockTable(&t.Plan.Table)
	if err := l.run.config.take(ctx, lock, way); err != nil {
		s.close()
		var passing *connectors.Passing
		if errors.As(err, &passing) { // the stream does not wait for who has the table
			l.run.warn("table " + name + " waits to be loaded: " + passing.Error())
			l.lockAt = time.Now().Add(lockPause)
			l.load.Later(t)
			return nil
		}
		if denied(err) {
			return &connectors.Fault{
				Problem: "table " + name + " has no key, and the user may not lock it", Err: err, Collection: name,
				Remedy: l.run.config.grantSQL(way.Needs) + "; or ALTER TABLE " + name + " ADD PRIMARY KEY (...)",
			}
		}
		if odd(err, t.Plan.Filter) { // it is gone, or another one: the stream will tell
			l.load.Stop(func(p *chunks.Progress) bool { return p == t.Progress })
			return l.load.Done(t, err)
		}
		return err
	}
	if s != lock {
		if err := s.execute(ctx, chunks.Snapshot); err != nil {
			return fail(err)
		}
	}
	end, err := lock.binlogStatus(ctx)
	if err != nil {
		return fail(err)
	}
	l.snapshots[t] = s
	t.At(chunks.Point{Server: l.run.server.identity(), File: end.file, Pos: end.pos})
	return l.load.Done(t, nil)
}

// lockFindings tells whether the user may take the locks that a load needs. A connector that has loaded its tables needs none.
func (c *Config) lockFindings(in *inspection) []connectors.Finding {
	if c.Snapshot == SnapshotNoData || in.server.mariaDB != c.MariaDB {
		return nil
	}
	keyless := ""
	lockable := true
	for _, t := range in.tables {
		may := in.grants.Has(t.schema, t.name, "LOCK TABLES")
		lockable = lockable && may
		if keyless == "" && !may && t.keyless() {
			keyless = t.String()
		}
	}
	global := in.grants.Has("", "", "RELOAD") || !c.MariaDB && in.grants.Has("", "", "FLUSH_TABLES")
	f := connectors.Finding{Level: connectors.LevelError, Subject: "user " + c.user}
	switch {
	case c.Locking != LockingNone && !global && !lockable:
		f.Problem = fmt.Sprintf("snapshot.locking.mode is %s, and it may not lock the captured tables", c.Locking)
		f.Remedy = c.grantSQL("RELOAD") + " (or LOCK TABLES, SELECT, to lock the captured tables alone); or snapshot.locking.mode: none"
	case keyless != "": // with a lock on all, too: what a snapshot did not show to the end is read so
		database, _, _ := strings.Cut(keyless, ".")
		f.Problem = "table " + keyless + " has no key along which it could be read in chunks, and it may not lock the table to read it at once"
		f.Remedy = "GRANT LOCK TABLES ON " + quoteIdent(database) + ".* TO " + c.account() + "; or give the table a primary key; or snapshot.mode: no_data"
		if c.Locking != LockingNone {
			f.Level = connectors.LevelWarning
		}
	default:
		return nil
	}
	return []connectors.Finding{f}
}

// keyless tells whether the table has no key along which chunks can be read.
func (t *table) keyless() bool {
	one := &chunks.Table{Keys: t.keys}
	for i := range t.columns {
		one.Columns = append(one.Columns, t.columns[i].name)
	}
	return one.ChooseKey() == nil
}
