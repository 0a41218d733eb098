// Package topicconfig is the one table of topic properties: their names, types, ranges, defaults and the name that Kafka gives the
// same setting on a broker, and what a topic's properties mean once they are put over the node's defaults (Settings).
//
// A property's value comes from the first of: the topic's own configuration, the cluster-wide dynamic default, the node's
// YAML file, the table's default. The package is pure: no clock, no I/O, no state.
package topicconfig
