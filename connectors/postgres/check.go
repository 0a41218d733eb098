package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

const (
	minVersion = 130000
	// shortWalSenderTimeout: below it, a pause of this machine can cost the connection.
	shortWalSenderTimeout = 5000
)

// inspection is what the source says before anything is changed there.
type inspection struct {
	version      int
	settings     map[string]string
	role         string
	superuser    bool
	replication  bool
	mayCreate    bool // publications in this database
	standby      bool
	slotsUsed    int
	sendersUsed  int
	tables       []*table
	unidentified []string // other tables without replica identity, for all_tables
	described    map[*table]description
	publication  *publication
	slot         *slot
}

// description is what events make of a table.
type description struct {
	lossy   []string // columns of which they keep less than there is
	keyless bool
	err     error
}

func (c *Config) inspect(ctx context.Context, conn *pgconn.PgConn) (*inspection, error) {
	rows, err := query(ctx, conn, `SELECT current_setting('server_version_num'), current_user, r.rolsuper, r.rolreplication OR r.rolsuper
  OR EXISTS (SELECT FROM pg_roles m WHERE m.rolname IN ('rds_replication', 'rds_superuser', 'azure_pg_admin', 'cloudsqlsuperuser', 'alloydbsuperuser') AND pg_has_role(current_user, m.oid, 'MEMBER')),
  has_database_privilege(current_database(), 'CREATE'), pg_is_in_recovery(),
  (SELECT count(*) FROM pg_replication_slots), (SELECT count(*) FROM pg_stat_replication)
  FROM pg_roles r WHERE r.rolname = current_user`)
	if err != nil {
		return nil, fmt.Errorf("inspect source: %w", err)
	}
	if len(rows) != 1 {
		return nil, fmt.Errorf("inspect source: the role has %d rows in pg_roles", len(rows))
	}
	r := rows[0]
	in := &inspection{
		settings: map[string]string{}, role: string(r[1]), superuser: isTrue(r[2]), replication: isTrue(r[3]),
		mayCreate: isTrue(r[4]), standby: isTrue(r[5]),
	}
	in.version, _ = strconv.Atoi(string(r[0]))
	in.slotsUsed, _ = strconv.Atoi(string(r[6]))
	in.sendersUsed, _ = strconv.Atoi(string(r[7]))
	rows, err = query(ctx, conn, `SELECT name, setting FROM pg_settings WHERE name IN
 ('wal_level', 'max_replication_slots', 'max_wal_senders', 'wal_sender_timeout', 'max_slot_wal_keep_size', 'idle_replication_slot_timeout', 'server_encoding')`)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	for _, r := range rows {
		in.settings[string(r[0])] = string(r[1])
	}
	if in.version < minVersion {
		return in, nil
	}
	if in.tables, err = c.captured(ctx, conn, 0); err != nil {
		return nil, err
	}
	if in.publication, err = readPublication(ctx, conn, c.Publication, in.version); err != nil {
		return nil, err
	}
	if in.described, err = c.describeAll(ctx, conn, in.tables, in.publication); err != nil {
		return nil, err
	}
	if in.slot, err = readSlot(ctx, conn, c.Slot, in.version); err != nil {
		return nil, err
	}
	if c.Autocreate == AutocreateAllTables && in.publication == nil {
		rows, err = query(ctx, conn, `SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_%'
   AND (c.relreplident = 'n' OR (c.relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))) ORDER BY 1, 2`)
		if err != nil {
			return nil, fmt.Errorf("list tables without replica identity: %w", err)
		}
		for _, r := range rows {
			in.unidentified = append(in.unidentified, string(r[0])+"."+string(r[1]))
		}
	}
	return in, nil
}

// describeAll describes the tables as the load would find them.
func (c *Config) describeAll(ctx context.Context, conn *pgconn.PgConn, tables []*table, p *publication) (map[*table]description, error) {
	var refs []typeRef
	for _, t := range tables {
		m := catalogRelation(t, p)
		refs = m.types(refs)
	}
	facts, err := types(ctx, conn, refs)
	if err != nil {
		return nil, err
	}
	described := make(map[*table]description, len(tables))
	for _, t := range tables {
		r, err := c.describe(catalogRelation(t, p), t, facts)
		if err != nil {
			described[t] = description{err: err}
			continue
		}
		described[t] = description{lossy: r.Schema.Lossy(), keyless: len(r.Schema.KeyColumns()) == 0}
	}
	return described, nil
}

// setting is a numeric setting.
func (in *inspection) setting(name string) int {
	n, _ := strconv.Atoi(in.settings[name])
	return n
}

// Check connects and reports everything that stands in the way, with what mends it.
func Check(ctx context.Context, c *Config) []connectors.Finding {
	conn, err := c.dial(ctx)
	if err != nil {
		return []connectors.Finding{connectors.FindingOf("connection", err)}
	}
	defer closeConn(conn)
	in, err := c.inspect(ctx, conn)
	if err != nil {
		return []connectors.Finding{connectors.FindingOf("connection", err)}
	}
	list := c.findings(in)
	if in.version < minVersion {
		return list
	}
	slot, err := c.checkSlot(ctx, conn, in)
	if err != nil {
		return append(list, connectors.FindingOf("slot "+c.Slot, err))
	}
	return append(list, slot...)
}

// findings judges an inspection; it does no I/O.
func (c *Config) findings(in *inspection) []connectors.Finding {
	var list []connectors.Finding
	add := func(level, subject, remedy, format string, args ...any) {
		list = append(list, connectors.Finding{Level: level, Subject: subject, Problem: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	const bad, warn = connectors.LevelError, connectors.LevelWarning
	if in.version < minVersion {
		add(bad, "server", "upgrade the server", "Postgres 13 or later is needed, this is %d", in.version/10000)
		return list
	}
	if in.standby && in.version < 160000 {
		add(bad, "server", "connect to the primary", "this is a standby; logical decoding on standbys needs Postgres 16")
	}
	if level := in.settings["wal_level"]; level != "logical" {
		add(bad, "wal_level", "ALTER SYSTEM SET wal_level = logical; then restart the server", "wal_level is %s", level)
	}
	if enc := in.settings["server_encoding"]; enc == "SQL_ASCII" {
		add(bad, "server_encoding", "move the data to a database with encoding UTF8", "encoding SQL_ASCII does not say what its text means")
	}
	if !in.replication {
		add(bad, "role "+in.role, "ALTER ROLE "+quoteIdent(in.role)+" REPLICATION", "the role may not replicate")
	}
	c.slotFindings(in, add)
	if v := in.setting("max_slot_wal_keep_size"); v >= 0 {
		add(warn, "max_slot_wal_keep_size", "ALTER SYSTEM SET max_slot_wal_keep_size = -1; SELECT pg_reload_conf()",
			"the slot is lost when the connector is stopped for more than %d MB of WAL", v)
	}
	if v := in.setting("idle_replication_slot_timeout"); v > 0 { // Postgres 18
		add(warn, "idle_replication_slot_timeout", "ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf()",
			"the slot is lost when the connector is stopped for more than %d s", v)
	}
	if v := in.setting("wal_sender_timeout"); v > 0 && v < shortWalSenderTimeout {
		add(warn, "wal_sender_timeout", "ALTER SYSTEM SET wal_sender_timeout = '60s'; SELECT pg_reload_conf()", "%d ms is short: a pause costs the connection", v)
	}
	if len(in.tables) == 0 {
		add(bad, "tables", "correct table.include.list, schema.include.list or their exclude lists; GRANT USAGE on the schema if it is hidden", "no table of database %s is captured", c.Database)
		return list
	}
	var topics connectors.TopicChecker
	var keyless []string
	for _, t := range in.tables {
		topic, before := c.TopicOf(t.schema, t.name), len(list)
		c.tableFindings(t, in, add)
		if in.described[t].keyless && len(list) > before {
			list[before].Keyless = topic
		}
		if in.described[t].keyless {
			keyless = append(keyless, t.String())
		}
		if problem, remedy := topics.Add(topic, t.String()); problem != "" {
			add(bad, "table "+t.String(), remedy, "%s", problem)
		}
	}
	c.publicationFindings(in, add)
	return append(list, c.TopicFindings(keyless)...)
}

type addFinding func(level, subject, remedy, format string, args ...any)

func (c *Config) slotFindings(in *inspection, add addFinding) {
	subject := "slot " + c.Slot
	drop := "SELECT pg_drop_replication_slot(" + quoteLiteral(c.Slot) + "), or set slot.name"
	if c.Failover && in.version < failoverVersion {
		add(connectors.LevelWarning, subject, "remove slot.failover, or upgrade the server", "slot.failover has no effect before Postgres 17")
	}
	need := 1 // the slot itself, or the temporary one of a load
	if s := in.slot; s != nil {
		need = 0
		switch {
		case s.physical || s.plugin != plugin:
			add(connectors.LevelError, subject, drop, "it is not a logical slot of plugin %s", plugin)
		case s.database != c.Database:
			add(connectors.LevelError, subject, "set slot.name to another name", "it belongs to database %s", s.database)
		case s.temporary:
			add(connectors.LevelError, subject, "set slot.name to another name", "it is temporary")
		case s.lost() != "":
			add(connectors.LevelError, subject, drop+", then delete topic "+c.Prefix+".position (`rowtrail topics delete`) to load again", "it is lost: %s", s.lost())
		case c.Failover && in.version >= failoverVersion && !s.failover:
			add(connectors.LevelWarning, subject, "ALTER_REPLICATION_SLOT "+quoteIdent(c.Slot)+" (FAILOVER true) on a connection with replication=database",
				"slot.failover is set, but it exists and is not synchronized to standbys")
		case s.active:
			add(connectors.LevelWarning, subject, fmt.Sprintf("stop the other reader, or SELECT pg_terminate_backend(%d)", s.activePID), "it is in use by process %d", s.activePID)
		}
	}
	for name, used := range map[string]int{"max_replication_slots": in.slotsUsed, "max_wal_senders": in.sendersUsed} {
		if limit := in.setting(name); used+need > limit {
			add(connectors.LevelError, name, fmt.Sprintf("ALTER SYSTEM SET %s = %d; then restart the server", name, limit+4), "all %d are in use", limit)
		}
	}
}

func (c *Config) tableFindings(t *table, in *inspection, add addFinding) {
	subject := "table " + t.String()
	if !t.mayRead && c.Snapshot != SnapshotNoData {
		add(connectors.LevelError, subject, "GRANT USAGE ON SCHEMA "+quoteIdent(t.schema)+" TO "+quoteIdent(in.role)+"; GRANT SELECT ON "+t.quoted()+" TO "+quoteIdent(in.role), "role %s may not read it", in.role)
	}
	full := "ALTER TABLE " + t.quoted() + " REPLICA IDENTITY FULL"
	switch {
	case !t.identifies():
		// P7: published without identity, the application's own UPDATE and DELETE would fail.
		add(connectors.LevelError, subject, full+" (or add a primary key, or ALTER TABLE "+t.quoted()+" REPLICA IDENTITY USING INDEX a unique index on NOT NULL columns)",
			"it has no replica identity: once published, UPDATE and DELETE on it would fail")
	case t.identity == identityFull && len(t.primaryKey) == 0 && c.KeyFor(t.schema, t.name) == nil:
		add(connectors.LevelWarning, subject, "ALTER TABLE "+t.quoted()+" ADD PRIMARY KEY (...), or name columns in message.key.columns",
			"it has no primary key: its events have no key, so there is no current state per row")
	}
	if in.version >= 180000 && t.identity == identityFull { // P7: from then on Postgres refuses the application's changes
		switch published := in.publication != nil && in.publication.generated; {
		case t.generates(generatedVirtual):
			add(connectors.LevelError, subject, "ALTER TABLE "+t.quoted()+" REPLICA IDENTITY DEFAULT (with a primary key)",
				"its replica identity FULL holds virtual generated columns: once published, UPDATE and DELETE on it would fail")
		case t.generates(generatedStored) && !published:
			add(connectors.LevelError, subject, "ALTER TABLE "+t.quoted()+" REPLICA IDENTITY DEFAULT (with a primary key), or make publication "+quoteIdent(c.Publication)+" WITH (publish_generated_columns = stored)",
				"its replica identity FULL holds generated columns that are not published: once published, UPDATE and DELETE on it would fail")
		}
	}
	c.descriptionFindings(subject, in.described[t], add)
	for _, name := range c.KeyFor(t.schema, t.name) {
		switch col := t.column(name); {
		case col == nil || !in.publication.publishes(*col):
			add(connectors.LevelError, subject, "correct message.key.columns", "it has no captured column %s", name)
		case !t.identifiedBy(name):
			add(connectors.LevelError, subject, full, "message.key.columns names %s, which deletes do not carry", name)
		}
	}
}

func (c *Config) descriptionFindings(subject string, d description, add addFinding) {
	if d.err != nil {
		problem, remedy := d.err.Error(), "leave the table out with table.exclude.list"
		var f *connectors.Fault
		if errors.As(d.err, &f) {
			remedy = f.Remedy
			if problem = f.Problem; f.Err != nil {
				problem = f.Err.Error()
			}
		}
		add(connectors.LevelError, subject, remedy, "it cannot be captured: %s", problem)
	}
	if len(d.lossy) == 0 {
		return
	}
	var modes, remedies []string
	if c.Event.TimePrecision == event.TimeConnect {
		modes, remedies = append(modes, "time.precision.mode connect"), append(remedies, "time.precision.mode: adaptive")
	}
	if c.Event.IntervalHandling == event.IntervalNumeric {
		modes, remedies = append(modes, "interval.handling.mode numeric"), append(remedies, "interval.handling.mode: string")
	}
	add(connectors.LevelWarning, subject, strings.Join(remedies, ", "), "%s keeps less than the full value of: %s", strings.Join(modes, " or "), strings.Join(d.lossy, ", "))
}

// identifiedBy tells whether the old row of an update or delete carries a column.
func (t *table) identifiedBy(column string) bool {
	list := t.primaryKey
	switch t.identity {
	case identityFull:
		return true
	case identityIndex:
		list = t.identityKey
	}
	for _, n := range list {
		if n == column {
			return true
		}
	}
	return false
}

func (c *Config) publicationFindings(in *inspection, add addFinding) {
	subject := "publication " + c.Publication
	p := in.publication
	if p != nil && len(p.filtered) > 0 {
		for _, name := range p.filtered {
			if c.capturesName(name) {
				add(connectors.LevelError, subject, "ALTER PUBLICATION "+quoteIdent(c.Publication)+" SET TABLE ... without WHERE and column list; use column.exclude.list instead",
					"it has a row filter or column list for %s: the load and the stream would differ", name)
			}
		}
	}
	sql := c.publicationSQL(p, in.tables)
	if len(sql) == 0 {
		return
	}
	remedy := strings.Join(sql, "; ")
	if c.Autocreate == AutocreateDisabled {
		what := "it does not exist"
		if p != nil {
			what = "it does not publish all that is captured"
		}
		add(connectors.LevelError, subject, remedy, "%s, and publication.autocreate.mode is disabled", what)
		return
	}
	switch {
	case p != nil && !p.owned && !in.superuser:
		add(connectors.LevelError, subject, remedy+" (as its owner)", "role %s may not change it", in.role)
	case p == nil && !in.mayCreate && !in.superuser:
		add(connectors.LevelError, subject, "GRANT CREATE ON DATABASE "+quoteIdent(c.Database)+" TO "+quoteIdent(in.role)+", or as a superuser: "+remedy, "role %s may not create it", in.role)
	case c.Autocreate == AutocreateAllTables && p == nil:
		if !in.superuser {
			add(connectors.LevelError, subject, "as a superuser: "+remedy, "only a superuser may publish all tables")
		}
		if len(in.unidentified) > 0 {
			add(connectors.LevelError, subject, "set publication.autocreate.mode to filtered, or give each a replica identity",
				"publishing all tables would make UPDATE and DELETE fail on tables without replica identity: %s", strings.Join(in.unidentified, ", "))
		}
	case !in.superuser:
		for _, t := range in.tables {
			if !t.owned && (p == nil || !p.tables[t.String()]) {
				add(connectors.LevelError, "table "+t.String(), "as a superuser: "+remedy, "role %s does not own it and so may not publish it", in.role)
			}
		}
	}
}

func (c *Config) capturesName(name string) bool {
	schema, table, _ := strings.Cut(name, ".")
	return c.captures(schema, table)
}
