// Package binlog decodes the binlog of MySQL 8.0 to 9.x and MariaDB 10.6 to 11.8: event packets in, rows out. It does no I/O,
// starts no goroutine and reads no clock.
//
// A Decoder keeps what later events need of earlier ones. Rows are decoded straight from the packet into event.Row, in the
// canonical text of event.Datum; what binds the columns of the wire to those of a schema is a Layout, made from the table
// map's Table and whatever else is known of the table.
//
// Canonical text: what a session prints under SET NAMES utf8mb4 and time_zone '+00:00', except that FLOAT and DOUBLE are the
// shortest text that reads back to the same bits, BIT is its digits, and binary strings, geometry (SRID and WKB) and vectors
// are \x and hex.
//
// Every event is understood, known to hold nothing, or an error: an incident, rows of version 0 and unknown types are never
// passed over. Input is not trusted: what is truncated, inconsistent or too large is an error, and memory grows only with
// bytes that really came.
package binlog
