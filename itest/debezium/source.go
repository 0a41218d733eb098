package main

import "context"

// source is a server that both capture.
type source interface {
	// cases are the tables of the matrix, for a mode.
	cases(m *mode, seed uint64) []tableCase
	// open makes a new database and ends what captured the one before.
	open(ctx context.Context, database string) error
	// exec sends statements one after the other to that database.
	exec(ctx context.Context, statements ...string) error
	connection
	close() error
}

// connection is how each of the two is told of the server.
type connection interface {
	// rowtrail is the type and the properties of a connector of that prefix.
	rowtrail(prefix string) (typ string, props map[string]string)
	debezium() map[string]string
	// ready tells by the last of Debezium's records that what is written from now on is captured.
	ready(m *mode, last *record) bool
	// dataTopic is a table's topic without the prefix.
	dataTopic(table string) string
}

// endTable gets one row at the very end.
const endTable = "capture_end"

func setUpEnd() string { return "CREATE TABLE " + endTable + " (id int PRIMARY KEY)" }
func writeEnd() string { return "INSERT INTO " + endTable + " VALUES (1)" }
