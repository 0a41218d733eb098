package mysql

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/mysql/grants"
)

const (
	minMySQL   = 80000
	minMariaDB = 100600
	// shortRetention: below it, a night's outage of the connector is a gap.
	shortRetention = 24 * 3600
)

// inspection is what the source says before anything is created.
type inspection struct {
	server  *server
	status  binlogStatus
	noState error // why status may not be read
	replica bool
	blind   bool // whether it is a replica may not be asked
	grants  grants.List
	mayDump bool
	readers []reader
	mayList bool // the readers
	tables  []*table
	denied  []*table // that may not be read
	signals *table   // of signal.data.collection, nil if it is not there
	rds     *string  // RDS' binlog retention hours, "" if not set; nil: this is not RDS
}

func (c *Config) inspect(ctx context.Context, s *session) (*inspection, error) {
	in := &inspection{}
	var err error
	if in.server, err = s.server(ctx); err != nil {
		return nil, err
	}
	if in.server.mariaDB != c.MariaDB {
		return in, nil
	}
	if in.status, err = s.binlogStatus(ctx); denied(err) {
		in.noState = err
	} else if err != nil {
		return nil, err
	}
	if in.replica, err = s.isReplica(ctx); denied(err) {
		in.blind = true
	} else if err != nil {
		return nil, err
	}
	if in.grants, err = s.grants(ctx, c.MariaDB); err != nil {
		return nil, err
	}
	if in.signals, err = c.signalTable(ctx, s); err != nil {
		return nil, err
	}
	if in.mayDump = in.grants.Has("", "", "REPLICATION SLAVE", "REPLICATION REPLICA"); in.mayDump {
		if in.readers, in.mayList, err = s.readers(ctx); err != nil {
			return nil, err
		}
	}
	if in.tables, err = c.catalog(ctx, s, "", ""); err != nil {
		return nil, err
	}
	if err := s.execute(ctx, "SET SESSION lock_wait_timeout = 1"); err != nil {
		return nil, err
	}
	for _, t := range in.tables {
		err := s.execute(ctx, "SELECT 1 FROM "+t.quoted()+" LIMIT 0")
		switch code(err) {
		case erNoSuchTable, erLockWaitTimeout: // who waits for a lock may read
			continue
		}
		if denied(err) {
			in.denied = append(in.denied, t)
		} else if err != nil {
			return nil, fmt.Errorf("read table %s: %w", t, err)
		}
	}
	if err := s.execute(ctx, "SET SESSION lock_wait_timeout = DEFAULT"); err != nil {
		return nil, err
	}
	if strings.Contains(in.server.variables["basedir"], "rdsdb") {
		list, err := s.query(ctx, "SELECT value FROM mysql.rds_configuration WHERE name = 'binlog retention hours'")
		if err == nil && len(list) > 0 {
			hours := string(list[0][0])
			in.rds = &hours
		}
	}
	return in, nil
}

// grants are the user's rights, those of active roles included.
func (s *session) grants(ctx context.Context, mariaDB bool) (grants.List, error) {
	sql := "SHOW GRANTS"
	if !mariaDB { // which does not show those of roles by itself
		role, err := s.query(ctx, "SELECT CURRENT_ROLE()")
		if err != nil {
			return nil, fmt.Errorf("read the user's roles: %w", err)
		}
		if text := string(role[0][0]); text != "NONE" {
			sql = "SHOW GRANTS FOR CURRENT_USER() USING " + text
		}
	}
	list, err := s.query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("read the user's privileges: %w", err)
	}
	var lines []string
	for _, r := range list {
		lines = append(lines, string(r[0]))
	}
	return grants.ParseAll(lines), nil
}

// Check connects and reports everything that stands in the way, with what mends it.
func Check(ctx context.Context, c *Config) []connectors.Finding {
	s, err := c.dial(ctx)
	if err != nil {
		return []connectors.Finding{connectors.FindingOf("connection", err)}
	}
	defer s.close()
	in, err := c.inspect(ctx, s)
	if err != nil {
		return []connectors.Finding{connectors.FindingOf("connection", err)}
	}
	list := append(c.findings(in), c.lockFindings(in)...)
	if err := c.preparedFindings(ctx, s, &list); err != nil {
		list = append(list, connectors.FindingOf("connection", err))
	}
	return list
}

// charsetFinding tells a column whose text cannot be decoded (M18).
func (c *Config) charsetFinding(t *table, col *column, add addFinding) {
	if !textual(col.facts.DataType) || !c.CapturesColumn(t.schema, t.name, col.name) {
		return
	}
	if d, ok := decoderOf(&charset.Decoders{}, col.facts.Charset, 0).(unknownCharset); ok {
		add(connectors.LevelError, "table "+t.String(), "column.exclude.list: "+t.String()+"."+col.name+", or ALTER TABLE "+t.quoted()+" CONVERT TO CHARACTER SET utf8mb4",
			"text of column %s cannot be read: %v", col.name, d.err)
	}
}

type addFinding func(level, subject, remedy, format string, args ...any)

// findings judges an inspection; it does no I/O.
func (c *Config) findings(in *inspection) []connectors.Finding {
	var list []connectors.Finding
	add := func(level, subject, remedy, format string, args ...any) {
		list = append(list, connectors.Finding{Level: level, Subject: subject, Problem: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	const bad = connectors.LevelError
	switch v := in.server; {
	case v.mariaDB != c.MariaDB:
		other := KindMySQL
		if v.mariaDB {
			other = KindMariaDB
		}
		add(bad, "server", "type: "+other, "version %s is not %s", v.version, c.kind())
		return list
	case v.mariaDB && v.number < minMariaDB:
		add(bad, "server", "upgrade the server", "MariaDB 10.6 or later is needed, this is %s", v.version)
		return list
	case !v.mariaDB && v.number < minMySQL:
		add(bad, "server", "upgrade the server", "MySQL 8.0 or later is needed, this is %s", v.version)
		return list
	}
	c.privilegeFindings(in, add)
	c.binlogFindings(in, add)
	c.gtidFindings(in, add)
	c.retentionFindings(in, add)
	c.signalFindings(in, add)
	var keyless []string
	c.tableFindings(in, add, func(t *table, topic string) {
		list[len(list)-1].Keyless = topic
		keyless = append(keyless, t.String())
	})
	return append(list, c.TopicFindings(keyless)...)
}

func (c *Config) privilegeFindings(in *inspection, add addFinding) {
	subject := "user " + c.user
	if in.noState != nil {
		add(connectors.LevelError, subject, c.grantSQL(c.clientPrivilege()), "it may not ask where the binlog ends: %v", in.noState)
	}
	if !in.mayDump {
		add(connectors.LevelError, subject, c.grantSQL("REPLICATION SLAVE"), "it may not read the binlog")
		return
	}
	if err := c.clash(in.server, in.readers); err != nil {
		f := connectors.FindingOf("database.server.id", err)
		add(f.Level, f.Subject, f.Remedy, "%s", f.Problem)
	}
	if !in.mayList { // M23; of MySQL, REPLICATION SLAVE is enough
		add(connectors.LevelWarning, subject, c.grantSQL("REPLICATION MASTER ADMIN"),
			"it may not ask for the source's readers: that another one has server ID %d shows only when the source ends one of the two", c.serverID)
	}
}

// permanent sets a variable now and for the next start.
func (v *server) permanent(name, value string) string {
	if v.mariaDB {
		return fmt.Sprintf("SET GLOBAL %s = %s (and %s = %s under [mysqld] in my.cnf)", name, value, name, strings.Trim(value, "'"))
	}
	return fmt.Sprintf("SET PERSIST %s = %s", name, value)
}

// hidesChanges finds settings of sessions with which they log no rows.
var hidesChanges = regexp.MustCompile(`(?i)\b(sql_log_bin|binlog_format)\b`)

func (c *Config) binlogFindings(in *inspection, add addFinding) {
	v := in.server
	if !v.on("log_bin") {
		add(connectors.LevelError, "log_bin", "log_bin = mysql-bin and server_id = 1 (or another number) under [mysqld] in my.cnf; then restart the server", "the server writes no binlog")
		return
	}
	if f := v.variables["binlog_format"]; f != "" && !strings.EqualFold(f, "ROW") { // what to do with sessions that have another one is said when it happens
		add(connectors.LevelError, "binlog_format", v.permanent("binlog_format", "'ROW'"), "binlog_format is %s: changes would be logged without their rows", f)
	}
	image := v.variables["binlog_row_image"]
	if !strings.EqualFold(image, "FULL") {
		add(connectors.LevelWarning, "binlog_row_image", v.permanent("binlog_row_image", "'FULL'"),
			"binlog_row_image is %s: the columns that it leaves out are completed from the log, and absent where the log has not the row; those of an INSERT are absent", image)
	}
	if m := v.variables["binlog_row_metadata"]; !strings.EqualFold(m, "FULL") {
		add(connectors.LevelWarning, "binlog_row_metadata", v.permanent("binlog_row_metadata", "'FULL'"),
			"binlog_row_metadata is %s: the binlog does not name columns; the connector follows the statements that change them, and stops where they do not tell enough", m)
	}
	if o := v.variables["binlog_row_value_options"]; o != "" && !strings.EqualFold(image, "FULL") {
		add(connectors.LevelWarning, "binlog_row_value_options", v.permanent("binlog_row_value_options", "''"),
			"binlog_row_value_options is %s and binlog_row_image is %s: JSON columns that were changed in part are completed from the log, and absent where the log has not the row", o, image)
	}
	if sql := v.variables["init_connect"]; hidesChanges.MatchString(sql) {
		add(connectors.LevelError, "init_connect", v.permanent("init_connect", "''"), "init_connect changes what sessions log: %s", sql)
	}
	if c.Query {
		name := "binlog_rows_query_log_events"
		if v.mariaDB {
			name = "binlog_annotate_row_events"
		}
		if !v.on(name) {
			add(connectors.LevelWarning, name, v.permanent(name, "ON"), "include.query is set, and the server does not log statements beside rows")
		}
	}
	for _, db := range strings.Split(in.status.ignore, ",") {
		if db = strings.TrimSpace(db); db != "" && slices.ContainsFunc(in.tables, func(t *table) bool { return t.schema == db }) {
			add(connectors.LevelError, "binlog_ignore_db", "remove binlog_ignore_db = "+db+" from my.cnf and restart the server", "changes in database %s are not logged", db)
		}
	}
	if in.status.do != "" {
		logged := strings.Split(in.status.do, ",")
		seen := map[string]bool{}
		for _, t := range in.tables {
			if !slices.Contains(logged, t.schema) && !seen[t.schema] {
				seen[t.schema] = true
				add(connectors.LevelError, "binlog_do_db", "add binlog_do_db = "+t.schema+" to my.cnf, or remove all, and restart the server", "changes in database %s are not logged", t.schema)
			}
		}
	}
}

func (c *Config) gtidFindings(in *inspection, add addFinding) {
	v := in.server
	switch {
	case v.mariaDB && !v.on("gtid_strict_mode"):
		add(connectors.LevelWarning, "gtid_strict_mode", v.permanent("gtid_strict_mode", "ON"), "it is off: after a failover, numbers of a domain can fall, and a position can no longer tell what is before it")
	case !v.mariaDB && !v.gtids():
		add(connectors.LevelWarning, "gtid_mode", v.turnOnGTIDs(), "gtid_mode is %s: the connector cannot follow to another server after a failover", v.variables["gtid_mode"])
	}
	updates := v.on("log_replica_updates") || v.on("log_slave_updates")
	name, ask := "log_replica_updates", "REPLICATION CLIENT"
	if v.mariaDB {
		name, ask = "log_slave_updates", "REPLICA MONITOR"
	}
	switch {
	case in.blind && !updates:
		add(connectors.LevelWarning, name, c.grantSQL(ask), "it is off, and user %s may not ask whether the server is a replica: what a replica applies would not be in its own binlog", c.user)
	case in.replica && !updates: // M26
		add(connectors.LevelError, name, name+" = ON under [mysqld] in my.cnf; then restart the server", "the server is a replica, and what it applies is not in its own binlog")
	}
	if v.serverID() == 0 {
		add(connectors.LevelError, "server_id", v.permanent("server_id", "1"), "server_id is 0: the server takes no readers")
	}
}

// turnOnGTIDs are the statements from the server's gtid_mode to ON, which allows one step at a time.
func (v *server) turnOnGTIDs() string {
	sql := []string{v.permanent("enforce_gtid_consistency", "ON")}
	modes := []string{"OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"}
	for _, m := range modes[slices.Index(modes, strings.ToUpper(v.variables["gtid_mode"]))+1:] {
		sql = append(sql, v.permanent("gtid_mode", m))
	}
	return strings.Join(sql, "; ")
}

func (c *Config) retentionFindings(in *inspection, add addFinding) {
	v := in.server
	if in.rds != nil {
		if hours, err := strconv.Atoi(*in.rds); err != nil || hours*3600 < shortRetention {
			add(connectors.LevelError, "binlog retention hours", "CALL mysql.rds_set_configuration('binlog retention hours', 72)", "RDS removes the binlog as soon as it can")
		}
		return
	}
	if size, err := strconv.ParseUint(v.variables["max_binlog_total_size"], 10, 64); err == nil && size > 0 { // MariaDB 11.4
		add(connectors.LevelWarning, "max_binlog_total_size", v.permanent("max_binlog_total_size", "0"),
			"binlogs are removed beyond %d bytes: a connector that is stopped for longer than they last has a gap", size)
	}
	seconds, err := strconv.ParseFloat(v.variables["binlog_expire_logs_seconds"], 64)
	if err != nil || v.variables["binlog_expire_logs_auto_purge"] == "OFF" {
		return
	}
	if seconds > 0 && seconds < shortRetention {
		add(connectors.LevelWarning, "binlog_expire_logs_seconds", v.permanent("binlog_expire_logs_seconds", "604800"),
			"binlogs are removed after %.0f s: a connector that is stopped for longer has a gap", seconds)
	}
}

func (c *Config) tableFindings(in *inspection, add addFinding, keyless func(t *table, topic string)) {
	if len(in.tables) == 0 {
		add(connectors.LevelError, "tables", "correct table.include.list, database.include.list or their exclude lists; or "+c.grantSQL("SELECT"),
			"no table is captured, or user %s may see none of them", c.user)
		return
	}
	for _, t := range in.denied {
		add(connectors.LevelError, "table "+t.String(), "GRANT SELECT ON "+t.quoted()+" TO "+c.account(), "user %s may not read it", c.user)
	}
	var topics connectors.TopicChecker
	for _, t := range in.tables {
		subject, topic := "table "+t.String(), c.TopicOf(t.schema, t.name)
		columns, err := c.columnsOf(t)
		if err != nil {
			add(connectors.LevelError, subject, "leave the column out with column.exclude.list", "%v", err)
			continue
		}
		for _, name := range c.KeyFor(t.schema, t.name) {
			if t.column(name) == nil {
				add(connectors.LevelError, subject, "correct message.key.columns", "it has no column %s", name)
			}
		}
		for i := range t.columns {
			c.charsetFinding(t, &t.columns[i], add)
		}
		described, err := c.NewTable(0, t.schema, t.name, columns)
		if err != nil {
			f := connectors.FindingOf(subject, err)
			add(connectors.LevelError, subject, f.Remedy, "%s", f.Problem)
			continue
		}
		if len(described.Keys) == 0 {
			add(connectors.LevelWarning, subject, "ALTER TABLE "+t.quoted()+" ADD PRIMARY KEY (...), or name columns in message.key.columns",
				"it has no primary key: its events have no key, so there is no current state per row")
			keyless(t, topic)
			if c.Repair {
				add(connectors.LevelWarning, subject, "ALTER TABLE "+t.quoted()+" ADD PRIMARY KEY (...)",
					"on.gap is repair: after a gap it is loaded again, with a truncate first, as there is no key to compare it by")
			}
		}
		if lossy := described.Schema.Lossy(); len(lossy) > 0 {
			add(connectors.LevelWarning, subject, "time.precision.mode: adaptive_time_microseconds; zero.date.handling.mode: string",
				"events keep less than there is of columns %s", strings.Join(lossy, ", "))
		}
		if problem, remedy := topics.Add(topic, t.String()); problem != "" {
			add(connectors.LevelError, subject, remedy, "%s", problem)
		}
	}
}
