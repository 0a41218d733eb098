package connectors

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// maxTopicName is Kafka's limit.
const maxTopicName = 249

// Settings are what the properties of every connector say, by Debezium's names.
type Settings struct {
	Name   string
	Prefix string // topic.prefix

	Columns    Filter
	KeyColumns []KeyRule

	HeartbeatInterval time.Duration
	HeartbeatQuery    string
	HeartbeatTopic    string

	Tombstones          bool
	SkipCreate          bool
	SkipUpdate          bool
	SkipDelete          bool
	SkipTruncate        bool
	TransactionMetadata bool
	// Park leaves an error of one table with that table: event.processing.failure.handling.mode.
	Park  bool
	Event event.Options

	Topics      TopicOptions
	Compression string
	Ignored     []string // accepted for pasted configurations; they have no effect here
}

// Settings reads what every connector has. precision is the source's default of time.precision.mode.
func (p *Properties) Settings(name string, precision event.TimePrecision) Settings {
	s := Settings{Name: name}
	p.Text("name", "")
	s.Prefix = p.Text("topic.prefix", name)
	if !validTopicPart(s.Prefix) {
		p.Fail("topic.prefix", fmt.Errorf("%q may hold letters, digits, '.', '_' and '-' only", s.Prefix))
	}
	s.Columns = p.Filter("column")
	rules, err := ParseKeyColumns(p.Text("message.key.columns", ""))
	if err != nil {
		p.Fail("message.key.columns", err)
	}
	s.KeyColumns = rules
	p.events(&s, precision)
	p.topicCreation(&s)
	p.heartbeat(&s)
	return s
}

func (p *Properties) events(s *Settings, precision event.TimePrecision) {
	s.Tombstones = p.Flag("tombstones.on.delete", true)
	for _, op := range strings.Split(p.Text("skipped.operations", "t"), ",") {
		switch strings.TrimSpace(op) {
		case "c":
			s.SkipCreate = true
		case "u":
			s.SkipUpdate = true
		case "d":
			s.SkipDelete = true
		case "t":
			s.SkipTruncate = true
		case "none":
		default:
			p.Fail("skipped.operations", fmt.Errorf("%q is not one of c, u, d, t, none", op))
		}
	}
	p.Only("extended.headers.enabled", "records have no headers of Connect's context", "false")
	p.Only("schema.name.adjustment.mode", "names are kept as they are", "none")
	p.Only("field.name.adjustment.mode", "names are kept as they are", "none")
	p.Only("table.ignore.builtin", "the server's own tables are never captured", "true")
	s.TransactionMetadata = p.Flag("provide.transaction.metadata", false)
	s.Park = p.failures()
	const json = "org.apache.kafka.connect.json.JsonConverter"
	p.Only("key.converter", "events are JSON", json)
	p.Only("value.converter", "events are JSON", json)
	keys := p.Flag("key.converter.schemas.enable", false)
	values := p.Flag("value.converter.schemas.enable", keys)
	if keys != values {
		p.Fail("value.converter.schemas.enable", errors.New("must be the same as key.converter.schemas.enable"))
	}
	s.Event = event.Options{
		SchemasEnable:    values,
		DecimalHandling:  event.DecimalHandling(p.Text("decimal.handling.mode", string(event.DecimalPrecise))),
		TimePrecision:    event.TimePrecision(p.Text("time.precision.mode", string(precision))),
		BinaryHandling:   event.BinaryHandling(p.Text("binary.handling.mode", string(event.BinaryBytes))),
		UnavailableValue: p.Text("unavailable.value.placeholder", event.DefaultUnavailableValue),
		Name:             s.Prefix,
	}
	// One at a time, so that each error names its property.
	p.Mode("decimal.handling.mode", event.Options{DecimalHandling: s.Event.DecimalHandling})
	p.Mode("time.precision.mode", event.Options{TimePrecision: s.Event.TimePrecision})
	p.Mode("binary.handling.mode", event.Options{BinaryHandling: s.Event.BinaryHandling})
	p.Mode("unavailable.value.placeholder", event.Options{UnavailableValue: s.Event.UnavailableValue})
}

// failures reads what is to be done with an event that cannot be processed. Debezium's modes that leave it out are refused.
func (p *Properties) failures() (park bool) {
	const name, parks, fails = "event.processing.failure.handling.mode", "park", "fail"
	switch mode := p.Text(name, parks); mode {
	case parks:
		return true
	case fails:
	case "warn", "skip", "ignore":
		p.Fail(name, fmt.Errorf("%q is not supported: nothing is left out; use %s, which keeps the table's changes until what stands in their way is mended, or %s, which stops the connector", mode, parks, fails))
	default:
		p.Fail(name, fmt.Errorf("%q is not supported; use %s or %s", mode, parks, fails))
	}
	return false
}

// Mode checks options that hold the value of one property.
func (p *Properties) Mode(name string, o event.Options) {
	if err := o.Validate(); err != nil {
		p.Fail(name, err)
	}
}

func (p *Properties) topicCreation(s *Settings) {
	const prefix = "topic.creation.default."
	s.Topics = TopicOptions{
		Partitions:  int32(p.Number(prefix+"partitions", -1, -1, 100000)),
		Replication: int16(p.Number(prefix+"replication.factor", -1, -1, 1000)),
		Configs:     map[string]string{},
	}
	for name, v := range p.values {
		if rest, ok := strings.CutPrefix(name, prefix); ok && !p.used[name] {
			p.used[name] = true
			s.Topics.Configs[rest] = strings.TrimSpace(v)
		}
	}
	p.Only("topic.creation.enable", "missing topics are created", "true")
	s.Compression = p.Choice("producer.override.compression.type", "zstd", "zstd", "lz4", "snappy", "none")
}

func (p *Properties) heartbeat(s *Settings) {
	s.HeartbeatInterval = p.Millis("heartbeat.interval.ms", 0)
	s.HeartbeatQuery = p.Text("heartbeat.action.query", "")
	if s.HeartbeatQuery != "" && s.HeartbeatInterval == 0 {
		p.Fail("heartbeat.action.query", errors.New("needs heartbeat.interval.ms above 0"))
	}
	topic := p.Text("topic.heartbeat.prefix", "__debezium-heartbeat") + "." + s.Prefix
	s.HeartbeatTopic = topic
	switch {
	case !validTopicPart(s.Prefix):
	case !validTopicPart(topic):
		p.Fail("topic.heartbeat.prefix", fmt.Errorf("%q may hold letters, digits, '.', '_' and '-' only", topic))
	case strings.HasPrefix(topic, s.Prefix+"."): // a sink would take it for a table's
		p.Fail("topic.heartbeat.prefix", fmt.Errorf("%q is named as a topic of a table is; choose one that does not begin with %s", topic, s.Prefix+"."))
	}
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

// TopicOf is a table's topic. As Debezium does, what a topic name cannot hold becomes an underscore.
func (s *Settings) TopicOf(schema, table string) string {
	return s.Prefix + "." + strings.Map(func(r rune) rune {
		if r < 128 && validTopicPart("x"+string(r)) {
			return r
		}
		return '_'
	}, schema+"."+table)
}

// CapturesColumn tells whether a column that is not part of the key is captured.
func (s *Settings) CapturesColumn(schema, table, column string) bool {
	return s.Columns.Match(schema + "." + table + "." + column)
}

// KeyFor returns the columns that message.key.columns names for a table, nil if none.
func (s *Settings) KeyFor(schema, table string) []string {
	for _, r := range s.KeyColumns {
		if r.table.MatchString(schema + "." + table) {
			return r.columns
		}
	}
	return nil
}

// TopicFindings judges what the tables' topics are to be. A compacted topic takes no record without a key.
func (s *Settings) TopicFindings(keyless []string) []Finding {
	const subject = "topic.creation.default." + policyConfig
	if !strings.Contains(s.Topics.Configs[policyConfig], policyCompact) {
		return nil
	}
	var list []Finding
	for _, name := range keyless {
		list = append(list, Finding{
			Level: LevelError, Subject: SubjectOf(name), Remedy: "give the table a primary key, or name columns in message.key.columns, or leave " + subject + " out",
			Problem: "its events have no key, and a compacted topic, as " + subject + " has them made, takes only records with a key",
		})
	}
	if !s.SkipTruncate {
		list = append(list, Finding{
			Level: LevelWarning, Subject: subject, Remedy: "leave it out, or skipped.operations: t, if readers that are not Rowtrail's expect a truncate without a key",
			Problem: "a compacted topic takes only records with a key, so a truncate has the key " + event.TruncateKey + " in it",
		})
	}
	return list
}

// TopicChecker finds tables whose topics cannot be.
type TopicChecker struct{ seen map[string]string }

// Add takes the topic of one more table; problem is "" where it can be.
func (c *TopicChecker) Add(topic, table string) (problem, remedy string) {
	if len(topic) > maxTopicName {
		return fmt.Sprintf("its topic %s is longer than %d", topic, maxTopicName), "choose a shorter topic.prefix"
	}
	if c.seen == nil {
		c.seen = map[string]string{}
	}
	if other, taken := c.seen[topic]; taken {
		return fmt.Sprintf("it would share topic %s with table %s", topic, other), "leave one of them out with table.exclude.list, or rename it"
	}
	c.seen[topic] = table
	return "", ""
}
