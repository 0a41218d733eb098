package main

import (
	"slices"
	"strings"
)

// Whose choice a difference is.
const (
	byRowtrail = "Rowtrail's"
	byDebezium = "Debezium's"
)

// entry is a class of differences with the reason for it.
type entry struct {
	id      string
	servers []string
	by      string
	reason  string // Markdown
	match   func(*difference) bool
}

// explains tells whether a difference is of the entry's class.
func (e *entry) explains(d *difference) bool {
	return slices.Contains(e.servers, d.server) && e.match(d)
}

// entries are all known differences. The first that explains a difference counts.
func entries() []entry {
	return slices.Concat(envelopeEntries(), rowEntries(), pgTimeEntries(), pgNumberEntries(), pgTypeEntries(), mysqlEntries())
}

func everywhere() []string   { return []string{serverPostgres, serverMySQL} }
func postgresOnly() []string { return []string{serverPostgres} }

// envelopeEntries are of events as such: topics, headers, source blocks, transactions.
func envelopeEntries() []entry {
	return []entry{
		{
			id: "position-header", servers: everywhere(), by: byRowtrail,
			reason: "Every record of Rowtrail has the header `rowtrail.position`: its place in the source, by which sinks and views merge partitions.",
			match:  func(d *difference) bool { return d.path == "headers.rowtrail.position" && isMissing(d.theirs) },
		},
		{
			id: "context-headers", servers: everywhere(), by: byRowtrail,
			reason: "Debezium adds the headers `__debezium.context.*` to every record (`extended.headers.enabled`): the names of the connector, its task and its run. Rowtrail " +
				"does not repeat in every record what its topic says.",
			match: func(d *difference) bool {
				return strings.HasPrefix(d.path, "headers.__debezium.context.") && isMissing(d.ours)
			},
		},
		{
			id: "own-topics", servers: everywhere(), by: byRowtrail,
			reason: "`<prefix>.position`, `<prefix>.schema` and, of MySQL, `<prefix>.schema-history` hold what Debezium keeps in offsets and in a schema history: see [sources](sources.md).",
			match: func(d *difference) bool {
				return d.path == "topic" && (d.kase == "topic position" || d.kase == "topic schema" || d.kase == "topic schema-history") && isMissing(d.theirs)
			},
		},
		{
			id: "transaction-topic", servers: everywhere(), by: byRowtrail,
			reason: "Rowtrail writes the END of every transaction into `<prefix>.transaction`, whatever `provide.transaction.metadata` is: transactional sinks need it. BEGIN and " +
				"the events' `transaction` block depend on the property, as in Debezium.",
			match: func(d *difference) bool {
				return d.kase == "transactions" && d.path == "topic" && d.mode.is(propTransaction, "false") && isMissing(d.theirs)
			},
		},
		{
			id: "load-txid", servers: postgresOnly(), by: byRowtrail,
			reason: "`source.txId` of the initial load is null: the rows are of no transaction. Debezium has the one of its snapshot.",
			match:  func(d *difference) bool { return d.place() == "value.source.txId" && d.op == opLoad && d.ours == nil },
		},
		{
			id: "load-markers", servers: everywhere(), by: byRowtrail,
			reason: "`source.snapshot` is `true` for every row of the initial load. Debezium marks the first and the last row, and those of each table; Rowtrail loads tables, and " +
				"pieces of them, side by side, so that no row is the last one. `rowtrail connectors` tells when a load is complete.",
			match: func(d *difference) bool {
				return d.place() == "value.source.snapshot" && d.op == opLoad && isText(d.ours, "true") &&
					isText(d.theirs, "first", "last", "first_in_data_collection", "last_in_data_collection")
			},
		},
		{
			id: "partitions-loaded", servers: postgresOnly(), by: byDebezium,
			reason: "With `publish.via.partition.root` Debezium loads a partition's rows twice: into the topic of the partitioned table and into one of the partition. " +
				"Rowtrail captures a partitioned table as one.",
			match: func(d *difference) bool {
				return d.path == "topic" && d.kase == "topic public.s_parts1" && isMissing(d.ours)
			},
		},
		{
			id: "message-times", servers: postgresOnly(), by: byRowtrail,
			reason: "An event of a logical message has `ts_us` and `ts_ns` beside `ts_ms`, as all other events have.",
			match: func(d *difference) bool {
				return d.op == opMessage && isMissing(d.theirs) && isText(d.place(), "value.ts_us", "value.ts_ns", "value.schema/ts_us", "value.schema/ts_ns")
			},
		},
		{
			id: "message-outside", servers: postgresOnly(), by: byRowtrail,
			reason: "A message outside of a transaction has no commit time: `source.ts_*` is when Rowtrail read it. Debezium has the time of the transaction before it.",
			match: func(d *difference) bool {
				return d.op == opMessage && d.ourRecord.identity() == `{"prefix":"outside"}` && isText(d.place(), "value.source.ts_ms", "value.source.ts_us", "value.source.ts_ns")
			},
		},
		{
			id: "message-order", servers: postgresOnly(), by: byRowtrail,
			reason: "A message inside a transaction takes no number of its own in `transaction.total_order`: it repeats the one of the row before it, and is not counted in END, so that the numbers of rows are dense.",
			match: func(d *difference) bool {
				if d.kase == "transactions" {
					text := text(field(payload(d.theirRecord.value), "data_collections"))
					return strings.Contains(text, "LogicalDecodingMessage") && (d.place() == "value.event_count" || strings.HasPrefix(d.place(), "value.data_collections"))
				}
				return d.op == opMessage && strings.HasPrefix(d.place(), "value.transaction.")
			},
		},
	}
}

// rowEntries are of rows: keys, columns that were not sent, defaults.
func rowEntries() []entry {
	return []entry{
		{
			id: "keyless-tombstones", servers: everywhere(), by: byRowtrail,
			reason: "A delete of a table without a key has no tombstone: a record with neither key nor value deletes nothing, and compacted topics refuse it.",
			match: func(d *difference) bool {
				return d.path == "record" && isMissing(d.ours) && isText(d.theirs, "tombstone of null")
			},
		},
		{
			id: "unique-index", servers: postgresOnly(), by: byRowtrail,
			reason: "A table without a primary key and with `REPLICA IDENTITY FULL` has no key, also when it has a unique index, which Debezium takes for the key. " +
				"Name the index in `REPLICA IDENTITY USING INDEX`, or the columns in `message.key.columns`.",
			match: func(d *difference) bool { return d.path == "record" && d.kase == "unique index, identity full" },
		},
		{
			id: "identity-is-key", servers: postgresOnly(), by: byRowtrail,
			reason: "Where the replica identity is an index other than the primary key, the key is the index' columns: Postgres sends no others of a row that is changed or deleted. " +
				"Debezium's key is the primary key, and null or 0 in deletes.",
			match: func(d *difference) bool {
				return d.kase == "primary key, other unique index as identity" && d.path == "record"
			},
		},
		{
			id: "absent-before", servers: everywhere(), by: byRowtrail,
			reason: "Columns that the source did not send are left out of `before`. Debezium writes null, or an empty value of the type where the column is `NOT NULL`, which cannot be told from values. " +
				"So, also where the source sends all, the fields of `before` that are not of the key are optional in the Connect schema.",
			match: func(d *difference) bool {
				if _, rest, ok := d.schema(); ok {
					return rest == ".optional" && strings.HasPrefix(d.place(), "value.schema/before/") && d.ours == true
				}
				return strings.HasPrefix(d.place(), "value.before.") && isMissing(d.ours) && !d.fullIdentity()
			},
		},
		{
			id: "defaults-in-schema", servers: everywhere(), by: byRowtrail,
			reason: "Connect schemas have no defaults of columns. With them Connect's converters replace a null by the default (`null-is-default`).",
			match: func(d *difference) bool {
				_, rest, ok := d.schema()
				return ok && rest == ".default" && isMissing(d.ours)
			},
		},
		{
			id: "null-is-default", servers: everywhere(), by: byDebezium,
			reason: "A null in a column that has a default is null. With Debezium, Connect's JSON converter writes the default in its place (`replace.null.with.default`).",
			match: func(d *difference) bool {
				return d.inValue() && d.ours == nil && d.theirs != nil && !isMissing(d.theirs) && (d.kase == "column defaults" || d.kase == "changes of the table")
			},
		},
		{
			id: "generated-columns", servers: postgresOnly(), by: byRowtrail,
			reason: "A stored generated column is captured when the publication has it (Postgres 18); otherwise the stream lacks it. Debezium then has it in the initial load alone.",
			match: func(d *difference) bool {
				return d.kase == "generated and identity columns" && d.op == opLoad && isMissing(d.ours) && isText(d.place(), "value.after.g", "value.schema/after/g", "value.schema/before/g")
			},
		},
	}
}

// fullIdentity tells that all columns of the table's rows are sent.
func (d *difference) fullIdentity() bool {
	return !strings.HasPrefix(d.kase, "key ") && !strings.HasPrefix(d.kase, "unchanged ") && !slices.Contains([]string{
		"compound key", "unique index as identity", "identity default", "identity default, not null", "generated and identity columns", "partitioned table", "odd names", "empty table",
		"only unknown types", "transactions", "messages", "truncate",
	}, d.kase)
}
