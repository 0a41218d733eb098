// Package event is the change event: its envelope, key, position header and table schema, with the encoders and decoders
// of each. The JSON is Debezium 3.x's for Postgres, so that consumers of Debezium read it unchanged.
//
// A value travels as JSON in the representation that the schema's Format names and comes back from the Decoder as the
// source's canonical text: what a session with the settings listed at Datum prints. A value that its representation cannot
// carry is refused with a *ValueError, never changed. Two settings are lossy because their Debezium meaning is
// (interval.handling.mode=numeric, time.precision.mode=connect); Schema.Lossy names the columns they touch.
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
// Invariant 6: Absent is a state of its own in Row, in the position header and after decoding.
// Invariant 7: every value is either carried exactly or refused by table, column and reason.
package event
