// Package txn coordinates transactions.
//
// Txn (state.go) is a pure state machine of one transactional id: it is given requests and the time, and says what to
// answer and whether its new state must be written first. records.go turns it into the records that Kafka keeps in
// __transaction_state, and back. Coordinator (coordinator.go, requests.go, markers.go, view.go) owns them, one
// journal per partition of that topic.
//
//	          AddPartitions          EndTxn               all markers written
//	Empty ───────────────► Ongoing ───────► PrepareCommit ──────────────────► CompleteCommit
//	                          │   EndTxn, fenced, timed out                              │
//	                          └───────────► PrepareAbort ───────────────────► CompleteAbort
//	Ongoing ◄──────────────────────────────── AddPartitions ─────────────────────────────┘
//
// The record of PrepareCommit or PrepareAbort is the decision: the client is answered when it is committed (invariant
// 1), and from then on the markers are written until every partition has its own, over restarts (invariant
// 5). Crash argument: before that record the transaction is Ongoing and its timeout aborts it; after it, a load finds
// Prepare* and writes all markers again, which partitions take twice without harm; after CompleteX nothing is left
// to do. InitProducerId raises the epoch in the log before it answers, so the instance before it is fenced
// (invariant 3).
//
// Partitions may be led by other nodes: a marker that was perhaps taken is sent again under the same coordinator epoch until it is answered, and one of a
// coordinator that was replaced is refused by the partition. What is written into a partition is let in there, by package admit.
//
// A request that finds its producer's last transaction being completed waits for the completion instead of being sent
// away: what it writes then shares the completion's append. Invariant 9: such waits are bounded by waitTimeout and
// maxWaiters.
package txn
