// Package cluster replicates partition logs through Raft groups on the nodes of a cluster, and keeps the catalogue of nodes and topics.
//
// It is responsible for
//
//   - driving every Raft group of this node with a few step workers and one log writer (scheduler, worker, writer, group): what all groups
//     have ready shares one transaction and one sync;
//   - what nodes say to each other (peer, wire, network), and raftSnapshots (raftsnapshots);
//   - who the nodes are: formation, identity, nodes; and the catalogue, which is a fold of Raft group 1 (controller, catalog, operations);
//   - which replicas there should be, as pure functions of the catalogue (placement, balance), and the way there, which the leader of each
//     group goes one change at a time (membership, steer);
//   - who leads and who is in sync (insync, leaders), as Kafka's clients see it;
//   - opening, leading, retaining, replacing and dropping the replicas that the catalogue places on this node (reconcile, lost).
//
// It replicates opaque bytes: a group sees its log only through StateMachine, EntryStore, SnapshotStore, Sharer, Retainer and Committer. One
// node is a cluster with one voter: there is no second code path.
//
// Goroutines: step workers, one writer, one clock (ticks and retention), one reconciler, and those of connections and transfers. A group is
// owned by one worker and has no lock; group, storage, nextStep, inSync, Placement, catalogState and the topic rules are free of goroutines
// and clocks, so that a simulation drives them by hand: one seed is one run.
//
// Invariants enforced here:
//
//   - 1 (acknowledged means durable): an append with acks all completes only when its entry is applied, which Raft allows only after a
//     quorum's sync, and is known to be on the disks of min.insync.replicas voters, between two configurations in either of them; acks 1 only
//     after this node's sync. A failed Commit halts the node and acknowledges nothing more. A leader serves nothing before the first entry of
//     its own term is applied.
//   - 2 (order): batches of one caller are staged, proposed, written and applied in call order.
//   - 8 (state is a fold of the log): the catalogue is rebuilt from the controller's log alone; a group's members are a fold of its own.
//   - 9 (bounded): bytes are bounded per worker (until they are durable), per group (until they are answered) and per peer; what does not fit
//     is dropped, and Raft repeats it.
//   - 10 (compaction): only entries that are durable on every member that is waited for go below the horizon. The leader tells how far that is
//     with its heartbeats, and it never goes back: a new member, or one that comes back late, gets a raftSnapshot.
//
// # Members
//
// What should be is the catalogue's placement; what is, is Raft's configuration, which changes as the log is applied. A member is a node and a
// generation. A generation is given once, so who lost a log, or was dropped, comes back as somebody who has never voted. During a move the
// nodes keep whatever may be a voter: the present replicas, the coming ones, and those of moves that were given up, until the leader says that the
// configuration is what it should be and that no change of it is under way. A lost replica is kept by nobody.
//
// Raft counts votes by the configuration that is applied, and lets a change follow only one that is committed. That is safe as long as a member
// whose log holds a change knows that the ones before it are committed. Messages say so; a restart knows it because an entry that changes the members
// is durable together with the commit index as of then (log.HardState). Who learns that a change is committed writes that down, too, and a move is
// over when an entry behind its last change is committed (vouch): members that restart must not ask those for their votes that are gone.
//
// # Reads
//
// Below the high watermark every replica answers: what is committed is never wrong, only old. What must be what is now goes one of two ways.
//
// The lease: a leader that has not heard of a quorum for electionTicks of its own clock steps down (CheckQuorum), and a member that has
// heard of its leader gives no vote for as long (PreVote, CheckQuorum). So a leader that others have replaced says that it leads for two such
// times at most behind the last answer from before, which may have been long under way, and one more where it was handing over, counted by its own
// ticks: while a process is stopped its clock is, too, and what it was about to say before goes out after. Its answers are those of a moment when it led. It acknowledges nothing: that takes a quorum, which has moved on. Who rests on the lease
// must therefore write before it answers, or accept an answer of that age.
//
// Confirm: the leader asks a quorum whether it leads still (Raft's ReadIndex) and answers once what was committed by then is applied. No clock
// is part of the argument.
//
// # Crash argument
//
// A process may die between any two steps; what it knew is what its disk holds.
//
// Append: the writer's Commit carries entries, truncations, hard states and raftSnapshots of many groups. Before it returns no message that rests on it
// has left the node (Raft's responses wait for it), so whatever part of it is durable may be decided by the next election: each part leaves a valid log.
// After it returns the entries are there, and a quorum of such disks is what commits them. A disk that is full keeps the writer waiting with
// what it has, in order; elsewhere that looks like a slow node.
//
// Vote: term and vote are durable before the answer leaves. A commit index is a lower bound, never ahead of the entries, and what lies above is
// committed again.
//
// Lost tail: a log that ends before the commit index that it kept, or before what the leader knows to be there, was cut. It says nothing any more, and
// is replaced. One that was cut cleanly above anything that says so cannot be told from a crash; Raft's quorum covers it as long as the others
// have what it acknowledged.
//
// Lost disk: a directory without the disk id that the catalogue knows holds none of its replicas, and opens none: it may have read no more of the
// catalogue's log than where its former replicas were. All are replaced by fresh generations, which learn first. A
// group goes on as long as a majority of its voters keep their disks.
//
// raftSnapshot: chunks are durable as they arrive, under names that nothing refers to; horizon, manifest, hard state and checkpoint
// change in the one transaction that also carries Raft's storage message, so a crash leaves the old log or the new one. One arrives at a time, and what
// has arrived whole keeps its place until Raft has taken it or turned it down.
//
// Change of members: a change is an entry, and its apply is the change. A crash anywhere leaves a configuration that the next leader goes on
// from: learners that are not promoted, a joint configuration that is not left, a leader that is no member any more. A move that
// has arrived and is not in the catalogue yet is reported by the next leader.
//
// Catalogue: it changes in one record batch per operation, so an operation is there whole or not at all. Logs that a crash left behind between
// "topic deleted" or "replica moved" and "log dropped" are found at start, because no member that the catalogue knows owns them.
package cluster
