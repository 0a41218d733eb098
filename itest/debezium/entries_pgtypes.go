package main

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// pgNumberEntries are of Postgres' numbers.
func pgNumberEntries() []entry {
	return []entry{
		{
			id: "special-numbers", servers: postgresOnly(), by: byRowtrail,
			reason: "NaN and the infinities of `numeric` are the JSON strings `\"NaN\"`, `\"Infinity\"` and `\"-Infinity\"`, also in arrays. Debezium logs them and writes null, and with " +
				"`decimal.handling.mode=string` `NAN`, `POSITIVE_INFINITY` and `NEGATIVE_INFINITY`.",
			match: func(d *difference) bool {
				return d.ofType("numeric", "numeric(10,2)", "numeric[]", "numeric(10,2)[]") && d.inValue() && holds(d.ours, isSpecial) && (d.theirs == nil || isText(d.theirs, "NAN", "POSITIVE_INFINITY", "NEGATIVE_INFINITY"))
			},
		},
		{
			id: "trailing-zeros", servers: postgresOnly(), by: byRowtrail,
			reason: "`numeric` without a scale keeps its digits: 1.50 has scale 2. Debezium takes trailing zeros off.",
			match: func(d *difference) bool {
				x, ok1 := variableDecimal(d.ours)
				y, ok2 := variableDecimal(d.theirs)
				return d.inValue() && ok1 && ok2 && x.Cmp(y) == 0
			},
		},
		{
			id: "float-digits", servers: postgresOnly(), by: byDebezium,
			reason: "A float has the shortest digits that are read back as the same number. Java's are sometimes longer: 4.9E-324 for 5e-324.",
			match: func(d *difference) bool {
				return d.inValue() && (d.ofType("float4", "float4[]") && sameFloat(d.ours, d.theirs, 32) || d.ofType("float8", "float8[]") && sameFloat(d.ours, d.theirs, 64))
			},
		},
		{
			id: "negative-scale", servers: postgresOnly(), by: byDebezium,
			reason: "The scale of `numeric(2,-3)` is -3. Debezium reads it as 2045 and writes numbers of 2,045 digits after the point.",
			match: func(d *difference) bool {
				_, rest, inSchema := d.schema()
				return d.ofType("numeric(2,-3)") && (d.inValue() || inSchema && rest == ".parameters.scale")
			},
		},
		{
			id: "all-digits", servers: everywhere(), by: byRowtrail,
			reason: "With `decimal.handling.mode=double` a number has all of its digits, so that the rounding is the reader's. Debezium rounds, to `\"Infinity\"` beyond the largest double.",
			match: func(d *difference) bool {
				return d.mode.is(propDecimal, "double") && d.inValue() && (sameFloat(d.ours, d.theirs, 64) || isText(d.theirs, "Infinity"))
			},
		},
		{
			id: "bit-varying", servers: postgresOnly(), by: byRowtrail,
			reason: "`bit varying` is its text, in which its length is: bytes cannot tell 101 from 0101. Debezium has bytes, and a boolean for `bit varying(1)`.",
			match:  func(d *difference) bool { return d.ofType("varbit", "varbit(1)", "varbit(12)") },
		},
	}
}

// pgTimeEntries are of Postgres' dates, times and intervals.
func pgTimeEntries() []entry {
	return []entry{
		{
			id: "timetz-offset", servers: postgresOnly(), by: byRowtrail,
			reason: "`timetz` keeps its offset: 13:45:30.5+02:00. Debezium moves it to UTC, 11:45:30.5Z, and 24:00:00 becomes 00:00:00.",
			match: func(d *difference) bool {
				_, ours := d.ours.(string)
				_, theirs := d.theirs.(string)
				return d.ofType("timetz", "timetz[]") && d.inValue() && ours && theirs
			},
		},
		{
			id: "timetz-seconds", servers: postgresOnly(), by: byDebezium,
			reason: "Debezium ends at a `timetz` whose offset has seconds (12:00:00+01:02:03); with `event.processing.failure.handling.mode=warn`, which this comparison sets, it leaves the event out, " +
				"and its transaction's counts are short. In the initial load it writes null.",
			match: func(d *difference) bool {
				if d.kase == "transactions" {
					return d.countOf(pgTable("timetz"))
				}
				if strings.HasPrefix(d.place(), "value.transaction.") {
					return d.kase == "timetz"
				}
				return d.kase == "timetz" && (d.path == "record" && isMissing(d.theirs) || d.theirs == nil && isText(d.ours, "12:00:00+01:02:03"))
			},
		},
		{
			id: "midnight", servers: postgresOnly(), by: byDebezium,
			reason: "24:00:00 is 24:00:00, also in arrays and with `time.precision.mode=isostring`, where Debezium writes 00:00:00.",
			match:  func(d *difference) bool { return d.typeStarts("time") && d.inValue() && isMidnight(d.ours) },
		},
		{
			id: "infinite-dates", servers: postgresOnly(), by: byRowtrail,
			reason: "An infinite date is the largest or the smallest int32, or `infinity` and `-infinity` as ISO text. Debezium's numbers are dates like others, and differ between the initial load and the stream.",
			match: func(d *difference) bool {
				return d.ofType("date", "date[]") && d.inValue() && isInfiniteDate(d.ours)
			},
		},
		{
			id: "before-christ", servers: postgresOnly(), by: byDebezium,
			reason: "A date before Christ is one also in the initial load, where Debezium drops the era: 0044-03-15 BC becomes the year 44.",
			match: func(d *difference) bool {
				return d.op == opLoad && d.ofType("date") && d.inValue()
			},
		},
		{
			id: "infinite-timestamps", servers: postgresOnly(), by: byDebezium,
			reason: "An infinite timestamp is `infinity` or `-infinity` wherever timestamps are texts. In arrays, and of `timestamp` with `time.precision.mode=isostring`, Debezium writes a date like others, of the year 294,247 or 292,269,055.",
			match: func(d *difference) bool {
				return d.ofType("timestamptz[]", "timestamp[]", "timestamp", "timestamp(3)") && d.inValue() && (isText(d.ours, "infinity", "-infinity") || isInfiniteMicros(d.ours))
			},
		},
		{
			id: "interval-fraction", servers: postgresOnly(), by: byDebezium,
			reason: "An interval's seconds are exact. Debezium reads them as a float: 1.235 becomes 1.234999999.",
			match: func(d *difference) bool {
				return d.ofType("interval", "interval(3)") && d.inValue() &&
					(isText(d.ours, "P0Y0M0DT0H0M1.235S") && isText(d.theirs, "P0Y0M0DT0H0M1.234999999S") || d.ours == json.Number("1235000") && d.theirs == json.Number("1234999"))
			},
		},
	}
}

// pgTypeEntries are of Postgres' other types.
func pgTypeEntries() []entry {
	return []entry{
		{
			id: "unavailable", servers: postgresOnly(), by: byRowtrail,
			reason: "A large value that the source did not send again is `unavailable.value.placeholder` in the column's type, also where Debezium fails to make one and writes null, which cannot be told from a null: " +
				"in `numeric`, in `bytea` as base64 and in arrays of most types. As hexadecimal it is the placeholder's bytes, where Debezium has its text. An array of ISO dates has none, and is left out.",
			match: func(d *difference) bool {
				unchanged := strings.HasPrefix(d.kase, "unchanged ") && strings.HasPrefix(d.place(), "value.after.v") && (d.op == opUpdate || d.op == opRekey)
				return unchanged && d.ours != nil && (d.theirs == nil || d.mode.is(propBinary, "hex") && isText(d.theirs, unavailable))
			},
		},
		{
			id: "text-of-unknown-types", servers: postgresOnly(), by: byRowtrail,
			reason: "A column of a type that has no form in Connect is its text. Debezium leaves the column out (`include.unknown.datatypes`): geometric types but `point`, composites, multiranges, `tsquery`, `pg_lsn`, `txid_snapshot`, `regclass`, `cube`, " +
				"and arrays of `money`, `interval`, `name`, `xml`, `point`, `bit varying` and of domains.",
			match: func(d *difference) bool {
				unknown := slices.Contains([]string{
					"amount[]", "box", "box[]", "circle", "cube", "int4multirange", "interval[]", "line", "lseg", "money[]", "name[]", "path", "pg_lsn", "point[]", "polygon", "pt", "pt[]", "regclass", "tsquery",
					"txid_snapshot", "varbit[]", "xml[]", "only unknown types",
				}, d.typ())
				return unknown && isMissing(d.theirs) && (d.inValue() || d.inSchema())
			},
		},
		{
			id: "points", servers: postgresOnly(), by: byRowtrail,
			reason: "`point` is its text. Debezium has a struct of `x`, `y`, `wkb` and `srid`.",
			match:  func(d *difference) bool { return d.ofType("point") },
		},
		{
			id: "names", servers: postgresOnly(), by: byDebezium,
			reason: "`name` is a text. Debezium writes null for its values in the stream, and an empty text where it is a key, which then never changes.",
			match: func(d *difference) bool {
				return d.ofType("name") && d.inValue() || d.kase == "key name" && (d.path == "record" || d.op != opLoad) || d.countOf(pgKeyTable("name"))
			},
		},
		{
			id: "bit-arrays", servers: postgresOnly(), by: byDebezium,
			reason: "An array of `bit` is an array. Debezium's schema is of one `bit`, and its values are null.",
			match:  func(d *difference) bool { return d.ofType("bit(1)[]", "bit(3)[]") },
		},
		{
			id: "enum-arrays", servers: postgresOnly(), by: byDebezium,
			reason: "An element of an array can be null, so it is optional in the Connect schema. In Debezium's it is not for enums and `tsvector`, and a null makes the whole array null.",
			match: func(d *difference) bool {
				_, rest, inSchema := d.schema()
				return inSchema && d.ofType("other.mood[]", "tsvector[]") && rest == ".items.optional" || d.inValue() && d.ofType("other.mood[]") && d.theirs == nil
			},
		},
		{
			id: "array-dimensions", servers: postgresOnly(), by: byRowtrail,
			reason: "An array of several dimensions is nested, and one whose lower bounds are not 1 is its text. Debezium's elements are null or the names of Java objects, and bounds are lost.",
			match: func(d *difference) bool {
				_, nested := d.ours.([]any)
				bounds, _ := d.ours.(string)
				return d.ofType("int4[]", "text[]") && d.inValue() && (nested || strings.HasPrefix(bounds, "["))
			},
		},
		{
			id: "vectors", servers: postgresOnly(), by: byDebezium,
			reason: "`int2vector` and `oidvector` are their text. Debezium has arrays, which are empty.",
			match:  func(d *difference) bool { return d.ofType("int2vector", "oidvector") },
		},
		{
			id: "hstore-order", servers: postgresOnly(), by: byDebezium,
			reason: "The keys of an `hstore` are in the source's order. Debezium's are in that of a hash map.",
			match: func(d *difference) bool {
				return d.ofType("hstore", "hstore[]") && d.inValue() && sameMembers(d.ours, d.theirs)
			},
		},
	}
}

// unavailable is what stands for a value that was not sent.
const unavailable = "__debezium_unavailable_value"

// pgTable is the table of a type.
func pgTable(typ string) string {
	for i, t := range pgTypes() {
		if t.typ == typ {
			return "public." + pgTypeTable(i)
		}
	}
	return ""
}

// pgKeyTable is the table whose key is of a type.
func pgKeyTable(typ string) string {
	for i, k := range pgKeys() {
		if k[0] == typ {
			return "public.k" + strconv.Itoa(i)
		}
	}
	return ""
}

// countOf tells that the difference is in the counts of a transaction that changed a table.
func (d *difference) countOf(table string) bool {
	if d.kase != "transactions" || d.ourRecord == nil || d.place() != "value.event_count" && !strings.HasPrefix(d.place(), "value.data_collections") {
		return false
	}
	return strings.Contains(text(field(payload(d.ourRecord.value), "data_collections")), `"`+table+`"`)
}

// pgTypeTable is the name of the table of the type at a place of the list.
func pgTypeTable(place int) string { return "t" + strconv.Itoa(place) }
