// Package event is the change event: its envelope, key, position header and table schema, with the encoders and decoders
// of each. The JSON is Debezium's for Postgres, MySQL and MariaDB (3.6.1 for the latter two), so that consumers of Debezium read
// it unchanged.
//
// A value travels as JSON in the representation that the schema's Format names and comes back from the Decoder as the
// source's canonical text: what a session with the settings listed at Datum prints. A value that its representation cannot
// carry is refused with a *ValueError, never changed. Three settings are lossy because their Debezium meaning is
// (interval.handling.mode=numeric, time.precision.mode=connect, zero.date.handling.mode=debezium); Schema.Lossy names the columns
// they touch.
//
// Where Rowtrail's JSON is on purpose more than Debezium's:
//   - interval.handling.mode defaults to string, because numeric cannot tell a month from 30.4375 days;
//   - NaN and the infinities of numeric and float columns are the JSON strings "NaN", "Infinity", "-Infinity";
//   - timetz keeps its offset instead of being moved to UTC;
//   - an infinite date is the largest or smallest int32;
//   - decimal.handling.mode=double writes all digits, so that rounding is the reader's choice;
//   - bit varying, and bit without a declared length, are their text, as bytes would lose the length;
//   - an array with lower bounds other than 1 is its text in one JSON string;
//   - ranges, composites, geometric and unknown types are their text;
//   - columns that the source did not send in a before image are left out of it instead of being filled in.
//
// Of MySQL and MariaDB:
//   - bigint.unsigned.handling.mode defaults to precise, and long refuses what is above 2^63-1, where Debezium's default wraps;
//   - dates that no calendar has (0000-00-00, 2023-00-15) are the source's text in a JSON string, where Debezium has null or 1970;
//     zero.date.handling.mode=fail refuses them, =debezium does as Debezium. The year of a date or YEAR is never moved into a century;
//   - TIME is signed and goes up to 838:59:59 in every mode, where Debezium's isostring and connect have null or 0 for what is no time
//     of the day; milliseconds of 32 bits refuse what is beyond them, where Debezium's wrap;
//   - FLOAT has the shortest digits of its 32 bits also where Debezium's schema is double, FLOAT(M,D);
//   - a column is what the server says it is: TINYINT(1), REAL and MariaDB's JSON are a number, a double and a text whatever the
//     statement called them;
//   - JSON is the server's text, with its spaces;
//   - INET4 and INET6 are their text, which Debezium does not know;
//   - Connect schemas have no defaults of columns.
//
// Invariant 6: Absent is a state of its own in Row, in the position header and after decoding.
// Invariant 7: every value is either carried exactly or refused by table, column and reason.
package event
