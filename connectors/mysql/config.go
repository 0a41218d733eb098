package mysql

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

// SnapshotMode is snapshot.mode.
type SnapshotMode string

// Supported snapshot modes.
const (
	SnapshotInitial     SnapshotMode = "initial"      // load what is not in the log, and stream
	SnapshotInitialOnly SnapshotMode = "initial_only" // load, and be complete
	SnapshotAlways      SnapshotMode = "always"       // load all tables at each start, and stream
	SnapshotWhenNeeded  SnapshotMode = "when_needed"  // as initial, and load all tables again where the source has purged what is missing
	SnapshotNoData      SnapshotMode = "no_data"      // stream only
)

// LockingMode is snapshot.locking.mode: how the load begins that a connector without resume point makes. Others need no lock.
type LockingMode string

// Supported locking modes.
const (
	LockingNone     LockingMode = "none"     // chunks beside the stream
	LockingMinimal  LockingMode = "minimal"  // one position and one snapshot of all tables, under a lock that is held until both are there
	LockingExtended LockingMode = "extended" // likewise, and the lock is held until all is read
)

// Kinds of connectors.
const (
	KindMySQL   = "mysql"
	KindMariaDB = "mariadb"
)

// defaultLockTimeout is how long a lock may be waited for, while others wait behind it.
const defaultLockTimeout = 10 * time.Second

// Config is one connector's configuration under Debezium's names.
type Config struct {
	connectors.Settings
	MariaDB bool

	host     string
	port     int
	user     string
	password string
	tls      tlsSettings
	timeout  time.Duration

	capture  string // fingerprint of the properties that say which changes are captured
	serverID uint32 // of the connector, among the replicas of the source
	uuid     string // likewise

	databases, tables connectors.Filter

	Snapshot        SnapshotMode
	SnapshotThreads int
	Locking         LockingMode
	lockTimeout     time.Duration     // snapshot.lock.timeout.ms
	loads           connectors.Filter // snapshot.include.collection.list
	signals         string            // signal.data.collection
	SchemaChanges   bool              // include.schema.changes
	Query           bool              // include.query
	Repair          bool              // on.gap: repair
}

// parser reads the properties that MySQL and MariaDB alone have.
type parser struct{ *connectors.Properties }

// ParseConfig reads Debezium properties for KindMySQL or KindMariaDB. It returns every error; each is a *connectors.PropertyError.
func ParseConfig(name, kind string, props map[string]string) (*Config, []error) {
	p := parser{connectors.NewProperties(props)}
	c := &Config{Settings: p.Settings(name, event.TimeAdaptiveMicroseconds), MariaDB: kind == KindMariaDB}
	c.Event.Connector = event.SourceMySQL
	class := "io.debezium.connector.mysql.MySqlConnector"
	if c.MariaDB {
		c.Event.Connector = event.SourceMariaDB
		class = "io.debezium.connector.mariadb.MariaDbConnector"
	}
	p.Only("connector.class", "this is a "+kind+" connector", class, kind)
	p.Only("tasks.max", "a binlog has one reader", "1")
	p.connection(c)
	p.identity(c)
	c.databases = p.Filter("database")
	c.tables = p.Filter("table")
	c.capture = fingerprint(props)
	p.snapshot(c)
	p.modes(c)
	c.SchemaChanges = p.Flag("include.schema.changes", true)
	c.Query = p.Flag("include.query", false)
	p.Only("inconsistent.schema.handling.mode", "a table whose columns are not known stops the connector; nothing is skipped", "fail")
	p.Only("gtid.ignore.on.recovery", "the position is always used", "false")
	c.Repair = p.Choice("on.gap", "stop", "stop", "repair") == "repair"
	c.Ignored = p.Rest(foreign())
	if errs := p.Errors(); len(errs) > 0 {
		return nil, errs
	}
	return c, nil
}

func (p parser) connection(c *Config) {
	c.host = p.Text("database.hostname", "")
	c.port = p.Number("database.port", 3306, 1, 65535)
	c.user = p.Text("database.user", "")
	c.password = p.Raw("database.password")
	c.timeout = p.Millis("connect.timeout.ms", 15*time.Second)
	if c.host == "" {
		p.Fail("database.hostname", errors.New("is missing"))
	}
	if c.user == "" {
		p.Fail("database.user", errors.New("is missing"))
	}
	if c.timeout < 100*time.Millisecond {
		p.Fail("connect.timeout.ms", errors.New("must be at least 100"))
	}
	p.tls(c)
}

// identity gives the connector a server ID and a UUID that stay the same over restarts and that no other connector has (M23). Those
// of hashed names are in the upper half, where few servers are.
func (p parser) identity(c *Config) {
	sum := sha256.Sum256([]byte("rowtrail connector " + c.Name + " " + c.Prefix))
	c.serverID = binary.BigEndian.Uint32(sum[:]) | 1<<31
	u := sum[4:20]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80 // version 8: of one's own making
	h := hex.EncodeToString(u)
	c.uuid = h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	if v := p.Text("database.server.id", ""); v != "" {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil || n == 0 {
			p.Fail("database.server.id", fmt.Errorf("%q is not a number from 1 to %d", v, uint32(math.MaxUint32)))
			return
		}
		c.serverID = uint32(n)
	}
}

// fingerprint tells which changes get into the log.
func fingerprint(props map[string]string) string {
	h := sha256.New()
	for _, name := range []string{
		"database.include.list", "database.exclude.list", "table.include.list", "table.exclude.list", "skipped.operations", "message.key.columns",
	} {
		v := strings.TrimSpace(props[name])
		h.Write(fmt.Appendf(nil, "%s %d %s\n", name, len(v), v))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func (p parser) snapshot(c *Config) {
	mode := p.Text("snapshot.mode", string(SnapshotInitial))
	switch c.Snapshot = SnapshotMode(mode); c.Snapshot {
	case SnapshotInitial, SnapshotInitialOnly, SnapshotAlways, SnapshotWhenNeeded, SnapshotNoData:
	case "never", "schema_only": // former names of no_data
		c.Snapshot = SnapshotNoData
	case "recovery", "schema_only_recovery":
		p.Fail("snapshot.mode", fmt.Errorf("%q is not supported: there is no history of schemas to recover, the columns at a position are found by the connector itself; leave it out", mode))
	case "configuration_based":
		p.Fail("snapshot.mode", fmt.Errorf("%q is not supported: it stands for the other modes; use the one that is meant: initial, no_data, always or when_needed", mode))
	case "custom":
		p.Fail("snapshot.mode", fmt.Errorf("%q is not supported: it names a Java class; use initial, initial_only, always, when_needed or no_data", mode))
	default:
		p.Fail("snapshot.mode", fmt.Errorf("%q is not supported; use initial, initial_only, always, when_needed or no_data", mode))
	}
	locking := p.Text("snapshot.locking.mode", string(LockingNone))
	switch c.Locking = LockingMode(locking); c.Locking {
	case LockingNone, LockingMinimal, LockingExtended:
	case "minimal_percona", "minimal_percona_no_table_locks":
		p.Fail("snapshot.locking.mode", fmt.Errorf("%q is not supported: it is for Percona's LOCK TABLES FOR BACKUP; use none, which needs no lock, or minimal", locking))
	case "custom":
		p.Fail("snapshot.locking.mode", fmt.Errorf("%q is not supported: it names a Java class; use none, minimal or extended", locking))
	default:
		p.Fail("snapshot.locking.mode", fmt.Errorf("%q is not supported; use none, minimal or extended", locking))
	}
	c.lockTimeout = p.Millis("snapshot.lock.timeout.ms", defaultLockTimeout)
	if c.lockTimeout < time.Second {
		p.Fail("snapshot.lock.timeout.ms", errors.New("must be at least 1000"))
	}
	c.SnapshotThreads = p.Number("snapshot.max.threads", 2, 1, 64)
	list, err := connectors.ParsePatterns(p.Text("snapshot.include.collection.list", ""))
	if err != nil {
		p.Fail("snapshot.include.collection.list", err)
	}
	c.loads = connectors.Filter{Include: list}
	if c.signals = p.SignalTable(); c.signals != "" && strings.Count(c.signals, ".") != 1 {
		p.Fail("signal.data.collection", fmt.Errorf("%q is not <database>.<table>", c.signals))
	}
}

// modes are how values are written that only MySQL and MariaDB have.
func (p parser) modes(c *Config) {
	c.Event.BigintUnsigned = event.BigintUnsignedHandling(p.Text("bigint.unsigned.handling.mode", string(event.BigintUnsignedPrecise)))
	c.Event.ZeroDate = event.ZeroDateHandling(p.Text("zero.date.handling.mode", string(event.ZeroDateString)))
	p.Mode("bigint.unsigned.handling.mode", event.Options{BigintUnsigned: c.Event.BigintUnsigned, Connector: c.Event.Connector})
	p.Mode("zero.date.handling.mode", event.Options{ZeroDate: c.Event.ZeroDate, Connector: c.Event.Connector})
	p.Only("enable.time.adjuster", "years are those of the source", "true", "false")
}

func foreign() connectors.Foreign {
	return connectors.Foreign{
		Ignored: map[string]bool{
			"read.only": true, "incremental.snapshot.watermarking.strategy": true, // chunks need no marks that are written
			"incremental.snapshot.allow.schema.changes": true, // they are followed
			"connect.keep.alive":                        true, "connect.keep.alive.interval.ms": true, "binlog.buffer.size": true, "min.row.count.to.stream.results": true,
			"binlog.net.read.timeout": true, "binlog.net.write.timeout": true, "use.nongraceful.disconnect": true, "database.protocol": true,
			"database.server.id.offset": true, "schema.history.internal": true, "database.jdbc.driver": true, "ddl.parser.type": true,
		},
		Unsupported: map[string]string{
			"topic.naming.strategy":                       "topics are <topic.prefix>.<database>.<table>",
			"topic.delimiter":                             "topics are <topic.prefix>.<database>.<table>",
			"gtid.source.includes":                        "the transactions of all servers are read",
			"gtid.source.excludes":                        "the transactions of all servers are read",
			"gtid.source.filter.dml.events":               "the transactions of all servers are read",
			"include.schema.comments":                     "comments are in the topic of schema changes, always",
			"database.dsn":                                "use database.hostname, database.port, database.user and database.password",
			"database.ssl.keystore":                       "use database.ssl.cert and database.ssl.key, PEM files",
			"database.ssl.keystore.password":              "use database.ssl.cert and database.ssl.key, PEM files",
			"database.ssl.truststore":                     "use database.ssl.ca, a PEM file",
			"database.ssl.truststore.password":            "use database.ssl.ca, a PEM file",
			"event.deserialization.failure.handling.mode": "what cannot be decoded stops the connector; nothing is skipped",
			"gtid.new.channel.position":                   "the whole set of executed transactions is kept",
		},
		Prefixes: map[string]string{
			"schema.history.internal.": "", // there is nothing to set
			"snapshot.":                "the load takes all captured tables, or those of snapshot.include.collection.list",
			"signal.":                  "use the table of signal.data.collection, or `rowtrail connectors signal`",
		},
	}
}

// captures tells whether a table is captured.
func (c *Config) captures(database, table string) bool {
	return c.capturesDatabase(database) && c.tables.Match(database+"."+table)
}

func (c *Config) capturesDatabase(database string) bool {
	switch database {
	case "mysql", "information_schema", "performance_schema", "sys", "":
		return false
	}
	return c.databases.Match(database)
}

// kind is the connector's type.
func (c *Config) kind() string {
	if c.MariaDB {
		return KindMariaDB
	}
	return KindMySQL
}

// ServerID is the connector's number among the replicas of the source.
func (c *Config) ServerID() uint32 { return c.serverID }
