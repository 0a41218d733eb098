package postgres

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// ignored are properties of Debezium and Kafka Connect that tune what Rowtrail does by itself: a pasted configuration may
// hold them.
func ignored() map[string]bool {
	return map[string]bool{
		"max.batch.size": true, "max.queue.size": true, "max.queue.size.in.bytes": true, "poll.interval.ms": true,
		"snapshot.fetch.size": true, "snapshot.isolation.mode": true, "snapshot.delay.ms": true,
		"incremental.snapshot.chunk.size": true, "schema.refresh.mode": true,
		"slot.max.retries": true, "slot.retry.delay.ms": true, "errors.max.retries": true,
		"errors.retry.delay.initial.ms": true, "errors.retry.delay.max.ms": true, "retriable.restart.connector.wait.ms": true,
		"database.tcpKeepAlive": true, "exactly.once.support": true, "transaction.boundary": true,
		"offset.flush.interval.ms": true, "offset.flush.timeout.ms": true,
	}
}

// unsupported are Debezium properties that change what is captured or how, with what to do instead.
func unsupported() map[string]string {
	return map[string]string{
		"signal.data.collection":                 "a table added to table.include.list is loaded by itself",
		"signal.enabled.channels":                "a table added to table.include.list is loaded by itself",
		"read.only":                              "the connector writes nothing to the source except its publication and slot",
		"snapshot.select.statement.overrides":    "use table.include.list and column.exclude.list",
		"topic.transaction":                      "the transaction topic is <topic.prefix>.transaction",
		"topic.naming.strategy":                  "topics are <topic.prefix>.<schema>.<table>",
		"topic.delimiter":                        "topics are <topic.prefix>.<schema>.<table>",
		"database.server.name":                   "use topic.prefix",
		"flush.lsn.source":                       "the slot is confirmed when the log is committed",
		"event.processing.failure.handling.mode": "what cannot be decoded stops the connector; nothing is skipped",
		"include.unknown.datatypes":              "columns of every type are captured, as text where there is no better form",
		"transforms":                             "transform in the consumer or the sink",
		"predicates":                             "transform in the consumer or the sink",
		"slot.stream.params":                     "Rowtrail chooses the plugin's parameters",
		"replica.identity.autoset.values":        "run the ALTER TABLE that rowtrail check prints",
		"skip.messages.without.change":           "every change is captured",
		"offset.mismatch.strategy":               "a slot that moved without the connector is reported, never passed over",
		"notification.enabled.channels":          "see the status of the connector",
		"custom.metric.tags":                     "see /metrics",
		"converters":                             "see decimal.handling.mode, time.precision.mode, binary.handling.mode",
	}
}

func unsupportedPrefixes() map[string]string {
	return map[string]string{
		"column.mask.":          "mask in the sink, or leave the column out with column.exclude.list",
		"column.truncate.":      "truncate in the sink",
		"column.propagate.":     "source types are in the schema topic",
		"datatype.propagate.":   "source types are in the schema topic",
		"transforms.":           "transform in the consumer or the sink",
		"predicates.":           "transform in the consumer or the sink",
		"signal.":               "a table added to table.include.list is loaded by itself",
		"notification.":         "see the status of the connector",
		"incremental.snapshot.": "a table added to table.include.list is loaded by itself",
		"snapshot.":             "the load takes all captured tables",
		"key.converter.":        "events are JSON; only schemas.enable can be set",
		"value.converter.":      "events are JSON; only schemas.enable can be set",
		"producer.override.":    "only producer.override.compression.type can be set",
		"topic.creation.":       "only topic.creation.default.* can be set",
	}
}

// rest refuses by name whatever was not read (nothing is silently without effect).
func (p *parser) rest(c *Config) {
	tuning, known := ignored(), unsupported()
	for name := range p.props {
		if p.used[name] {
			continue
		}
		switch why, ok := known[name]; {
		case tuning[name]:
			c.Ignored = append(c.Ignored, name)
		case ok:
			p.fail(name, fmt.Errorf("is not supported: %s", why))
		default:
			p.fail(name, p.unknown(name))
		}
	}
	sort.Strings(c.Ignored)
}

func (p *parser) unknown(name string) error {
	for prefix, why := range unsupportedPrefixes() {
		if strings.HasPrefix(name, prefix) {
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
