// Package peer carries what nodes of a cluster say to each other.
//
// One listener per node takes connections of several kinds (Kind); the first frame of each is a Hello that says who calls, of which
// cluster, and for what. Raft's messages go over two connections per peer and direction, so that a heartbeat never waits behind a megabyte of
// appends; raftSnapshots, calls and Kafka connections have their own.
//
// Messages may be lost: an Outbox is bounded in bytes and drops what does not fit (invariant 9), a broken connection drops what was on its
// way. Raft repeats what matters. Whoever sends is told that something was lost, and when a peer's process is gone.
//
// Goroutines: one that accepts, one per accepted connection, and one per peer and kind that dials and writes. Close ends all of them.
package peer
