// Package admin is the node over HTTP: health, Prometheus metrics, topics, connectors, sinks, and the current and past
// state of rows. Large answers are streamed as JSON lines, so their size costs no memory (invariant 9). It only reads.
// It has no authentication and is bound to loopback unless the configuration says otherwise.
package admin
