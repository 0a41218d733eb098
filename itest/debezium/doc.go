// Command debezium compares Rowtrail with Debezium: both capture the same tables of the same server, and their events are compared
// field by field.
//
//	make debezium
//	make debezium RUN='decimal.*' SOURCE=postgres,mysql
//	make debezium JSON=1
//
// The matrix is generated: all types with border values and random ones, times what happens to a row (initial load, insert, update,
// change of the key, delete), times the handling modes, with and without Connect schemas. Every mode has a database of its own, a
// Rowtrail node with two connectors, and a run of Debezium's embedded engine, whose version java/pom.xml pins. Its events are
// printed by Connect's JSON converter with its default settings.
//
// A difference needs an entry (entries.go), which says what it is, why it is, and whose choice. A difference without an entry fails the
// run, and so does an entry without a difference. docs/debezium.md is the list of entries. The program ends with 0 when all is explained, with
// 1 when it is not, and with 2 when it could not compare.
//
// What is set aside, for it cannot be equal: when an event was processed, the connector's name and version, ids of transactions but for their
// form, and in the initial load the place in the source and the time, as each side has a load of its own. Of all other events the place
// and the time of the source are compared, too.
package main
