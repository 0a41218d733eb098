package connectors

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Properties reads a connector's configuration under Debezium's names. It collects all errors, and knows what nobody asked for.
type Properties struct {
	values map[string]string
	used   map[string]bool
	errs   []error
}

// NewProperties reads values, which it does not change.
func NewProperties(values map[string]string) *Properties {
	return &Properties{values: values, used: map[string]bool{}}
}

// Fail adds an error that belongs to a property.
func (p *Properties) Fail(name string, err error) {
	p.errs = append(p.errs, &PropertyError{Property: name, Err: err})
}

// Errors are all errors, sorted by property; each is a *PropertyError.
func (p *Properties) Errors() []error {
	sort.SliceStable(p.errs, func(i, j int) bool { return p.errs[i].Error() < p.errs[j].Error() })
	return p.errs
}

// Given tells whether a property is there and not empty.
func (p *Properties) Given(name string) bool { return p.values[name] != "" }

// Raw is a property as it was written: a password may begin with a space.
func (p *Properties) Raw(name string) string {
	p.used[name] = true
	return p.values[name]
}

// Text is a property without the space around it, or its default.
func (p *Properties) Text(name, def string) string {
	p.used[name] = true
	if v, ok := p.values[name]; ok && strings.TrimSpace(v) != "" {
		return strings.TrimSpace(v)
	}
	return def
}

// Flag is true or false.
func (p *Properties) Flag(name string, def bool) bool {
	v := p.Text(name, strconv.FormatBool(def))
	switch v {
	case "true":
		return true
	case "false":
		return false
	}
	p.Fail(name, fmt.Errorf("%q is neither true nor false", v))
	return def
}

// Number is a number within bounds.
func (p *Properties) Number(name string, def, low, high int) int {
	v := p.Text(name, strconv.Itoa(def))
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		p.Fail(name, fmt.Errorf("%q is not a number from %d to %d", v, low, high))
		return def
	}
	return n
}

// Millis is a time in milliseconds.
func (p *Properties) Millis(name string, def time.Duration) time.Duration {
	return time.Duration(p.Number(name, int(def/time.Millisecond), 0, 1<<31-1)) * time.Millisecond
}

// Choice is one of some words.
func (p *Properties) Choice(name, def string, allowed ...string) string {
	v := p.Text(name, def)
	for _, a := range allowed {
		if v == a {
			return v
		}
	}
	p.Fail(name, fmt.Errorf("%q is not supported; use %s", v, strings.Join(allowed, ", ")))
	return def
}

// Only accepts a property that has just one supported value, by the names in allowed.
func (p *Properties) Only(name, why string, allowed ...string) {
	v := p.Text(name, allowed[0])
	for _, a := range allowed {
		if v == a {
			return
		}
	}
	p.Fail(name, fmt.Errorf("%q is not supported: %s; leave it out or use %s", v, why, allowed[0]))
}

// Foreign are properties that a pasted configuration may hold and that this connector does not read.
type Foreign struct {
	Ignored     map[string]bool   // they tune what Rowtrail does by itself
	Unsupported map[string]string // they change what is captured or how: what to do instead
	Prefixes    map[string]string // the same for all that begin so; "" as reason: ignored
}

// foreign are those of Debezium and Kafka Connect that no connector reads.
func foreign() Foreign {
	const loaded = "a table added to table.include.list is loaded by itself"
	return Foreign{
		Ignored: map[string]bool{
			"max.batch.size": true, "max.queue.size": true, "max.queue.size.in.bytes": true, "poll.interval.ms": true,
			"snapshot.fetch.size": true, "snapshot.isolation.mode": true, "snapshot.delay.ms": true,
			"incremental.snapshot.chunk.size": true, "errors.max.retries": true,
			"errors.retry.delay.initial.ms": true, "errors.retry.delay.max.ms": true, "retriable.restart.connector.wait.ms": true,
			"exactly.once.support": true, "transaction.boundary": true,
			"offset.flush.interval.ms": true, "offset.flush.timeout.ms": true,
			"connection.validation.timeout.ms": true, "executor.shutdown.timeout.ms": true, "query.fetch.size": true, "streaming.delay.ms": true,
			"legacy.snapshot.max.threads": true, "statistics.metrics.enabled": true, "database.query.timeout.ms": true,
		},
		Unsupported: map[string]string{
			"signal.data.collection":                 loaded,
			"signal.enabled.channels":                loaded,
			"snapshot.select.statement.overrides":    "use table.include.list and column.exclude.list",
			"topic.transaction":                      "the transaction topic is <topic.prefix>.transaction",
			"database.server.name":                   "use topic.prefix",
			"transforms":                             "transform in the consumer or the sink",
			"predicates":                             "transform in the consumer or the sink",
			"skip.messages.without.change":           "every change is captured",
			"notification.enabled.channels":          "see the status of the connector",
			"custom.metric.tags":                     "see /metrics",
			"custom.sanitize.pattern":                "what a topic's name cannot hold becomes an underscore",
			"heartbeat.topics.prefix":                "use topic.heartbeat.prefix",
			"include.schema.comments":                "events have no comments",
			"guardrail.collections.max":              "all tables of the lists are captured",
			"guardrail.collections.limit.action":     "all tables of the lists are captured",
			"sourceinfo.struct.maker":                "the source block is Debezium's",
			"transaction.metadata.factory":           "transactions are told as Debezium does",
			"post.processors":                        "transform in the consumer or the sink",
			"database.initial.statements":            "Rowtrail sets its sessions itself",
			"converters":                             "see decimal.handling.mode, time.precision.mode, binary.handling.mode",
			"event.converting.failure.handling.mode": "what cannot be converted stops the connector; nothing is skipped",
		},
		Prefixes: map[string]string{
			"column.mask.":          "mask in the sink, or leave the column out with column.exclude.list",
			"column.truncate.":      "truncate in the sink",
			"column.propagate.":     "source types are in the schema topic",
			"datatype.propagate.":   "source types are in the schema topic",
			"transforms.":           "transform in the consumer or the sink",
			"predicates.":           "transform in the consumer or the sink",
			"signal.":               loaded,
			"notification.":         "see the status of the connector",
			"incremental.snapshot.": loaded,
			"key.converter.":        "events are JSON; only schemas.enable can be set",
			"value.converter.":      "events are JSON; only schemas.enable can be set",
			"producer.override.":    "only producer.override.compression.type can be set",
			"internal.":             "it is of Debezium's own workings",
			"memory.management.":    "", // there is nothing to set
			"openlineage.":          "Rowtrail reports no lineage",
			"topic.creation.":       "only topic.creation.default.* can be set",
		},
	}
}

// Rest refuses by name whatever was not read (nothing is silently without effect), and returns what is ignored. own adds to what no
// connector reads, and wins over it.
func (p *Properties) Rest(own Foreign) (ignored []string) {
	all := foreign()
	for name := range p.values {
		if p.used[name] {
			continue
		}
		why, known := own.Unsupported[name]
		if !known {
			why, known = all.Unsupported[name]
		}
		switch {
		case own.Ignored[name], all.Ignored[name]:
			ignored = append(ignored, name)
		case known:
			p.Fail(name, fmt.Errorf("is not supported: %s", why))
		default:
			if err := p.unknown(name, own.Prefixes, all.Prefixes); err != nil {
				p.Fail(name, err)
			} else {
				ignored = append(ignored, name)
			}
		}
	}
	sort.Strings(ignored)
	return ignored
}

func (p *Properties) unknown(name string, prefixes ...map[string]string) error {
	for _, list := range prefixes {
		for prefix, why := range list {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			if why == "" {
				return nil
			}
			return fmt.Errorf("is not supported: %s", why)
		}
	}
	best, distance := "", 4
	for known := range p.used {
		if d := editDistance(name, known); d < distance {
			best, distance = known, d
		}
	}
	if best != "" {
		return fmt.Errorf("is unknown; did you mean %s?", best)
	}
	return errors.New("is unknown")
}

// editDistance is Levenshtein's, over bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
