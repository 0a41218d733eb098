package postgres

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

// SnapshotMode is snapshot.mode.
type SnapshotMode string

// Supported snapshot modes.
const (
	SnapshotInitial     SnapshotMode = "initial"      // load, then stream; a table that is added later is loaded, too
	SnapshotInitialOnly SnapshotMode = "initial_only" // load, then stop
	SnapshotNoData      SnapshotMode = "no_data"      // stream only
)

// Autocreate is publication.autocreate.mode.
type Autocreate string

// Supported publication modes.
const (
	AutocreateFiltered  Autocreate = "filtered"   // exactly the captured tables
	AutocreateDisabled  Autocreate = "disabled"   // it exists already
	AutocreateAllTables Autocreate = "all_tables" // only when asked for: it can break the application's updates
)

// Config is one connector's configuration under Debezium's names.
type Config struct {
	connectors.Settings

	conn     *pgconn.Config
	byDSN    bool // it came as database.dsn
	Database string

	Slot        string
	DropSlot    bool // slot.drop.on.stop
	Failover    bool // slot.failover
	Publication string
	Autocreate  Autocreate

	tables, schemas connectors.Filter
	messages        connectors.Filter // message.prefix.*: without a list no messages are captured

	Snapshot        SnapshotMode
	SnapshotThreads int
	loadTables      connectors.Filter // snapshot.include.collection.list

	StatusInterval time.Duration
}

// parser reads the properties that Postgres alone has.
type parser struct{ *connectors.Properties }

// ParseConfig reads Debezium properties. It returns every error; each is a *connectors.PropertyError.
func ParseConfig(name string, props map[string]string) (*Config, []error) {
	p := parser{connectors.NewProperties(props)}
	c := &Config{Settings: p.Settings(name, event.TimeAdaptive)}
	p.Only("connector.class", "this is a postgres connector", "io.debezium.connector.postgresql.PostgresConnector", "postgres")
	p.Only("tasks.max", "a slot has one reader", "1")
	p.Only("plugin.name", "Rowtrail decodes pgoutput", "pgoutput")
	p.connection(c)
	p.slot(c)
	p.selection(c)
	p.snapshot(c)
	p.modes(c)
	c.Ignored = p.Rest(foreign())
	if errs := p.Errors(); len(errs) > 0 {
		return nil, errs
	}
	return c, nil
}

func (p parser) slot(c *Config) {
	c.Slot = p.Text("slot.name", "debezium")
	if !validSlot(c.Slot) {
		p.Fail("slot.name", fmt.Errorf("%q: a slot name holds a-z, 0-9 and _ and has at most 58 characters", c.Slot))
	}
	c.DropSlot = p.Flag("slot.drop.on.stop", false)
	c.Failover = p.Flag("slot.failover", false)
	c.Publication = p.Text("publication.name", "dbz_publication")
	if len(c.Publication) > 63 {
		p.Fail("publication.name", errors.New("longer than 63 bytes"))
	}
	c.Autocreate = Autocreate(p.Choice("publication.autocreate.mode", string(AutocreateFiltered),
		string(AutocreateFiltered), string(AutocreateDisabled), string(AutocreateAllTables)))
	p.Only("publish.via.partition.root", "partitioned tables are always captured as one table", "true")
	c.StatusInterval = p.Millis("status.update.interval.ms", 10*time.Second)
	if c.StatusInterval < 10*time.Millisecond {
		p.Fail("status.update.interval.ms", errors.New("must be at least 10"))
	}
	p.Only("lsn.flush.mode", "the slot is confirmed when the log is committed", "connector")
}

func (p parser) selection(c *Config) {
	c.tables = p.Filter("table")
	c.schemas = p.Filter("schema")
	c.messages = p.Filter("message.prefix")
}

func (p parser) snapshot(c *Config) {
	mode := p.Choice("snapshot.mode", string(SnapshotInitial),
		string(SnapshotInitial), string(SnapshotInitialOnly), string(SnapshotNoData), "never")
	if mode == "never" { // the former name of no_data
		mode = string(SnapshotNoData)
	}
	c.Snapshot = SnapshotMode(mode)
	c.SnapshotThreads = p.Number("snapshot.max.threads", 2, 1, 64)
	list, err := connectors.ParsePatterns(p.Text("snapshot.include.collection.list", ""))
	if err != nil {
		p.Fail("snapshot.include.collection.list", err)
	}
	c.loadTables = connectors.Filter{Include: list}
	p.Only("snapshot.locking.mode", "the load needs no locks", "none")
}

// modes are how values are written that only Postgres has.
func (p parser) modes(c *Config) {
	c.Event.Connector, c.Event.Database = event.SourcePostgres, c.Database
	c.Event.IntervalHandling = event.IntervalHandling(p.Text("interval.handling.mode", string(event.IntervalString)))
	c.Event.HstoreHandling = event.HstoreHandling(p.Text("hstore.handling.mode", string(event.HstoreJSON)))
	p.Mode("interval.handling.mode", event.Options{IntervalHandling: c.Event.IntervalHandling})
	p.Mode("hstore.handling.mode", event.Options{HstoreHandling: c.Event.HstoreHandling})
}

func validSlot(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 63-len(loadSlotSuffix)
}
