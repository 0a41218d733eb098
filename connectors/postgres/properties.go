package postgres

import "github.com/rowtrail/rowtrail/connectors"

// foreign are properties of Debezium's Postgres connector that are not read.
func foreign() connectors.Foreign {
	return connectors.Foreign{
		Ignored: map[string]bool{
			"schema.refresh.mode": true, "slot.max.retries": true, "slot.retry.delay.ms": true, "database.tcpKeepAlive": true,
			"lsn.flush.timeout.ms": true, "lsn.flush.timeout.action": true,
		},
		Unsupported: map[string]string{
			"read.only":                       "the connector writes nothing to the source except its publication and slot",
			"topic.naming.strategy":           "topics are <topic.prefix>.<schema>.<table>",
			"topic.delimiter":                 "topics are <topic.prefix>.<schema>.<table>",
			"database.sslfactory":             "use database.sslmode and PEM files",
			"database.sslpassword":            "use a key file without a password",
			"xmin.fetch.interval.ms":          "source.xmin is null",
			"flush.lsn.source":                "the slot is confirmed when the log is committed",
			"include.unknown.datatypes":       "columns of every type are captured, as text where there is no better form",
			"slot.stream.params":              "Rowtrail chooses the plugin's parameters",
			"replica.identity.autoset.values": "run the ALTER TABLE that rowtrail check prints",
			"offset.mismatch.strategy":        "a slot that moved without the connector is reported, never passed over",
		},
		Prefixes: map[string]string{"snapshot.": "the load takes all captured tables"},
	}
}
