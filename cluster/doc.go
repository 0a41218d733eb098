// Package cluster replicates partition logs through Raft groups and keeps the catalogue of topics.
//
// It is responsible for
//
//   - driving every Raft group of this node with a few step workers and one log writer (scheduler, worker,
//     writer, group): what all groups have ready shares one transaction and one sync;
//   - the placement and the catalogue: Raft group 1 holds the controller's log, and the catalogue is a fold of it;
//   - opening, leading, retaining and dropping the replicas that the catalogue places on this node.
//
// It replicates opaque bytes: a group sees its log only through StateMachine, EntryStore and Committer.
//
// Goroutines: Workers step workers, one writer, one clock (ticks and retention), one reconciler. A group is owned by
// one worker and has no lock; group, storage, catalogState, place and the topic rules are free of goroutines and clocks.
//
// Invariants enforced here:
//
//   - 1 (acknowledged means durable): an append with acks all completes only when its entry is applied, which Raft allows
//     only after a quorum's sync; acks 1 only after this node's sync. A failed Commit halts the node and acknowledges
//     nothing more. A leader serves nothing before the first entry of its own term is applied.
//   - 2 (order): batches of one caller are staged, proposed, written and applied in call order.
//   - 8 (state is a fold of the log): the catalogue is rebuilt from the controller's log alone.
//   - 9 (bounded): bytes are bounded per worker (until they are durable) and per group (until they are answered).
//
// Crash argument. A worker may die between any two steps. Before the writer's Commit returns nothing has been
// acknowledged, so whatever part of it is on disk is decided by Raft at the next election; after it returns the entries are
// on disk and are committed again by the next leader. The catalogue changes in one record batch per operation, so an
// operation is there whole or not at all; groups that a crash left behind between "topic deleted" and "log dropped" are
// found at start, because group ids below the catalogue's next id that no topic owns belong to nobody.
package cluster
