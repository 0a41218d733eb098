// Package peers is a module of its own, so that what Rowtrail is measured against is no dependency of Rowtrail: kfake as
// a process, nats-server (go.mod's tool line builds it) and a JetStream load that prints what the bench's Kafka client measures.
package peers
