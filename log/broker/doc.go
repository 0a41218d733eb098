// Package broker serves partition logs to anything that speaks the Kafka protocol.
//
// A connection has one reader, which turns bytes into bounded frames, and one processor, which decodes
// and dispatches them. Requests of a connection are handled one after the other and answered in order;
// only Produce is pipelined: its batches are staged in arrival order and the answers awaited together.
// The message codec is kmsg; what is read by hand is the request header, and the outline of large
// Produce frames before they are decoded. Batches go from the request's buffer to the partition, and
// from the partition to the response, as they are.
//
// Files: apis.go, groupapis.go, txnapis.go and securityapis.go are the tables of what is served, api_<key>_<name>.go holds one
// API each (33 is beside 44). listener.go, conn.go, frame.go and responses.go carry connections; pipe.go
// is the in-process network; topicconfig.go names every topic property; coordinators.go joins the group
// and transaction coordinators, which are packages of their own, to partitions. Package pace holds readers of history back while
// producers need the cores.
//
// In a cluster each node serves what it leads, and tells clients of the rest (endpoints.go, leaderhints.go). Coordinators serve the shards whose
// partition their node leads; transactions span nodes through peers.go and markers.go, and package admit keeps late batches out of the
// partitions that this node leads, wherever their transaction is coordinated.
//
// The package enforces invariant 1 (acks=all is answered from the partition's commit callback alone, and
// refused where min.insync.replicas cannot be met), invariant 5 (read_committed ends at the last stable
// offset and lists the aborted transactions below it) and invariant 9: frames, requests in flight per
// connection and in all, fetched bytes, answers (answers.go; package room shares the bytes among hosts), what a request may name (named.go), connections and the
// time that each may take have named bounds, and so has what clients can make it log (package quiet); in-process clients have theirs
// apart from the network's.
package broker
