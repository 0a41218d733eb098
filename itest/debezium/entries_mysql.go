package main

import (
	"regexp"
	"strings"
)

func mysqlOnly() []string { return []string{serverMySQL} }

// noDate are dates that no calendar has, as MySQL prints them.
var noDate = regexp.MustCompile(`^(0000-|\d{4}-00-|\d{4}-\d\d-00|2023-02-31)`)

// mysqlEntries are the differences on MySQL.
func mysqlEntries() []entry {
	statement := func(d *difference, name string) bool {
		return (d.kase == "schema changes" || d.op == opTruncate) && d.place() == "value.source."+name
	}
	return []entry{
		{
			id: "schema-load", servers: mysqlOnly(), by: byRowtrail,
			reason: "Debezium begins the topic of schema changes with the statements that make all tables. Rowtrail writes what changes; the tables as they are stand in `<prefix>.schema`.",
			match: func(d *difference) bool {
				return d.kase == "schema changes" && d.path == "record" && isMissing(d.ours) && field(payload(d.theirRecord.value), "source", "snapshot") != "false"
			},
		},
		{
			id: "truncate-statements", servers: mysqlOnly(), by: byRowtrail,
			reason: "`TRUNCATE` is a statement of the topic of schema changes, and, unless `skipped.operations` has it, an event of the table. In Debezium it is only the latter.",
			match: func(d *difference) bool {
				return d.kase == "schema changes" && d.path == "record" && isMissing(d.theirs) && strings.HasPrefix(d.ourRecord.ddl(), "TRUNCATE")
			},
		},
		{
			id: "statement-thread", servers: mysqlOnly(), by: byRowtrail,
			reason: "`source.thread` of a statement is the session that ran it. Debezium has it of rows alone.",
			match:  func(d *difference) bool { return statement(d, "thread") && d.theirs == nil },
		},
		{
			id: "statement-time", servers: mysqlOnly(), by: byRowtrail,
			reason: "`source.ts_us` and `ts_ns` of a statement have microseconds, as those of rows have. Debezium has milliseconds.",
			match: func(d *difference) bool {
				return statement(d, "ts_us") && strings.HasSuffix(text(d.theirs), "000") || statement(d, "ts_ns") && strings.HasSuffix(text(d.theirs), "000000")
			},
		},
		{
			id: "captured-columns", servers: mysqlOnly(), by: byRowtrail,
			reason: "`tableChanges` of a statement has the columns that are captured. Debezium has also those that `column.include.list` leaves out.",
			match: func(d *difference) bool {
				return d.kase == "schema changes" && d.mode.props[propInclude] != "" && strings.HasPrefix(d.place(), "value.tableChanges[") && strings.HasSuffix(d.place(), ".table.columns")
			},
		},
		{
			id: "no-dates", servers: mysqlOnly(), by: byRowtrail,
			reason: "Dates that no calendar has (0000-00-00, 2023-00-15, 2023-02-31) are the source's text. Debezium has null, or 1970-01-01 where the column is `NOT NULL` and for 2023-02-31, and its initial load ends at all of them but 0000-00-00. " +
				"`zero.date.handling.mode` changes it: see [types of MySQL](sources.md#types-of-mysql-and-mariadb).",
			match: func(d *difference) bool {
				date, ok := d.ours.(string)
				return d.inValue() && ok && noDate.MatchString(date) && (d.theirs == nil || d.typeStarts("date"))
			},
		},
		{
			id: "years-of-two-digits", servers: mysqlOnly(), by: byRowtrail,
			reason: "A year is the source's. Debezium moves the years 0 to 99 of dates into this century or the last (`enable.time.adjuster`), and a `YEAR` of 0000 is 1900.",
			match: func(d *difference) bool {
				return d.inValue() && (d.typ() == "date" && d.theirs != nil && (isNumber(d.ours, "-719162") || isText(d.ours, "0001-01-01Z")) || d.typ() == "year" && isNumber(d.ours, "0"))
			},
		},
		{
			id: "long-times", servers: mysqlOnly(), by: byRowtrail,
			reason: "A `TIME` that is no time of the day, -00:00:01 or 100:00:00, is itself with `time.precision.mode=isostring` and `connect`, too. Debezium has null, and leaves out the events of such a key.",
			match: func(d *difference) bool {
				if !d.mode.is(propTime, "isostring") && !d.mode.is(propTime, "connect") {
					return false
				}
				return d.ofType("time", "time(1)", "time(6)") && d.inValue() && d.ours != nil && d.theirs == nil || d.kase == "key time" && d.path == "record" && isMissing(d.theirs)
			},
		},
		{
			id: "truncate-transactions", servers: mysqlOnly(), by: byRowtrail,
			reason: "The event of a `TRUNCATE` has a `transaction` block, and its transaction BEGIN and END. Debezium's has none.",
			match: func(d *difference) bool {
				return d.mode.is(propTransaction, "true") && isMissing(d.theirs) && d.kase == "transactions" && d.path == "record" || d.op == opTruncate && d.place() == "value.transaction" && d.theirs == nil
			},
		},
		{
			id: "float-digits-of-mysql", servers: mysqlOnly(), by: byDebezium,
			reason: "As `float-digits`: Java's digits are sometimes longer.",
			match: func(d *difference) bool {
				return d.inValue() && (d.ofType("float") && sameFloat(d.ours, d.theirs, 32) || d.ofType("double", "real") && sameFloat(d.ours, d.theirs, 64))
			},
		},
		{
			id: "floats-loaded", servers: mysqlOnly(), by: byDebezium,
			reason: "A `FLOAT` has all of its digits in the initial load, too. Debezium asks the server for its text, which has six digits: 3.40282E38 for 3.4028235e+38.",
			match: func(d *difference) bool {
				return d.op == opLoad && d.typ() == "float" && d.inValue()
			},
		},
		{
			id: "timestamps-loaded", servers: mysqlOnly(), by: byDebezium,
			reason: "`TIMESTAMP(3)` has three digits of its fraction in the initial load, too. Debezium leaves zeros at the end out there, and has them in the stream.",
			match: func(d *difference) bool {
				return d.op == opLoad && d.typeStarts("timestamp(") && d.inValue() && withoutZeros(d.ours) == withoutZeros(d.theirs)
			},
		},
		{
			id: "float-as-double", servers: mysqlOnly(), by: byRowtrail,
			reason: "`FLOAT(7,3)`, whose Connect schema is a double, has the shortest digits of its 32 bits: 1234.567. Debezium's are those of 64 bits: 1234.5670166015625.",
			match: func(d *difference) bool {
				return d.ofType("float(7,3)") && d.inValue() && sameFloat(d.ours, d.theirs, 32)
			},
		},
		{
			id: "commas-in-labels", servers: mysqlOnly(), by: byDebezium,
			reason: "A label of an `ENUM` is what it is. Debezium escapes its commas with a backslash, in values and in the schema's `allowed`.",
			match: func(d *difference) bool {
				ours, _ := d.ours.(string)
				theirs, _ := d.theirs.(string)
				return d.typeStarts("enum") && strings.ReplaceAll(theirs, `\,`, ",") == ours
			},
		},
		{
			id: "json-text", servers: mysqlOnly(), by: byRowtrail,
			reason: "`JSON` is the server's text, with its spaces and numbers. Debezium prints it anew: 1e15 is 1000000000000000, and negative times are damaged.",
			match: func(d *difference) bool {
				_, ours := d.ours.(string)
				_, theirs := d.theirs.(string)
				return d.ofType("json") && d.inValue() && ours && theirs
			},
		},
	}
}

// withoutZeros is a timestamp without zeros at the end of its fraction.
func withoutZeros(v any) string {
	text, _ := v.(string)
	seconds, fraction, ok := strings.Cut(strings.TrimSuffix(text, "Z"), ".")
	if !ok {
		return seconds
	}
	return seconds + "." + strings.TrimRight(fraction, "0")
}

// ddl is the statement of a schema change.
func (r *record) ddl() string {
	ddl, _ := field(payload(r.value), "ddl").(string)
	return ddl
}
