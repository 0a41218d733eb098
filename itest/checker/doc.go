// Command checker runs mixed transactional load against a node that is killed and paused all the time, through a network that
// delays, repeats and reorders requests, and judges what its clients did and saw: package history has the properties.
//
//	go run ./itest/checker -for 10m -seed N
//
// Package load has the clients.
//
// The faults: SIGKILL and restart every few seconds; SIGSTOP for longer than the clients' timeouts; and package proxy. What
// the proxy may do to a request depends on what the protocol can defend against. Before transactions v2 a producer keeps its
// epoch from one transaction to the next, so an EndTxn that arrives late decides a later transaction, and a late
// TxnOffsetCommit moves the offsets of a later one back (KAFKA-17754): any broker would fail. So these two are repeated and
// reordered in their v2 versions only, and in older versions no connection is cut while one is unanswered, and their
// clients wait for longer than any pause. AddPartitionsToTxn, AddOffsetsToTxn, InitProducerId and Produce are repeated and
// reordered in every version.
//
// A run in which the node's metrics tell of no round of compaction on the keyed topic fails, too: it would prove nothing of it.
//
// Faults and load are drawn from the seed, which is printed. Threads and the machine still differ from run to run: a
// seed repeats the kind of a run and not every step. A failed run keeps its operations, the node's log and data.
package main
