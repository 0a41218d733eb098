// Package daemon wires a node: store, cluster, broker, views, connectors, sinks and the admin endpoint. It is importable,
// so that tests run the same node as the binary.
//
// Start-up. The ports are taken first, before any data is opened, so that "port taken" costs nothing. Then each part
// starts on the one before it: the store (which locks the data directory), the Raft groups on the store, the broker on the
// groups, the views on the partitions. The admin endpoint answers for health and readiness from the beginning, as a node of a new cluster waits for
// its peers, and for the rest once there is something to show.
// Connectors and sinks come last; they are ordinary clients of the broker through its in-process dialer, and one that
// fails, at start or later, is shown as failed and stops neither its neighbours nor the node (invariant 7).
//
// Shutdown goes the other way, and each step leaves the next nothing to lose:
//
//  1. /readyz says "stopping".
//  2. Connectors and sinks end: they finish or abort their open transactions and leave their groups.
//  3. What the node leads is handed to others, who give nothing back, so that clients need no election. Clients that ask here for a moment more are
//     told who leads.
//  4. The broker stops reading, answers what has arrived, and closes connections; after it nobody appends.
//  5. The admin endpoint ends; after it nobody reads views.
//  6. Views stop folding and close.
//  7. The Raft groups hand in what is in flight and stop.
//  8. The store writes checkpoints and closes, which releases the data directory.
//
// A deadline cuts every step short; what is then lost is time at the next start, never data (invariant 1), because
// nothing that was acknowledged waits for a shutdown to be durable.
package daemon
