// Package clients is a module of its own for tests with the Kafka clients of others, so that they are no dependencies of
// Rowtrail. `make conformance` builds the tests and runs them against a node, whose address is in BOOTSTRAP.
package clients
