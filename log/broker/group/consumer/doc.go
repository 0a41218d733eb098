// Package consumer is the state machine of one group of the consumer protocol (KIP-848), in which the coordinator assigns.
//
// A Group has no clock, no goroutine and no log: every call brings the time and the topics, and returns the records that
// must be committed before its answer may be given out (invariant 1). The state is the fold of those records (invariant 8):
// Apply takes in each of them, in any order that compaction may leave, and Records returns what folds to the state. What
// is not in them begins anew after a load: the sessions, and the waits for a revocation.
//
// How members come to their partitions. A change of a member, of its subscription or of a topic raises the group epoch; the
// assignor then makes a target assignment of that epoch. Each member is led to its target on its own, in its own heartbeats:
// first it revokes what it must give up and keeps its epoch; once its heartbeat no longer names those partitions, it reaches
// the target's epoch and is given what no other member holds; what others still hold follows when they let go.
// Invariant: a partition has at most one owner, from its assignment until its owner has named it revoked, or is removed.
//
// File map: heartbeat.go the requests of members; reconcile.go a member's way to its target; assign.go the assignors;
// topics.go what is subscribed; changes.go and records.go the records, in Kafka's formats.
package consumer
