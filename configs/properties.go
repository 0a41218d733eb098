package configs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/sink"
)

// Property describes one setting of a connector or sink, for the reference. Its package is what accepts it.
type Property struct {
	Name, Default, Doc string
}

// ConnectorProperties lists what a postgres connector takes.
func ConnectorProperties() []Property {
	return []Property{
		{"database.dsn", "", "Connection string of the source, postgres://user:password@host:port/database; instead of the next six."},
		{"database.hostname", "", "Host of the source, or the directory of its socket."},
		{"database.port", "5432", "Port of the source."},
		{"database.user", "", "Role to connect as; it needs REPLICATION, and SELECT on the captured tables."},
		{"database.password", "", "Its password."},
		{"database.dbname", "", "Database to capture."},
		{"database.sslmode", "prefer", "disable, allow, prefer, require, verify-ca or verify-full; with database.sslrootcert, database.sslcert and database.sslkey."},
		{"topic.prefix", "the connector's name", "Topics are <topic.prefix>.<schema>.<table>; position, schema and transaction topics begin with it too."},
		{"table.include.list", "", "Tables to capture: regular expressions for schema.table, each matched as a whole."},
		{"table.exclude.list", "", "Tables not to capture; instead of table.include.list."},
		{"schema.include.list", "", "Schemas to capture; schema.exclude.list for those not to."},
		{"column.include.list", "", "Columns to capture, as schema.table.column; column.exclude.list for those not to. Key columns always stay in the key."},
		{"message.key.columns", "", "Keys other than the primary key: schema.table:column,column;..."},
		{"message.prefix.include.list", "", "Prefixes of logical messages to capture; without it and message.prefix.exclude.list none are."},
		{"message.prefix.exclude.list", "", "Prefixes of logical messages not to capture: all others are."},
		{"slot.name", "debezium", "Replication slot; made when it is missing, and read by this connector alone."},
		{"slot.drop.on.stop", "false", "Drop the slot when the connector stops: for tests; changes in between are lost."},
		{"slot.failover", "false", "Make the slot a failover slot, of which standbys keep a copy (Postgres 17 and later; without effect before)."},
		{"publication.name", "dbz_publication", "Publication that the slot reads."},
		{"publication.autocreate.mode", "filtered", "filtered: make it for exactly the captured tables; disabled: it exists; all_tables: FOR ALL TABLES, which can break the application's updates of tables without a key."},
		{"snapshot.mode", "initial", "initial: load the tables, then stream; initial_only: load, then stop; no_data: stream only."},
		{"snapshot.max.threads", "2", "Pieces of tables loaded at the same time, each over a connection of its own."},
		{"snapshot.include.collection.list", "", "Captured tables to load; the others are streamed only. Empty: all."},
		{"heartbeat.interval.ms", "0", "Write a heartbeat record this often; 0: none. The slot of an idle database is confirmed without it."},
		{"heartbeat.action.query", "", "SQL to run at the source with each heartbeat."},
		{"topic.heartbeat.prefix", "__debezium-heartbeat", "Heartbeats go to <topic.heartbeat.prefix>.<topic.prefix>."},
		{"status.update.interval.ms", "10000", "How often the source hears that the connector is alive."},
		{"tombstones.on.delete", "true", "Follow a delete with a record without value, which lets compaction forget the key."},
		{"skipped.operations", "t", "Kinds of changes not to capture: c, u, d, t, or none."},
		{"event.processing.failure.handling.mode", "park", "park: an error of one table parks that table, the others go on; fail: it stops the connector. Nothing is ever left out."},
		{"provide.transaction.metadata", "false", "Add a transaction block to each event, and BEGIN records to the transaction topic."},
		{"decimal.handling.mode", "precise", "precise, double or string."},
		{"time.precision.mode", "adaptive", "adaptive, adaptive_time_microseconds, microseconds, nanoseconds (refuses timestamps before 1677 and after 2262), isostring, or connect (milliseconds: loses digits)."},
		{"interval.handling.mode", "string", "string loses nothing; numeric is Debezium's default."},
		{"binary.handling.mode", "bytes", "bytes, base64, base64-url-safe or hex."},
		{"hstore.handling.mode", "json", "json or map."},
		{"unavailable.value.placeholder", "__debezium_unavailable_value", "What stands for a large value that the source did not send again."},
		{"key.converter.schemas.enable", "false", "Wrap keys and values in {schema, payload}; value.converter.schemas.enable must be the same."},
		{"topic.creation.default.partitions", "-1", "Partitions of a new data topic; -1: log.num.partitions. Other topic.creation.default.* are the topic's configuration."},
		{"producer.override.compression.type", "zstd", "zstd, lz4, snappy or none."},
	}
}

// BinlogProperties lists what a mysql or mariadb connector takes.
func BinlogProperties() []Property {
	own := []Property{
		{"database.hostname", "", "Host of the source, or its socket's path."},
		{"database.port", "3306", "Port of the source."},
		{"database.user", "", "User to connect as; it needs REPLICATION SLAVE, REPLICATION CLIENT (MariaDB: BINLOG MONITOR), and SELECT on the captured tables. Beside them snapshot.locking.mode minimal and extended need RELOAD, or LOCK TABLES; so do tables without a key."},
		{"database.password", "", "Its password."},
		{"database.server.id", "made of the connector's name", "The connector's number among the source's replicas: no other may have it."},
		{"database.ssl.mode", "preferred", "disabled, preferred, required, verify_ca or verify_identity; with database.ssl.ca, database.ssl.cert and database.ssl.key, PEM files."},
		{"connect.timeout.ms", "15000", "How long a connection may take."},
		{"topic.prefix", "the connector's name", "Topics are <topic.prefix>.<database>.<table>; position, schema and transaction topics begin with it too."},
		{"database.include.list", "", "Databases to capture: regular expressions, each matched as a whole; database.exclude.list for those not to."},
		{"table.include.list", "", "Tables to capture: regular expressions for database.table, each matched as a whole."},
		{"table.exclude.list", "", "Tables not to capture; instead of table.include.list."},
		{"column.include.list", "", "Columns to capture, as database.table.column; column.exclude.list for those not to. Key columns always stay in the key."},
		{"message.key.columns", "", "Keys other than the primary key: database.table:column,column;..."},
		{"snapshot.mode", "initial", "initial: load captured tables that are not in the log, and stream; initial_only: load, then be complete; always: load all at each start; when_needed: as initial, and all again at a gap; no_data: stream only, from where the source is at the first start."},
		{"snapshot.locking.mode", "none", "How the first load begins. none: in chunks beside the stream; minimal: from snapshots of one position, under a lock that is held until they are open; extended: until all is read."},
		{"snapshot.lock.timeout.ms", "10000", "How long that lock, or one on a table without a key, may be waited for."},
		{"snapshot.max.threads", "2", "Tables loaded at the same time, each over a connection of its own."},
		{"snapshot.include.collection.list", "", "Captured tables to load; the others are streamed only. Empty: all."},
		{"signal.data.collection", "", "Table, database.table, whose inserted rows (id, type, data) are signals; `rowtrail connectors signal` needs none."},
		{"on.gap", "stop", "stop: what the source no longer has, and the log has not, stops the connector; repair: the tables are compared with the log, and what differs is told."},
		{"include.schema.changes", "true", "Write statements that change captured tables to the topic named <topic.prefix>."},
		{"include.query", "false", "Put the statement behind a change into its source block; the source must log it."},
	}
	shared := []string{
		"heartbeat.interval.ms", "heartbeat.action.query", "topic.heartbeat.prefix", "tombstones.on.delete", "skipped.operations", "provide.transaction.metadata",
		"decimal.handling.mode", "binary.handling.mode", "unavailable.value.placeholder", "key.converter.schemas.enable", "topic.creation.default.partitions",
		"producer.override.compression.type",
	}
	for _, p := range ConnectorProperties() {
		if slices.Contains(shared, p.Name) {
			own = append(own, p)
		}
	}
	return append(own,
		Property{"time.precision.mode", "adaptive_time_microseconds", "adaptive_time_microseconds, adaptive, microseconds, nanoseconds (refuses timestamps before 1677 and after 2262), isostring, or connect (milliseconds: loses digits)."},
		Property{"bigint.unsigned.handling.mode", "precise", "precise loses nothing; long refuses what does not fit."},
		Property{"zero.date.handling.mode", "string", "string: as the source has them; fail; or debezium: null or 1970, which loses them."})
}

// SinkProperties lists what a postgres sink takes.
func SinkProperties() []Property {
	return []Property{
		{"dsn", "", "Connection string of the target, postgres://user:password@host:port/database. Required."},
		{"target.schema", "the source's", "Schema of all tables in the target."},
		{"table.map", "", "Tables of another name: schema.table:schema.table, ..., the source's first."},
		{"schema.evolution", "basic", "basic: create missing tables, columns, enum types and enum labels; none: stop with the SQL that is needed."},
		{"truncate.enabled", "true", "Apply truncates; false: stop at one."},
		{"offsets.schema", "rowtrail", "Schema of the tables that hold the sink's offsets in the target."},
		{"batch.max.rows", strconv.Itoa(sink.DefaultMaxRows), "Bound of a target transaction in rows; a larger source transaction still stays whole."},
		{"batch.max.bytes", strconv.Itoa(sink.DefaultMaxBytes), "The same in bytes."},
		{"batch.max.ms", strconv.FormatInt(sink.DefaultMaxDelay.Milliseconds(), 10), "How long source transactions are gathered into one target transaction."},
		{"consistency", "transaction", "transaction: whole source transactions, all partitions in one task."},
	}
}

// MySQLSinkProperties lists what a mysql sink takes.
func MySQLSinkProperties() []Property {
	own := []Property{
		{"dsn", "", "URL of the target, mysql://user:password@host:3306/; it can have ?ssl-mode=preferred (disabled, required, verify_ca, verify_identity), ssl-ca, ssl-cert, ssl-key and socket. Required."},
		{"target.database", "the source's", "Database of all tables in the target; of tables of Postgres otherwise one named as their schema."},
		{"table.map", "", "Tables of another name: schema.table:database.table, ..., the source's first."},
		{"schema.evolution", "basic", "basic: create missing databases, tables and columns, and widen types; none: stop with the SQL that is needed."},
		{"truncate.enabled", "true", "Apply truncates, as deletes of all rows; false: stop at one."},
		{"offsets.database", "rowtrail", "Database of the tables that hold the sink's offsets in the target, and of its temporary tables."},
	}
	for _, p := range SinkProperties() {
		if strings.HasPrefix(p.Name, "batch.") || p.Name == "consistency" {
			own = append(own, p)
		}
	}
	return own
}

func propertyTable(title string, list []Property) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s\n\n| property | default | meaning |\n| --- | --- | --- |\n", title)
	for _, p := range list {
		standard := "-"
		if p.Default != "" {
			standard = "`" + p.Default + "`"
			if strings.Contains(p.Default, " ") || strings.HasSuffix(p.Default, "'s") {
				standard = p.Default
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Name, standard, p.Doc)
	}
	return b.String()
}

// remedyFor completes a package's error that says no remedy.
func remedyFor(property, what, remedy string, known []Property) string {
	if remedy != "" || !strings.HasSuffix(what, "unknown") && what != "unknown property" {
		return remedy
	}
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.Name
	}
	if s := suggest(property, names); s != "" {
		return fmt.Sprintf("did you mean %s?", s)
	}
	return "remove it; docs/configuration.md lists the properties"
}
