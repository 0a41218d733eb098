// Package cli is rowtrail's command line. `serve` runs a node; the other commands ask one over the Kafka protocol (topics,
// tail, groups) and over HTTP (state, history, connectors, sinks). Every command writes a table or JSON, explains failures
// in one line that names the remedy, and ends with one of the exit codes below.
package cli
