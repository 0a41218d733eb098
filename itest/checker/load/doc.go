// Package load is the clients of the checkers: mixed transactional load whose history package history judges, and the fates of
// requests that package proxy carries out.
//
// They are: plain idempotent producers; transactional ones that write to several partitions and topics, read in between,
// and commit, abort or vanish; a group that consumes, transforms and produces in transactions with its offsets; groups and
// assigned readers of committed records, and one of uncommitted ones; a keyed topic whose state is read again and again
// while it is compacted. Half of the transactional clients are held to the protocol of Kafka 3.9 (EndTxn up to version
// 4), the others use transactions v2 where the node offers them.
package load
