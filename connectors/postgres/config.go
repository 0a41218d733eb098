package postgres

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
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
	Name   string
	Prefix string // topic.prefix

	conn     *pgconn.Config
	byDSN    bool // it came as database.dsn
	Database string

	Slot        string
	DropSlot    bool // slot.drop.on.stop
	Failover    bool // slot.failover
	Publication string
	Autocreate  Autocreate

	tables, schemas, columns filter
	messages                 filter // message.prefix.*: without a list no messages are captured
	keyColumns               []keyRule

	Snapshot        SnapshotMode
	SnapshotThreads int
	loadTables      filter // snapshot.include.collection.list

	HeartbeatInterval time.Duration
	HeartbeatQuery    string
	HeartbeatTopic    string
	StatusInterval    time.Duration

	Tombstones          bool
	SkipCreate          bool
	SkipUpdate          bool
	SkipDelete          bool
	SkipTruncate        bool
	TransactionMetadata bool
	Event               event.Options

	Topics      connectors.TopicOptions
	Compression string
	Ignored     []string // accepted for pasted configurations; they have no effect here
}

// parser collects all errors of a configuration.
type parser struct {
	props map[string]string
	used  map[string]bool
	errs  []error
}

func (p *parser) fail(name string, err error) {
	p.errs = append(p.errs, &connectors.PropertyError{Property: name, Err: err})
}

func (p *parser) text(name, def string) string {
	p.used[name] = true
	if v, ok := p.props[name]; ok && strings.TrimSpace(v) != "" {
		return strings.TrimSpace(v)
	}
	return def
}

func (p *parser) flag(name string, def bool) bool {
	v := p.text(name, strconv.FormatBool(def))
	switch v {
	case "true":
		return true
	case "false":
		return false
	}
	p.fail(name, fmt.Errorf("%q is neither true nor false", v))
	return def
}

func (p *parser) number(name string, def, low, high int) int {
	v := p.text(name, strconv.Itoa(def))
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		p.fail(name, fmt.Errorf("%q is not a number from %d to %d", v, low, high))
		return def
	}
	return n
}

func (p *parser) millis(name string, def time.Duration) time.Duration {
	return time.Duration(p.number(name, int(def/time.Millisecond), 0, 1<<31-1)) * time.Millisecond
}

func (p *parser) choice(name, def string, allowed ...string) string {
	v := p.text(name, def)
	for _, a := range allowed {
		if v == a {
			return v
		}
	}
	p.fail(name, fmt.Errorf("%q is not supported; use %s", v, strings.Join(allowed, ", ")))
	return def
}

// only accepts a property that has just one supported value.
func (p *parser) only(name, why string, allowed ...string) {
	v := p.text(name, allowed[0])
	for _, a := range allowed {
		if v == a {
			return
		}
	}
	p.fail(name, fmt.Errorf("%q is not supported: %s; leave it out or use %s", v, why, allowed[0]))
}

// ParseConfig reads Debezium properties. It returns every error; each is a *connectors.PropertyError.
func ParseConfig(name string, props map[string]string) (*Config, []error) {
	p := &parser{props: props, used: map[string]bool{}}
	c := &Config{Name: name}
	p.text("name", "")
	p.only("connector.class", "this is a postgres connector", "io.debezium.connector.postgresql.PostgresConnector", "postgres")
	p.only("tasks.max", "a slot has one reader", "1")
	p.only("plugin.name", "Rowtrail decodes pgoutput", "pgoutput")

	c.Prefix = p.text("topic.prefix", name)
	if !validTopicPart(c.Prefix) {
		p.fail("topic.prefix", fmt.Errorf("%q may hold letters, digits, '.', '_' and '-' only", c.Prefix))
	}
	p.connection(c)
	p.slot(c)
	p.selection(c)
	p.snapshot(c)
	p.events(c)
	p.topicCreation(c)
	p.heartbeat(c)
	p.rest(c)
	if len(p.errs) > 0 {
		sort.SliceStable(p.errs, func(i, j int) bool { return p.errs[i].Error() < p.errs[j].Error() })
		return nil, p.errs
	}
	return c, nil
}

func (p *parser) slot(c *Config) {
	c.Slot = p.text("slot.name", "debezium")
	if !validSlot(c.Slot) {
		p.fail("slot.name", fmt.Errorf("%q: a slot name holds a-z, 0-9 and _ and has at most 58 characters", c.Slot))
	}
	c.DropSlot = p.flag("slot.drop.on.stop", false)
	c.Failover = p.flag("slot.failover", false)
	c.Publication = p.text("publication.name", "dbz_publication")
	if len(c.Publication) > 63 {
		p.fail("publication.name", errors.New("longer than 63 bytes"))
	}
	c.Autocreate = Autocreate(p.choice("publication.autocreate.mode", string(AutocreateFiltered),
		string(AutocreateFiltered), string(AutocreateDisabled), string(AutocreateAllTables)))
	p.only("publish.via.partition.root", "partitioned tables are always captured as one table", "true")
	c.StatusInterval = p.millis("status.update.interval.ms", 10*time.Second)
	if c.StatusInterval < 10*time.Millisecond {
		p.fail("status.update.interval.ms", errors.New("must be at least 10"))
	}
	p.only("lsn.flush.mode", "the slot is confirmed when the log is committed", "connector")
}

func (p *parser) selection(c *Config) {
	c.tables = p.filter("table")
	c.schemas = p.filter("schema")
	c.columns = p.filter("column")
	c.messages = p.filter("message.prefix")
	rules, err := parseKeyColumns(p.text("message.key.columns", ""))
	if err != nil {
		p.fail("message.key.columns", err)
	}
	c.keyColumns = rules
}

func (p *parser) snapshot(c *Config) {
	mode := p.choice("snapshot.mode", string(SnapshotInitial),
		string(SnapshotInitial), string(SnapshotInitialOnly), string(SnapshotNoData), "never")
	if mode == "never" { // the former name of no_data
		mode = string(SnapshotNoData)
	}
	c.Snapshot = SnapshotMode(mode)
	c.SnapshotThreads = p.number("snapshot.max.threads", 2, 1, 64)
	list, err := parsePatterns(p.text("snapshot.include.collection.list", ""))
	if err != nil {
		p.fail("snapshot.include.collection.list", err)
	}
	c.loadTables = filter{include: list}
	p.only("snapshot.locking.mode", "the load needs no locks", "none")
}

func (p *parser) events(c *Config) {
	c.Tombstones = p.flag("tombstones.on.delete", true)
	for _, op := range strings.Split(p.text("skipped.operations", "t"), ",") {
		switch strings.TrimSpace(op) {
		case "c":
			c.SkipCreate = true
		case "u":
			c.SkipUpdate = true
		case "d":
			c.SkipDelete = true
		case "t":
			c.SkipTruncate = true
		case "none":
		default:
			p.fail("skipped.operations", fmt.Errorf("%q is not one of c, u, d, t, none", op))
		}
	}
	c.TransactionMetadata = p.flag("provide.transaction.metadata", false)
	const json = "org.apache.kafka.connect.json.JsonConverter"
	p.only("key.converter", "events are JSON", json)
	p.only("value.converter", "events are JSON", json)
	keys := p.flag("key.converter.schemas.enable", false)
	values := p.flag("value.converter.schemas.enable", keys)
	if keys != values {
		p.fail("value.converter.schemas.enable", errors.New("must be the same as key.converter.schemas.enable"))
	}
	c.Event = event.Options{
		SchemasEnable:    values,
		DecimalHandling:  event.DecimalHandling(p.text("decimal.handling.mode", string(event.DecimalPrecise))),
		TimePrecision:    event.TimePrecision(p.text("time.precision.mode", string(event.TimeAdaptive))),
		IntervalHandling: event.IntervalHandling(p.text("interval.handling.mode", string(event.IntervalString))),
		BinaryHandling:   event.BinaryHandling(p.text("binary.handling.mode", string(event.BinaryBytes))),
		HstoreHandling:   event.HstoreHandling(p.text("hstore.handling.mode", string(event.HstoreJSON))),
		UnavailableValue: p.text("unavailable.value.placeholder", event.DefaultUnavailableValue),
		Connector:        event.SourcePostgres, Name: c.Prefix, Database: c.Database,
	}
	// One at a time, so that each error names its property.
	check := func(name string, o event.Options) {
		if err := o.Validate(); err != nil {
			p.fail(name, err)
		}
	}
	check("decimal.handling.mode", event.Options{DecimalHandling: c.Event.DecimalHandling})
	check("time.precision.mode", event.Options{TimePrecision: c.Event.TimePrecision})
	check("interval.handling.mode", event.Options{IntervalHandling: c.Event.IntervalHandling})
	check("binary.handling.mode", event.Options{BinaryHandling: c.Event.BinaryHandling})
	check("hstore.handling.mode", event.Options{HstoreHandling: c.Event.HstoreHandling})
	check("unavailable.value.placeholder", event.Options{UnavailableValue: c.Event.UnavailableValue})
}

func (p *parser) topicCreation(c *Config) {
	const prefix = "topic.creation.default."
	c.Topics = connectors.TopicOptions{
		Partitions:  int32(p.number(prefix+"partitions", -1, -1, 100000)),
		Replication: int16(p.number(prefix+"replication.factor", -1, -1, 1000)),
		Configs:     map[string]string{},
	}
	for name, v := range p.props {
		if rest, ok := strings.CutPrefix(name, prefix); ok && !p.used[name] {
			p.used[name] = true
			c.Topics.Configs[rest] = strings.TrimSpace(v)
		}
	}
	p.only("topic.creation.enable", "missing topics are created", "true")
	c.Compression = p.choice("producer.override.compression.type", "zstd", "zstd", "lz4", "snappy", "none")
}

func (p *parser) heartbeat(c *Config) {
	c.HeartbeatInterval = p.millis("heartbeat.interval.ms", 0)
	c.HeartbeatQuery = p.text("heartbeat.action.query", "")
	if c.HeartbeatQuery != "" && c.HeartbeatInterval == 0 {
		p.fail("heartbeat.action.query", errors.New("needs heartbeat.interval.ms above 0"))
	}
	topic := p.text("topic.heartbeat.prefix", "__debezium-heartbeat") + "." + c.Prefix
	c.HeartbeatTopic = topic
	if !validTopicPart(topic) && validTopicPart(c.Prefix) {
		p.fail("topic.heartbeat.prefix", fmt.Errorf("%q may hold letters, digits, '.', '_' and '-' only", topic))
	}
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

func validTopicPart(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 200 && s != "." && s != ".."
}

// maxTopicName is Kafka's limit.
const maxTopicName = 249

// topicOf is a table's topic. As Debezium does, what a topic name cannot hold becomes an underscore.
func (c *Config) topicOf(schema, table string) string {
	return c.Prefix + "." + strings.Map(func(r rune) rune {
		if r < 128 && validTopicPart("x"+string(r)) {
			return r
		}
		return '_'
	}, schema+"."+table)
}
