// Package broker serves partition logs to anything that speaks the Kafka protocol.
//
// A connection has one reader, which turns bytes into bounded frames, and one processor, which decodes
// and dispatches them. Requests of a connection are handled one after the other and answered in order;
// only Produce is pipelined: its batches are staged in arrival order and the answers awaited together.
// The message codec is kmsg; the only wire format read by hand is the request header.
//
// Files: apis.go is the table of what is served; api_<key>_<name>.go holds one API each. listener.go,
// conn.go, frame.go and responses.go carry connections; pipe.go is the in-process network;
// topicconfig.go names every topic property.
//
// The package enforces invariant 1 (acks=all is answered from the partition's commit callback alone),
// invariant 5 (read_committed ends at the last stable offset) and invariant 9 (frames, requests in
// flight, fetched bytes and connections all have named bounds).
package broker
